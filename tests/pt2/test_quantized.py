"""Programs that quantization of torch.ao made, without torch.ao: loaded, and as TorchScript."""

from __future__ import annotations

import pytest
import torch
import torch.ao.quantization.fx._decomposed as decomposed

import tsarchive
from tests.support.processes import torch_process
from tsarchive.formats.pt2.quantized_decomposed import FUNCTIONS

ops = torch.ops.quantized_decomposed
U8, I8 = torch.uint8, torch.int8
X = torch.linspace(-3, 5, 24).reshape(4, 6)
HALF, BRAIN = X.half(), X.bfloat16()
INTS = (torch.arange(24).reshape(4, 6) * 7 % 256).to(U8)
SIGNED = (torch.arange(24).reshape(4, 6) * 7 % 256 - 128).to(I8)
SCALE, ZERO = torch.tensor(0.1), torch.tensor(3)
LEAST, MOST = torch.tensor(0), torch.tensor(255)
SCALES, ZEROS = torch.tensor([0.1, 0.2, 0.05, 0.3]), torch.tensor([1, 2, 0, -5])
WIDE = torch.linspace(0.1, 0.4, 6, dtype=torch.float64)
TOKENS = torch.tensor([[0.1], [0.2], [0.05], [0.3]], dtype=torch.float64)
TOKEN_ZEROS = torch.tensor([[1], [2], [0], [-5]])
GROUPS = torch.full((4, 2), 0.1)
GROUP_ZEROS = torch.zeros(4, 2, dtype=torch.int32)
EPS = torch.finfo(torch.float32).eps

# Operator and overload, arguments; tensors are those of the program.
ROWS = {
    "quantize": ("quantize_per_tensor", "default", (X, 0.1, 3, 0, 255, U8)),
    "quantize-narrow": ("quantize_per_tensor", "default", (X, 0.1, -3, -8, 7, I8)),
    "quantize-half": ("quantize_per_tensor", "default", (HALF, 0.1, 3, 0, 255, U8)),
    "quantize-brain": ("quantize_per_tensor", "default", (BRAIN, 0.1, 3, 0, 255, U8)),
    "quantize-int16": ("quantize_per_tensor", "default", (X, 1e-4, 0, -32768, 32767, torch.int16)),
    "quantize-tensor": ("quantize_per_tensor", "tensor", (X, SCALE, ZERO, 0, 255, U8)),
    "quantize-tensor2": ("quantize_per_tensor", "tensor2", (X, SCALE, ZERO, LEAST, MOST, U8)),
    "dequantize": ("dequantize_per_tensor", "default", (INTS, 0.1, 3, 0, 255, U8)),
    "dequantize-signed": ("dequantize_per_tensor", "default", (SIGNED, 0.1, 3, -128, 127, I8)),
    "dequantize-tensor": ("dequantize_per_tensor", "tensor", (INTS, SCALE, ZERO, 0, 255, U8)),
    "dequantize-tensor2": (
        "dequantize_per_tensor", "tensor2", (INTS, SCALE, ZERO, LEAST, MOST, U8),
    ),
    "choose": ("choose_qparams", "tensor", (X, 0, 255, EPS, U8)),
    "choose-half": ("choose_qparams", "tensor", (HALF, -128, 127, EPS, I8)),
    "choose-zeros": ("choose_qparams", "tensor", (torch.zeros(3), 0, 255, EPS, U8)),
    "choose-symmetric": ("choose_qparams_symmetric", "tensor", (X, -127, 127, EPS, I8)),
    "choose-symmetric-bytes": ("choose_qparams_symmetric", "tensor", (X, 0, 255, EPS, U8)),
    "quantize-channel": ("quantize_per_channel", "default", (X, SCALES, ZEROS, 0, 0, 255, U8)),
    "quantize-channel-1": (
        "quantize_per_channel", "default", (X, WIDE, torch.zeros(6), 1, -128, 127, I8),
    ),
    "quantize-channel-last": (
        "quantize_per_channel", "default", (X, WIDE, torch.zeros(6), -1, -128, 127, I8),
    ),
    "dequantize-channel": (
        "dequantize_per_channel", "default", (INTS, SCALES, ZEROS, 0, 0, 255, U8),
    ),
    "dequantize-channel-symmetric": (
        "dequantize_per_channel", "default", (SIGNED, WIDE, None, 1, -128, 127, I8),
    ),
    "choose-token": ("choose_qparams_per_token", "default", (X, I8)),
    "choose-token-half": ("choose_qparams_per_token", "default", (HALF, I8)),
    "choose-token-asymmetric": ("choose_qparams_per_token_asymmetric", "default", (X, I8)),
    "quantize-token": (
        "quantize_per_token", "default", (X, TOKENS, TOKEN_ZEROS, -128, 127, I8),
    ),
    "dequantize-token": (
        "dequantize_per_token", "default",
        (SIGNED, TOKENS, TOKEN_ZEROS, -128, 127, I8, torch.float32),
    ),
    "quantize-group": (
        "quantize_per_channel_group", "default", (X, GROUPS, GROUP_ZEROS, -8, 7, I8, 3),
    ),
    "dequantize-group": (
        "dequantize_per_channel_group", "default",
        (SIGNED, GROUPS, GROUP_ZEROS, -128, 127, I8, 3, torch.float32),
    ),
    "dequantize-group-symmetric": (
        "dequantize_per_channel_group", "default",
        (SIGNED, GROUPS[:, :1], None, -128, 127, I8, 128, torch.bfloat16),
    ),
    "convert": ("convert_element_type", "no_fuse", (X, torch.float16)),
}  # fmt: skip


