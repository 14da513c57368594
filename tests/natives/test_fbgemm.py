"""Layers of torch.jit.quantized, against torch's own where it still runs them."""

from __future__ import annotations

import io
import warnings

import pytest
import torch

import tsarchive
from tests.support.archives import ROOT
from tests.support.comparing import equal
from tsarchive.errors import ScriptError
from tsarchive.run.natives import NATIVES

aten = torch.ops.aten
if "fbgemm" not in torch.backends.quantized.supported_engines:
    pytest.skip("this build of torch has no FBGEMM", allow_module_level=True)
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def ramp(*shape):
    return torch.linspace(-1, 1, torch.Size(shape).numel()).view(shape)


def quantized(rows, columns):
    """A weight, its row sums, its scale and zero point."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch 2.15 calls the operator deprecated
        return NATIVES["aten::fbgemm_linear_quantize_weight"](ramp(rows, columns))


def test_weights_are_quantized_as_by_torch():
    assert equal(quantized(4, 8), tuple(aten.fbgemm_linear_quantize_weight(ramp(4, 8))))


@pytest.mark.parametrize(
    "key", ["aten::fbgemm_linear_int8_weight", "aten::fbgemm_linear_int8_weight_fp32_activation"]
)
@pytest.mark.parametrize(
    "pack", ["aten::fbgemm_pack_quantized_matrix", "aten::fbgemm_pack_quantized_matrix.KN"]
)
def test_linear_of_8_bits(key, pack):
    weight, offsets, scale, zero_point = quantized(4, 8)
    packed = NATIVES[pack](weight, *((8, 4) if pack.endswith("KN") else ()))
    rest = offsets, scale, zero_point, ramp(4)
    theirs = aten.fbgemm_pack_quantized_matrix(weight)
    name = key.partition("::")[2]
    expected = getattr(aten, name)(ramp(3, 8), weight, theirs, *rest)
    assert equal(NATIVES[key](ramp(3, 8), weight, packed, *rest), expected)


@pytest.mark.parametrize(
    "key", ["aten::fbgemm_linear_fp16_weight", "aten::fbgemm_linear_fp16_weight_fp32_activation"]
)
def test_linear_of_half_precision(key):
    packed = NATIVES["aten::fbgemm_pack_gemm_matrix_fp16"](ramp(4, 8) * 1e5)
    theirs = aten.fbgemm_pack_gemm_matrix_fp16(ramp(4, 8) * 1e5)
    expected = getattr(aten, key.partition("::")[2])(ramp(3, 8), theirs, ramp(4))
    assert equal(NATIVES[key](ramp(3, 8), packed, ramp(4)), expected)


def cell_parameters(gates):
    (w_ih, c_ih, s_ih, z_ih), (w_hh, c_hh, s_hh, z_hh) = (
        quantized(gates * 3, 5),
        quantized(gates * 3, 3),
    )
    biases = ramp(gates * 3), ramp(gates * 3) * 0.5
    pack = aten.fbgemm_pack_quantized_matrix
    return (w_ih, w_hh, *biases, pack(w_ih), pack(w_hh), c_ih, c_hh, s_ih, s_hh, z_ih, z_hh)


@pytest.mark.parametrize(
    ("key", "gates"),
    [
        ("aten::quantized_rnn_relu_cell", 1),
        ("aten::quantized_rnn_tanh_cell", 1),
        ("aten::quantized_gru_cell", 3),
        ("aten::quantized_lstm_cell", 4),
    ],
)
def test_cells(key, gates):
    state = [ramp(2, 3), ramp(2, 3) * 0.3] if gates == 4 else ramp(2, 3)
    given = ramp(2, 5), state, *cell_parameters(gates)
    expected = getattr(aten, key.partition("::")[2])(*given)
    assert equal(NATIVES[key](*given), expected)


def test_weights_that_are_not_packed():
    with pytest.raises(ScriptError, match="call _unpack"):
        NATIVES["aten::fbgemm_linear_fp16_weight"](
            ramp(3, 8), torch.zeros((), dtype=torch.uint8), ramp(4)
        )


WEIGHT, OFFSETS, *REST = quantized(4, 8)


@pytest.mark.parametrize(
    ("input", "weight", "offsets", "bias", "told"),
    [
        (ramp(3, 7), WEIGHT, OFFSETS, ramp(4), "8 columns"),
        (ramp(3, 8), ramp(4, 8), OFFSETS, ramp(4), "a weight of torch.float32"),
        (ramp(3, 8), WEIGHT, OFFSETS[:3], ramp(4), "3 sums of 4 rows"),
        (ramp(3, 8), WEIGHT, OFFSETS, ramp(3), "a bias"),
        (ramp(3, 8).double(), WEIGHT, OFFSETS, ramp(4), "torch.float64"),
    ],
    ids=["input", "weight", "sums", "bias", "dtype"],
)
def test_what_does_not_fit_is_refused(input, weight, offsets, bias, told):
    with pytest.raises(ScriptError, match=told):
        NATIVES["aten::fbgemm_linear_int8_weight"](input, weight, weight, offsets, *REST, bias)


@pytest.mark.parametrize(
    "key", ["aten::quantized_gru.input_legacy", "aten::quantized_gru.data_legacy"]
)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_gru_is_its_cells(key, bidirectional):
    """Over one step nothing is shared between steps, so that the cell of torch tells the result."""
    directions = 2 if bidirectional else 1
    parameters = [
        torch.tensor(p) if not isinstance(p, torch.Tensor) else p for p in cell_parameters(3)
    ]
    state = ramp(directions, 2, 3)
    x = ramp(2, 5)
    sizes = {"aten::quantized_gru.data_legacy": (x, torch.tensor([2]))}.get(key, (x[None],))
    tail = () if "data" in key else (False,)
    found, end = NATIVES[key](
        *sizes, state, parameters * directions, True, 1, 0.0, False, bidirectional, *tail
    )
    steps = [aten.quantized_gru_cell(x, h, *cell_parameters(3)) for h in state]
    assert equal(found.reshape(2, -1), torch.cat(steps, -1))
    assert equal(end, torch.stack(steps))


OLD = ROOT / "fixtures" / "old"
RECURRENT = ["jit_quantized_lstm", "jit_quantized_gru", "jit_quantized_lstm_half"]


@pytest.mark.parametrize("version", ["1.4.0", "1.5.1"])
@pytest.mark.parametrize("name", ["jit_quantized_cells", "jit_quantized_linear", *RECURRENT])
def test_archives_give_what_the_old_torch_gave(version, name):
    calls = torch.load(OLD / version / f"{name}.io.pt", weights_only=True)
    policy = tsarchive.Policy.default().allow("aten::set_")
    module = tsarchive.load(OLD / version / f"{name}.pt", policy=policy)
    if name.endswith("half"):  # those of 8 bits need no other weight than the one they have
        for part in module.modules():
            if hasattr(part, "_unpack"):
                part._unpack()
    with torch.no_grad():
        for method, call in calls:
            found = getattr(module, method)(*call["args"])
            # Releases of FBGEMM round some activations to the step beside it, a hundredth here.
            torch.testing.assert_close(found, call["expected"], rtol=0.0, atol=1e-2)


@pytest.mark.parametrize("version", ["1.4.0", "1.5.1"])
@pytest.mark.parametrize("canonical", [False, True], ids=["usual", "canonical"])
@pytest.mark.parametrize("name", ["jit_quantized_cells", "jit_quantized_linear", *RECURRENT])
def test_archives_stay_the_same(version, name, canonical):
    first, second = io.BytesIO(), io.BytesIO()
    tsarchive.save(tsarchive.load(OLD / version / f"{name}.pt"), first, canonical=canonical)
    again = tsarchive.load(io.BytesIO(first.getvalue()))
    tsarchive.save(again, second, canonical=canonical)
    assert first.getvalue() == second.getvalue()
