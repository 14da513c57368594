"""Archives that name operators and classes of libraries that this process does not have."""

from __future__ import annotations

import copy
import importlib
import io
import sys
import zipfile

import pytest
import torch

import tsarchive
from tests.support.comparing import equal
from tests.support.running import hide_operators
from tsarchive.errors import UnknownOperatorError
from tsarchive.operators.overloads import overloads_of
from tsarchive.operators.removed import removed
from tsarchive.run.foreign import ForeignObject, readable_schemas

NAMESPACE = "torch_scatter"
SCHEMAS = {
    "scatter_sum(Tensor src, Tensor index, int dim, int? dim_size) -> Tensor": lambda s, *_: s * 2,
    "scatter_max(Tensor src, Tensor index, int dim) -> (Tensor, Tensor)": lambda s, i, _: (s, i),
    "fill(Tensor src, *, float value=1.0) -> Tensor": lambda s, value=1.0: s + value,
}


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(2, 2)

    def forward(self, x, index):
        y = torch.ops.torch_scatter.scatter_sum(self.linear(x), index, 0, None)
        most, where = torch.ops.torch_scatter.scatter_max(y, index, 0)
        return torch.relu(torch.ops.torch_scatter.fill(most, value=3.0)), where.size(0)


def registered():
    library = torch.library.Library(NAMESPACE, "DEF")
    for schema, run in SCHEMAS.items():
        library.define(schema)
        library.impl(schema.partition("(")[0], run, "CompositeExplicitAutograd")
    return library


RECORD = "code/__torch__/tests/torchscript/test_foreign_libraries.py"
X = torch.ones(3, 2), torch.tensor([0, 1, 1])


@pytest.fixture(scope="module")
def scattering():
    """The bytes of an archive whose library is gone again, and what it gave."""
    library = registered()
    torch.manual_seed(0)
    module = torch.jit.script(Model())
    buffer = io.BytesIO()
    torch.jit.save(module, buffer)
    expected = module(*X)
    del module
    library._destroy()
    assert not torch._C._jit_get_schemas_for_operator(f"{NAMESPACE}::scatter_sum")
    return buffer.getvalue(), expected


def test_a_call_says_what_is_missing(scattering):
    module = tsarchive.load(io.BytesIO(scattering[0]))
    assert module.linear.weight.size() == (2, 2)
    with pytest.raises(UnknownOperatorError, match="import torch_scatter") as raised:
        module(*X)
    assert (raised.value.record, raised.value.line) == (RECORD, 11)


def test_it_is_saved_without_the_library(scattering):
    first, second = io.BytesIO(), io.BytesIO()
    tsarchive.save(tsarchive.load(io.BytesIO(scattering[0])), first)
    tsarchive.save(tsarchive.load(io.BytesIO(first.getvalue())), second)
    assert first.getvalue() == second.getvalue()


def test_the_canonical_form_is_refused_with_the_reason(scattering):
    module = tsarchive.load(io.BytesIO(scattering[0]))
    with pytest.raises(UnknownOperatorError, match="import torch_scatter"):
        tsarchive.save(module, io.BytesIO(), canonical=True)


def test_its_package_runs_with_the_library(scattering, tmp_path, monkeypatch):
    data, expected = scattering
    report = tsarchive.decompile(io.BytesIO(data), tmp_path / "scattering")
    assert report.untranslated == ()
    assert set(report.libraries) == {f"{NAMESPACE}::{s.partition('(')[0]}" for s in SCHEMAS}
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("scattering").load()
    with pytest.raises(RuntimeError, match=r"scatter_sum is not registered.*import torch_scatter"):
        module(*X)
    library = registered()
    try:
        assert equal(module(*X), expected)
    finally:
        library._destroy()
        for name in [name for name in sys.modules if name.partition(".")[0] == "scattering"]:
            del sys.modules[name]


CLASS = b"quantized.LinearPackedParamsBase"
UNKNOWN = b"quantizer.LinearPackedParamsBase"


class Packed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        weight = torch.quantize_per_tensor(torch.ones(3, 2), 0.1, 0, torch.qint8)
        self.first = torch.ops.quantized.linear_prepack(weight, torch.ones(3))
        self.second = torch.ops.quantized.linear_prepack(weight, None)

    def forward(self, x):
        return torch.ops.quantized.linear_dynamic(x, self.first)


@pytest.fixture(scope="module")
def packed():
    """An archive with packed weights, of a class that no library has."""
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.script(Packed()), buffer)
    source, buffer = zipfile.ZipFile(buffer), io.BytesIO()
    in_pickle = CLASS.replace(b".", b"\n"), UNKNOWN.replace(b".", b"\n")
    with source, zipfile.ZipFile(buffer, "w") as changed:
        for name in source.namelist():
            data = source.read(name)
            if not name.endswith(".debug_pkl"):
                changed.writestr(name, data.replace(CLASS, UNKNOWN).replace(*in_pickle))
    return buffer.getvalue()


def objects(module):
    return [
        value
        for part in module.modules()
        for value in vars(part).values()
        if isinstance(value, ForeignObject)
    ]


@pytest.mark.filterwarnings("ignore:TypedStorage")
def test_objects_of_unknown_classes_keep_their_state(packed):
    module = tsarchive.load(io.BytesIO(packed))
    held = objects(module)
    assert [value.class_.qualified_name.rpartition("classes.")[2] for value in held] == [
        UNKNOWN.decode()
    ] * 2
    weight, bias = held[0].state
    assert weight.is_quantized
    assert equal(bias, torch.ones(3))
    again = objects(copy.deepcopy(module))[0]
    assert equal(again.state, held[0].state)
    assert again.state[1] is not bias


@pytest.mark.parametrize("canonical", [False, True], ids=["usual", "canonical"])
def test_objects_of_unknown_classes_are_saved(packed, canonical):
    first, second = io.BytesIO(), io.BytesIO()
    module = tsarchive.load(io.BytesIO(packed))
    tsarchive.save(module, first)
    saved = tsarchive.load(io.BytesIO(first.getvalue()))
    tsarchive.save(saved, second)
    assert first.getvalue() == second.getvalue()
    pairs = zip(objects(module), objects(saved), strict=True)
    assert all(equal(one.state, other.state) for one, other in pairs)
    if canonical:
        with pytest.raises(UnknownOperatorError):  # what takes the object cannot be told
            tsarchive.save(module, io.BytesIO(), canonical=True)


def test_operators_of_another_torch_are_read(monkeypatch):
    """Their schemas are known, so that code around them is read; they cannot run."""
    hide_operators(monkeypatch, "aten::relu")
    assert readable_schemas("aten::relu") == overloads_of("aten::relu")


@pytest.mark.parametrize("name", ["aten::solve", "aten::align_to", "prepacked::linear_clamp_run"])
def test_operators_that_torch_removed_are_none_of_another_torch(name, monkeypatch):
    """Functions stand for them, or a reason is told."""
    hide_operators(monkeypatch, name)
    assert removed(name)
    assert readable_schemas(name) == ()