class Calls(torch.nn.Module):
    def __init__(self, operator, arguments):
        super().__init__()
        self.operator = operator
        self.arguments = arguments

    def forward(self, *tensors):
        given = iter(tensors)
        return self.operator(
            *(next(given) if isinstance(a, torch.Tensor) else a for a in self.arguments)
        )


def program(name, overload, arguments):
    tensors = tuple(a for a in arguments if isinstance(a, torch.Tensor))
    model = Calls(getattr(getattr(ops, name), overload), arguments)
    return torch.export.export(model, tensors), tensors


def stored(exported, path):
    torch.export.save(exported, path)
    return path


def leaves(value):
    return list(value) if isinstance(value, tuple | list) else [value]


def assert_same(found, wanted):
    for one, other in zip(leaves(found), leaves(wanted), strict=True):
        assert (one.dtype, one.shape, one.stride()) == (other.dtype, other.shape, other.stride())
        assert torch.equal(one, other)


@pytest.mark.parametrize("row", ROWS)
def test_operators_give_what_those_of_torch_give(row, tmp_path):
    exported, tensors = program(*ROWS[row])
    path = stored(exported, tmp_path / "net.pt2")
    wanted = exported.module()(*tensors)
    assert_same(tsarchive.load(path)(*tensors), wanted)
    tsarchive.convert(path, tmp_path / "net.pt")
    assert_same(torch.jit.load(tmp_path / "net.pt")(*tensors), wanted)


# In a process of its own: libraries of ExecuTorch register more under this namespace.
_REGISTERED = """
import torch
import torch.ao.quantization.fx._decomposed
print(*torch._C._dispatch_get_all_op_names())
"""


def test_every_operator_is_here():
    """All that torch registers, but for the one that is for training alone."""
    names = torch_process("-W", "ignore", "-c", _REGISTERED, cwd="/").stdout.split()
    known = {name for name in names if name.startswith("quantized_decomposed::")}
    ours = {".".join(filter(None, target)) for target in FUNCTIONS}
    assert known - ours == {"quantized_decomposed::fake_quant_per_channel"}
    assert ours <= known
    assert decomposed.quantized_decomposed_lib is not None


