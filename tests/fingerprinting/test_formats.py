"""Fingerprints of PT2 archives, of files of ExecuTorch, and of what has none."""

from __future__ import annotations

import contextlib
import io
import re
import sys
import tracemalloc
from hashlib import sha256

import numpy
import pytest
import torch
from torch.export import Dim, export

import tsarchive
from tests.support.archives import ROOT, export_saved, records_of, saved
from tests.support.command_line import run
from tests.support.executorch_files import FIXTURES as EXECUTORCH
from tests.support.pt2_archives import (
    NAMES,
    changed,
    fixture,
    with_another_bit,
)
from tests.support.verifying import packed
from tsarchive.analyses.encoding import encode
from tsarchive.fingerprinting import readable_contents

from .test_fingerprint import differing, of

MODEL = "models/model.json"


@pytest.mark.parametrize("name", [name for name in NAMES if name != "two_models"])
def test_a_program_of_export_saved_again_has_its_fingerprint(name):
    data = fixture(name).read_bytes()
    assert of(saved(tsarchive.load(fixture(name)))) == of(data)


@pytest.mark.parametrize("name", ["linear", "mutating", "control_flow"])
def test_torch_export_saves_the_same_program(name):
    program = torch.export.load(fixture(name))
    assert differing(of(export_saved(program)), tsarchive.fingerprint(fixture(name))) == set()


class Sliced(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.arange(4.0))

    def forward(self, x, y):
        return x[:, :2] * self.weight[0] + y.nonzero().sum()


def exported() -> torch.export.ExportedProgram:
    shapes = {"x": {0: Dim("rows", min=2, max=9)}, "y": None}
    return export(Sliced(), (torch.ones(3, 4), torch.ones(2)), dynamic_shapes=shapes)


def test_a_program_has_the_fingerprint_of_its_archive():
    program = exported()
    again = exported()  # with other numbers for its symbols
    expected = of(export_saved(program))
    assert tsarchive.fingerprint(program) == expected
    assert of(saved(program)) == expected
    assert of(export_saved(again)) == expected


def graph_of(values):
    return values["graph_module"]["graph"]


def first_call(values):
    return graph_of(values)["nodes"][0]


def other_range(values):
    next(iter(values["range_constraints"].values()))["max_val"] = 8


def other_guard(values):
    values["guards_code"] = [*values.get("guards_code", []), "L['x'].size()[0] > 1"]


def other_operator(values):
    calls = [node for node in graph_of(values)["nodes"] if "mul.Tensor" in node["target"]]
    calls[0]["target"] = calls[0]["target"].replace("mul", "div")


def other_number(values):
    arguments = [given for node in graph_of(values)["nodes"] for given in node["inputs"]]
    numbers = [given["arg"] for given in arguments if "as_int" in given["arg"]]
    numbers[-1]["as_int"] += 1


def other_places(values):
    for node in graph_of(values)["nodes"]:
        node["metadata"] = {}


CHANGES = {
    "range": (other_range, {"structure", "model"}),
    "guard": (other_guard, {"structure", "model"}),
    "operator": (other_operator, {"code", "model"}),
    "number": (other_number, {"code", "model"}),
    "places in source": (other_places, set()),
}


@pytest.mark.whole
@pytest.mark.parametrize("change", CHANGES)
def test_each_change_of_a_program_is_seen_where_it_is(change, tmp_path):
    path = tmp_path / "program.pt2"
    path.write_bytes(export_saved(exported()))
    make, parts = CHANGES[change]
    other = changed(path, MODEL, make, tmp_path / "other.pt2")
    assert differing(tsarchive.fingerprint(path), tsarchive.fingerprint(other)) == parts


