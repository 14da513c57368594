"""Archives that torch 1.0, 1.1 and 1.2 wrote: loaded, run, and saved in the form of today."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import traceback

import pytest
import torch

import tsarchive
from tests.support.archives import ROOT, saved, torch_loaded
from tests.support.comparing import equal
from tests.support.legacy_archives import FIXTURES, archive, fixture, model_of, program

# Convolutions and recurrent networks differ in the last bits from those of old releases.
_CLOSE = {"rtol": 1e-6, "atol": 1e-6}

pytestmark = pytest.mark.filterwarnings("ignore:indexing with dtype torch.uint8:UserWarning")


def agree(one, two):
    if isinstance(two, torch.Tensor):
        torch.testing.assert_close(one.detach(), two, **_CLOSE)
    elif isinstance(two, list | tuple):
        assert len(one) == len(two)
        for item, other in zip(one, two, strict=True):
            agree(item, other)
    else:
        assert equal(one, two)


def check_calls(module, path):
    """The calls that the old torch made after loading the file give what they gave there."""
    calls = torch.load(path.with_suffix(".io.pt"), weights_only=True)
    assert calls
    for name, each in calls.items():
        for call in each:
            agree(getattr(module, name)(*call["args"]), call["expected"])


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_fixtures_run_as_in_the_torch_that_wrote_them(path):
    check_calls(tsarchive.load(path), path)


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_fixtures_are_saved_in_the_form_of_today(path):
    data = saved(tsarchive.load(path))
    check_calls(torch_loaded(data), path)
    check_calls(tsarchive.load(io.BytesIO(data)), path)
    assert saved(tsarchive.load(path)) == data


def test_manifest_lists_the_fixtures():
    done = subprocess.run(
        [sys.executable, ROOT / "fixtures" / "make_legacy.py", "--check"],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, "")
    manifest = json.loads((ROOT / "fixtures" / "legacy" / "manifest.json").read_text())
    assert {entry["torch"] for entry in manifest.values()} == {"1.0.1", "1.1.0", "1.2.0"}


def test_a_loaded_module_is_one_of_torch_nn():
    module = tsarchive.load(fixture("nested-1.2.0"))
    assert list(module.state_dict()) == [
        "count", "first.weight", "first.mean", "second.weight", "second.mean"
    ]  # fmt: skip
    assert [name for name, _ in module.named_parameters()] == ["first.weight", "second.weight"]
    assert module.first.weight.data_ptr() == module.second.weight.data_ptr()
    assert module.first.weight.requires_grad
    module(torch.ones(3, 3)).sum().backward()
    assert module.first.weight.grad is not None


def test_the_mode_of_a_module_is_kept():
    module = tsarchive.load(fixture("recursive-1.2.0"))
    assert [part.training for part in module.layers.children()] == [True, False, False]
    module.train()
    assert all(part.training for part in tsarchive.load(io.BytesIO(saved(module))).modules())


def test_tensors_are_views_of_the_records():
    module = tsarchive.load(fixture("views-1.1.0"))
    assert module.tail.storage_offset() == 6
    assert module.crossed.stride() == (1, 3)
    assert module.single.shape == ()
    assert module.empty.shape == (0, 3)
    assert module.tail.untyped_storage().data_ptr() == module.crossed.untyped_storage().data_ptr()


def test_map_location():
    module = tsarchive.load(fixture("nested-1.0.1"), map_location="meta")
    assert {tensor.device.type for tensor in module.state_dict().values()} == {"meta"}


def test_extra_files_are_kept():
    module = tsarchive.load(program("def forward(self) -> int:\n  return 1\n"))
    written = io.BytesIO()
    tsarchive.save(module, written, extra_files={"note": b"text"})
    again = tsarchive.load(io.BytesIO(written.getvalue()))
    with tsarchive.open(io.BytesIO(saved(again))) as archive:
        assert archive.read("extra/note") == b"text"


def test_errors_name_the_source_that_the_user_wrote():
    module = tsarchive.load(fixture("nested-1.2.0"))
    with pytest.raises(RuntimeError) as raised:
        module(torch.ones(2, 2))
    places = traceback.extract_tb(raised.value.__traceback__)
    assert any(place.filename.endswith("fixtures/legacy_modules.py") for place in places)


_STATE_CODE = """\
op_version_set = 1
def __getstate__(self) -> int:
  return self.n
def __setstate__(self,
    state: int) -> None:
  self.n = state
  return None
def forward(self) -> int:
  return self.n