@pytest.mark.parametrize(
    ("row", "wrong"),
    [
        ("quantize", (X.double(),)),
        ("dequantize", (SIGNED,)),
        ("quantize-tensor", (X, SCALES, ZERO)),
        ("quantize-tensor2", (X, SCALE, ZERO, LEAST - 1, MOST)),
        ("choose", (X.double(),)),
        ("quantize-group", (X * float("nan"), GROUPS, GROUP_ZEROS)),
        ("quantize-token", (X, TOKENS[:2], TOKEN_ZEROS)),
    ],
)
def test_checks_are_those_of_torch(row, wrong, tmp_path):
    """Of what is given beside tensors, where the program does not fix it."""
    name, overload, arguments = ROWS[row]
    given = iter(wrong)
    called = [next(given) if isinstance(a, torch.Tensor) else a for a in arguments]
    with pytest.raises((AssertionError, RuntimeError)):
        getattr(getattr(ops, name), overload)(*called)
    exported, _ = program(name, overload, arguments)
    module = tsarchive.load(stored(exported, tmp_path / "net.pt2"))
    with pytest.raises((tsarchive.ArchiveError, RuntimeError)):
        module(*wrong)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3)
        self.linear = torch.nn.Linear(4, 2)

    def forward(self, x):
        return self.linear(torch.relu(self.conv(x)).mean((2, 3)))


def quantized_by_hand(model, x):
    """A program as PT2E leaves it: inputs and weights are quantized and dequantized."""

    class Quantized(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model
            weight = model.linear.weight.detach()
            scales = weight.abs().amax(1) / 127
            zeros = torch.zeros(len(scales), dtype=torch.int64)
            self.register_buffer("scales", scales)
            self.register_buffer("zeros", zeros)
            self.register_buffer(
                "weight", ops.quantize_per_channel(weight, scales, zeros, 0, -127, 127, I8)
            )

        def forward(self, x):
            scale, zero = ops.choose_qparams.tensor(x, -128, 127, EPS, I8)
            x = ops.quantize_per_tensor.tensor(x, scale, zero, -128, 127, I8)
            x = ops.dequantize_per_tensor.tensor(x, scale, zero, -128, 127, I8)
            x = torch.relu(self.model.conv(x)).mean((2, 3))
            weight = ops.dequantize_per_channel(
                self.weight, self.scales, self.zeros, 0, -127, 127, I8
            )
            return torch.nn.functional.linear(x, weight, self.model.linear.bias)

    return torch.export.export(Quantized(), (x,), dynamic_shapes={"x": {0: torch.export.Dim.AUTO}})


@pytest.mark.long("test_operators_give_what_those_of_torch_give")
def test_a_process_without_torch_ao_runs_both(tmp_path):
    x = torch.randn(2, 3, 8, 8)
    exported = quantized_by_hand(Net(), x)
    path = stored(exported, tmp_path / "net.pt2")
    tsarchive.convert(path, tmp_path / "net.pt")
    torch.save(x, tmp_path / "x.pt")
    code = (
        "import sys, torch, tsarchive\n"
        "x = torch.load('x.pt')\n"
        "torch.save([torch.jit.load('net.pt')(x), tsarchive.load('net.pt2')(x)], 'y.pt')\n"
        "assert 'torch.ao.quantization.fx._decomposed' not in sys.modules\n"
    )
    done = torch_process("-c", code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    wanted = exported.module()(x)
    for found in torch.load(tmp_path / "y.pt"):
        torch.testing.assert_close(found, wanted)


def test_audit_and_needs_know_them(tmp_path):
    exported, _ = program(*ROWS["quantize"])
    path = stored(exported, tmp_path / "net.pt2")
    assert tsarchive.audit(path).ok
    assert not tsarchive.missing(path)
    with tsarchive.open(path) as archive:
        assert archive.needs.operators == {}