class TwoLayers(torch.nn.Module):
    """Layers whose names look like symbols of sizes."""

    def __init__(self, first: str, second: str):
        super().__init__()
        self.order = (first, second)
        numbers = {"s1": [[1.0, 2.0], [3.0, 4.0]], "s2": [[0.0, 1.0], [1.0, 1.0]]}
        for name in self.order:
            weight = torch.nn.Parameter(torch.tensor(numbers[name]))
            self.register_module(name, torch.nn.ParameterDict({"weight": weight}))

    def forward(self, x):
        for name in self.order:
            x = x @ self.get_submodule(name)["weight"]
        return x


class Named(torch.nn.Module):
    """Outputs in a dict, whose keys look like symbols."""

    def __init__(self, first: str, second: str):
        super().__init__()
        self.first, self.second = first, second

    def forward(self, x):
        return {self.first: x + 1, self.second: x * 2}


LIKE_SYMBOLS = {
    "parameters": (TwoLayers, ("s2", "s1"), (torch.ones(1, 2),), {"code", "model"}),
    "keys": (
        Named,
        ("s3", "s4"),
        (torch.ones(2),),
        {"structure", "model"},
    ),
}


@pytest.mark.parametrize("names", LIKE_SYMBOLS)
def test_names_that_look_like_symbols_are_names(names):
    module, others, inputs, parts = LIKE_SYMBOLS[names]
    one, other = (
        of(export_saved(export(module(*given), inputs))) for given in (("s1", "s2"), others)
    )
    assert differing(one, other) == parts


def test_names_in_guards_are_names(tmp_path):
    path = tmp_path / "program.pt2"
    path.write_bytes(export_saved(exported()))

    def guarded(name):
        def change(values):
            values["guards_code"] = [f"L['{name}'].size()[0] >= 3"]

        return tsarchive.fingerprint(changed(path, MODEL, change, tmp_path / f"{name}.pt2"))

    assert differing(guarded("s1"), guarded("s2")) == {"structure", "model"}


class Asserting(torch.nn.Module):
    """The message of what torch asserts of a size that data determine has its symbol."""

    def forward(self, x, y):
        count = y.sum().item()
        torch._check(count >= 2)
        return x.new_zeros(count)


def test_symbols_in_messages_have_no_numbers():
    data = export_saved(export(Asserting(), (torch.ones(2), torch.ones(2, dtype=torch.int64))))
    records = records_of(data)
    text = records[MODEL].decode()
    assert "for expression u" in text
    renumbered = re.sub(r"\bu(\d+)\b", r"u7\1", text)
    assert of(packed({**records, MODEL: renumbered.encode()})) == of(data)


def test_one_bit_of_a_weight_of_a_program_is_seen(tmp_path):
    path = fixture("linear")
    name, other = with_another_bit(path, tmp_path / "other.pt2")
    one, two = tsarchive.fingerprint(path), tsarchive.fingerprint(other)
    assert differing(one, two) == {"weights", "model"}
    assert {key for key, found in one.tensors.items() if two.tensors[key] != found} == {name}


@pytest.mark.parametrize(
    "options",
    [("--align", 256), ("--align-constants", 64), ("--strip", "stack-traces")],
    ids=lambda options: options[0],
)
@pytest.mark.parametrize("name", ["linear", "state", "values"])
def test_the_layout_of_a_program_of_executorch_means_nothing(name, options, tmp_path):
    path, other = EXECUTORCH / f"{name}.pte", tmp_path / "other.pte"
    assert run("edit", path, "-o", other, *options).exit_code == 0
    assert tsarchive.fingerprint(other) == tsarchive.fingerprint(path)


def test_other_weights_of_a_program_of_executorch_are_seen(tmp_path):
    path, other = EXECUTORCH / "linear.pte", tmp_path / "other.pte"
    before = tsarchive.fingerprint(path)
    with tsarchive.open(path) as archive:
        name, info = next(iter(archive.tensors.items()))
    numpy.save(tmp_path / "new.npy", numpy.zeros(info.shape, info.dtype))
    assert (
        run("edit", path, "-o", other, "--replace", f"{name}={tmp_path / 'new.npy'}").exit_code == 0
    )
    after = tsarchive.fingerprint(other)
    assert differing(before, after) == {"weights", "model"}
    assert {key for key, found in before.tensors.items() if after.tensors[key] != found} == {name}