"""
_STATE = {
    "attributes": [{"type": "int", "name": "n", "id": "-1"}],
    "getStateAttributeId": "0",
    "torchscriptArena": {"key": "code/m.py"},
    "name": "m",
}


def test_a_state_is_set_and_saved():
    records = {"code/m.py": _STATE_CODE, "attributes.pkl": b"\x80\x02(K\x05t."}
    module = tsarchive.load(archive(model_of(mainModule=_STATE), **records))
    assert module() == 5
    module.eval()
    assert torch_loaded(saved(module))() == 5


def test_parts_beside_a_state_are_loaded_and_cannot_be_saved():
    main = _STATE | {"parameters": [{"name": "weight", "tensorId": "0"}]}
    records = {"code/m.py": _STATE_CODE, "attributes.pkl": b"\x80\x02(K\x05t."}
    module = tsarchive.load(archive(model_of(mainModule=main), **records))
    assert equal(module.weight.detach(), torch.tensor([1.0, 2.0]))
    with pytest.raises(tsarchive.SaveError, match="does not set 'weight'"):
        saved(module)


# Meaning

_INTEGERS = torch.tensor([7, -7, 9])
_TWOS = torch.tensor([2, 2, -4])
_WHOLE = torch.tensor([3, -3, -2])
_FUNCTION = "def half(a: Tensor, b: Tensor) -> Tensor:\n  return torch.div(a, b)\n"


def _in_method(expression: str) -> str:
    return f"def forward(self,\n    a: Tensor,\n    b: Tensor):\n  return {expression}\n"


def _in_closure(expression: str) -> str:
    return (
        "def forward(self,\n    a: Tensor,\n    b: Tensor):\n"
        f"  def __forked_function():\n    return {expression}\n"
        "  later = fork(__forked_function)\n  return torch.wait(later)\n"
    )


MEANINGS = {
    "division": ("torch.div(a, b)", _WHOLE),
    "division_by_number": ("torch.div(a, 2)", torch.tensor([3, -3, 4])),
    "division_by_float": ("torch.div(torch.to(a, 6, False, False), 2.)", _INTEGERS / 2),
    "division_in_place": ("torch.div_(torch.clone(a), b)", _WHOLE),
    "division_in_place_by_number": ("torch.div_(torch.clone(a), 2)", torch.tensor([3, -3, 4])),
    "full": ("torch.full([2], 3)", torch.full([2], 3.0)),
    "full_of_a_dtype": ("torch.full([2], 3, dtype=4)", torch.full([2], 3)),
    "linspace": ("torch.linspace(0, 1)", torch.linspace(0, 1, 100)),
    "linspace_steps": ("torch.linspace(0, 1, 3)", torch.linspace(0, 1, 3)),
    "logspace": ("torch.logspace(0, 1)", torch.logspace(0, 1, 100)),
    "arange": ("torch.arange(3, dtype=None)", torch.arange(3.0)),
    "arange_of_a_dtype": ("torch.arange(3, dtype=3)", torch.arange(3, dtype=torch.int32)),
    "argmax": ("torch._argmax(a, 0, False)", torch.tensor(2)),
    "masked_select": (
        "torch.masked_select(a, torch.to(torch.gt(a, 0), 0, False, False))",
        torch.tensor([7, 9]),
    ),
    "where": (
        "torch._s_where(torch.to(torch.gt(a, 0), 0, False, False), a, b)",
        torch.tensor([7, 2, 9]),
    ),
}


@pytest.mark.parametrize("place", [_in_method, _in_closure], ids=["method", "closure"])
@pytest.mark.parametrize("name", MEANINGS)
def test_operators_mean_what_they_meant(name, place):
    expression, expected = MEANINGS[name]
    module = tsarchive.load(program(place(expression)))
    assert equal(module(_INTEGERS, _TWOS), expected)
    assert equal(torch_loaded(saved(module))(_INTEGERS, _TWOS), expected)


def test_functions_of_libraries_mean_what_they_meant():
    source = program(_in_method("__torch__.lib.half(a, b)"), _FUNCTION)
    module = tsarchive.load(source)
    assert equal(module(_INTEGERS, _TWOS), _WHOLE)
    assert equal(torch_loaded(saved(module))(_INTEGERS, _TWOS), _WHOLE)


def test_fork_of_a_method():
    code = (
        "def forward(self,\n    x: Tensor) -> Tensor:\n"
        "  later = fork(self.helper, torch.add(x, 1), 2)\n"
        "  return torch.wait(later)\n"
        "def helper(self,\n    x: Tensor,\n    n: int) -> Tensor:\n  return torch.mul(x, n)\n"
    )
    module = tsarchive.load(program(code))
    expected = torch.tensor([4.0, 6.0])
    assert equal(module(torch.tensor([1.0, 2.0])), expected)
    assert equal(torch_loaded(saved(module))(torch.tensor([1.0, 2.0])), expected)


def test_attributes_of_script_classes_are_those_that_init_assigns():
    library = (
        "class Pair:\n  def __init__(self,\n    a: int) -> None:\n    self.a = a\n"
        "    self.b = [a, 1]\n"
        "  def sum(self) -> int:\n    return torch.add(self.a, torch.select(self.b, 1))\n"
    )
    code = "def forward(self,\n    n: int) -> int:\n  return __torch__.lib.Pair(n).sum()\n"
    module = tsarchive.load(program(code, library))
    assert [module(3), module(-3)] == [4, -2]
    assert torch_loaded(saved(module))(3) == 4