@pytest.mark.parametrize("name", sorted(path.name for path in EXECUTORCH.glob("*.pte")))
def test_what_a_file_of_executorch_leaves_out_has_the_type_of_what_it_writes(name):
    """A bool that is false is left out by some writers, and written by others."""
    with readable_contents(EXECUTORCH / name) as found:
        values = [value for _, values, *_ in found.contents.structure for value in values]
    grads = [value["grad"] for value in values if isinstance(value, dict) and "grad" in value]
    assert all(isinstance(grad, bool) for grad in grads)


def test_a_data_file_has_tensors_and_no_code():
    found = tsarchive.fingerprint(EXECUTORCH / "data.ptd")
    assert found.tensors
    assert found.code == tsarchive.fingerprint(EXECUTORCH / "data_06.ptd").code


def test_the_program_in_a_bundle_has_its_own_fingerprint():
    bundle, program = EXECUTORCH / "linear.bpte", EXECUTORCH / "linear.pte"
    assert tsarchive.fingerprint(bundle).structure == tsarchive.fingerprint(program).structure


def checkpoint(value) -> bytes:
    stream = io.BytesIO()
    torch.save(value, stream)
    return stream.getvalue()


def test_a_checkpoint_has_the_weights_of_its_model():
    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    found = of(checkpoint(module.state_dict()))
    assert found.weights == tsarchive.fingerprint(torch.jit.script(module)).weights
    with torch.no_grad():
        module[0].weight[0, 0] += 1
    other = of(checkpoint(module.state_dict()))
    assert differing(found, other) == {"weights", "model"}
    assert {name for name in found.tensors if found.tensors[name] != other.tensors[name]} == {
        "0.weight"
    }


def test_other_values_of_a_checkpoint_are_its_structure():
    one, other = (
        of(checkpoint({"epoch": epoch, "state": [torch.ones(2), torch.device("cpu")]}))
        for epoch in (1, 2)
    )
    assert differing(one, other) == {"structure", "model"}
    assert [*one.tensors] == ["state.0"]


NO_PLAIN_VALUES = {
    "Linear": lambda: torch.nn.Linear(2, 2),
    "_rebuild_nested_tensor": lambda: torch.nested.nested_tensor([torch.ones(2)]),
    "range": lambda: range(3),
    "a torch.Tensor": lambda: torch.Tensor,
    "quint4x2": lambda: torch.quantize_per_channel(
        torch.ones(3, 5), torch.ones(3), torch.zeros(3), 0, torch.quint4x2
    ),
}


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("name", NO_PLAIN_VALUES)
def test_a_checkpoint_with_others_than_plain_values_has_none(name):
    with pytest.raises(tsarchive.UnsupportedError, match=name):
        of(checkpoint({"held": NO_PLAIN_VALUES[name]()}))


# Pairs that differ a little.
VALUES = {
    "size": (torch.Size([1, 2]), torch.Size([1, 3])),
    "size for tuple": (torch.Size([1, 2]), (1, 2)),
    "dtype": (torch.float32, torch.uint16),
    "bytes": (b"a\xff", b"a\xfe"),
    "no bytes": (b"", bytearray()),
    "bytes for text": (b"a", "a"),
    "bytearray": (bytearray(b"ab"), b"ab"),
    "set": ({1, 2}, {1, 3}),
    "frozen set": (frozenset({1, 2}), {1, 2}),
    "complex": (1 + 2j, 1 - 2j),
    "int of five bytes": (1 << 33, 1 << 34),
    "int of no sign": (2**64 - 1, -1),
    "int of many bytes": (1 << 1000, 1 << 1001),
}


@pytest.mark.whole
@pytest.mark.parametrize("pair", VALUES)
def test_values_of_a_checkpoint_that_differ_a_little_differ(pair):
    one, other = (of(checkpoint({"held": value})) for value in VALUES[pair])
    assert differing(one, other) == {"structure", "model"}


def test_the_order_of_a_set_means_nothing():
    words = ["a", "b", "c", "d"]
    ordered = [of(checkpoint({"held": set(order)})) for order in (words, words[::-1])]
    data = checkpoint({"held": {"aa", "bb"}})
    records = records_of(data)
    swapped = records["data.pkl"].replace(b"aa", b"xx").replace(b"bb", b"aa").replace(b"xx", b"bb")
    assert ordered[0] == ordered[1]
    assert swapped != records["data.pkl"]
    assert of(packed({**records, "data.pkl": swapped})) == of(packed(records))


@pytest.mark.filterwarnings("ignore:ComplexHalf")
@pytest.mark.parametrize(
    "dtype", ["uint16", "uint32", "uint64", "complex32", "float8_e4m3fn", "float8_e8m0fnu"]
)
def test_tensors_without_a_storage_type_have_their_elements(dtype):
    """As torch.save writes them, in storages of bytes."""
    tensor = torch.zeros(4, dtype=getattr(torch, dtype))
    other = tensor.clone()
    other.view(torch.uint8)[-1] ^= 1
    one = of(checkpoint({"held": tensor, "parameter": torch.ones(2)}))
    two = of(checkpoint({"held": other, "parameter": torch.ones(2)}))
    assert differing(one, two) == {"weights", "model"}
    part = torch.zeros(8, dtype=tensor.dtype)[4:]
    assert of(checkpoint({"held": part, "parameter": torch.ones(2)})) == one
    expected = ["tsf1", "tensor", ["dense", dtype, [4], []]]
    elements = bytes(tensor.view(torch.uint8).numpy())
    assert one.tensors["held"] == f"tsf1:{sha256(encode(expected) + elements).hexdigest()}"


@pytest.mark.filterwarnings("ignore:Sparse")
def test_parts_of_sparse_tensors_of_checkpoints_have_names():
    numbers = torch.sparse_coo_tensor(torch.tensor([[0, 1]]), torch.tensor([1.0, 2.0]), (2,))
    other = torch.sparse_coo_tensor(torch.tensor([[0, 1]]), torch.tensor([1.0, 3.0]), (2,))
    one, two, coalesced = (
        of(checkpoint({"held": held})) for held in (numbers, other, numbers.coalesce())
    )
    assert {name for name in one.tensors if one.tensors[name] != two.tensors[name]} == {"held.1"}
    assert differing(one, two) == {"weights", "model"}
    assert differing(one, coalesced) == {"structure", "model"}


@pytest.mark.parametrize("dtype", ["float32", "complex128", "int16", "uint8", "bool"])
def test_the_order_of_bytes_means_nothing(dtype):
    tensor = (torch.arange(6) % 5).to(getattr(torch, dtype))
    records = records_of(checkpoint({"held": tensor}))
    numbers = tensor.numpy()
    swapped = {
        **records,
        "byteorder": b"big",
        "data/0": numbers.astype(numbers.dtype.newbyteorder(">")).tobytes(),
    }
    assert of(packed(swapped)) == of(packed(records))


HOSTILE = sorted((ROOT / "fixtures" / "hostile").glob("*.pt"))


@pytest.mark.parametrize("path", HOSTILE, ids=lambda path: path.stem)
def test_hostile_files_are_refused_or_have_one(path):
    """Whatever they hold, in little memory and few steps."""
    calls = 0

    def count(_frame, event, _argument) -> None:
        nonlocal calls
        calls += event == "call"

    tracemalloc.start()
    sys.setprofile(count)
    try:
        with contextlib.suppress(tsarchive.ArchiveError):
            assert tsarchive.fingerprint(path).model
        _, peak = tracemalloc.get_traced_memory()
    finally:
        sys.setprofile(None)
        tracemalloc.stop()
    assert peak < (64 << 20) + 20 * path.stat().st_size
    assert calls < 3_000_000
