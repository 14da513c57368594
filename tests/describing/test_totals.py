"""How many tensors an archive has: one list and one count for all commands."""

from __future__ import annotations

import io
import json
from collections import Counter
from typing import Any

import pytest
import torch

import tsarchive
from tests.support.archives import ARCHIVES, CORPUS, FIXTURES, saved
from tests.support.command_line import document, run
from tsarchive.container import Container
from tsarchive.describing.contents import (
    StorageInfo,
    TensorInfo,
    TensorTotals,
    totals_of,
    uniquely_named,
)
from tsarchive.formats.registry import FORMATS
from tsarchive.formats.torchscript.inspection import Root, named_tensors, storage_record
from tsarchive.formats.torchscript.pickled import storages_of
from tsarchive.pickler import Memoised, Reduce

OWN = [
    path
    for folder in ("archives", "old", "legacy", "pt2", "executorch", "hostile")
    for path in sorted((FIXTURES / folder).iterdir())
    if path.is_file() and not path.name.endswith(".io.pt")
]
FOLDERS = ("torchscript", "pt2", "pte", "ptd", "other")
REAL = [path for folder in FOLDERS for path in sorted((CORPUS / folder).glob("*"))[::2]]
LISTED = {found.kind for found in FORMATS if found.is_saved_again}
NUMBERS = ("count", "elements", "storages", "nbytes")


def told(*command: Any) -> dict[str, Any]:
    """What a command prints as JSON, findings or not; nothing but an error where it fails."""
    result = run(*command, "--json")
    return {} if result.exit_code == 2 else json.loads(result.stdout)


def numbers(totals: dict[str, Any] | None) -> list[int] | None:
    return totals and [totals[name] for name in NUMBERS]


@pytest.mark.parametrize("path", [*OWN, *REAL], ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_all_commands_count_alike(path, tmp_path):
    verified, audited = told("verify", path), told("audit", path)
    listed = told("tensors", path)
    total = numbers(listed.get("total"))
    assert numbers(verified.get("tensors")) == total
    assert numbers(audited.get("tensors")) == total
    if total is None:
        assert verified.get("kind") not in LISTED or not listed
        return
    assert total[0] == len(listed["tensors"])
    facts = told("info", path)
    if facts:  # it reads code as well, which may be broken
        assert numbers(facts["tensors"]) == total
        assert sum(facts["tensors"]["dtypes"].values()) == total[0]
        devices = [row["device"] for row in listed["tensors"] if row["device"]]
        assert facts["tensors"]["devices"] == Counter(devices)
    made = told("report", path, "-o", tmp_path / "page.html", "--no-findings")
    pages = {section["name"]: section["total"] for section in made["sections"]}
    assert pages.get("tensors", 0) == total[0]


PICKLES = ("data.pkl", "constants.pkl", "bytecode.pkl")


@pytest.mark.parametrize(
    "path", [*sorted(ARCHIVES.glob("*.pt")), *sorted((CORPUS / "torchscript").glob("*"))],
    ids=lambda path: path.stem,
)  # fmt: skip
def test_no_storage_of_a_pickle_is_left_out(path):
    """Found by going through values by name, and by going through all that is reachable."""
    with tsarchive.open(path) as archive:
        if archive.kind != "torchscript":
            return
        expected = set()
        for pickle in filter(archive.records.__contains__, PICKLES):
            value = tsarchive.pickler.loads(archive.read(pickle), record=pickle)
            expected |= {storage_record(pickle, key, archive.records) for key in storages_of(value)}
        found = {storage for info in archive.tensors.values() for storage in info.storages}
        assert {storage.record for storage in found} == expected
        sizes = {name: record.size for name, record in archive.records.items()}
        assert all(storage.nbytes == sizes.get(storage.record, 0) for storage in found)


# Where tensors are


PACKED = "fc._packed_params._packed_params.__getstate__"


class Packed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.ao.nn.quantized.Linear(3, 2)

    def forward(self, x):
        return self.fc(x)


def opened(module: Any) -> tsarchive.Archive:
    return tsarchive.open(io.BytesIO(saved(module)))


def test_packed_weights_stand_below_their_attribute():
    with opened(torch.jit.script(Packed())) as archive:
        found = {name: (i.dtype, i.shape, i.role) for name, i in archive.tensors.items()}
        tree = archive.tree()
    assert found == {
        f"{PACKED}.0": ("qint8", (2, 3), "attribute"),
        f"{PACKED}.1": ("float32", (2,), "attribute"),
    }
    (fc,) = tree.children
    assert sum(child.nbytes for child in fc.children) + fc.nbytes == 2 * 3 + 2 * 4


def test_packed_weights_of_frozen_modules_are_constants():
    with opened(torch.jit.freeze(torch.jit.script(Packed()).eval())) as archive:
        found = {name: (i.dtype, i.shape, i.role) for name, i in archive.tensors.items()}
        assert archive.totals == TensorTotals(count=2, elements=8, storages=2, nbytes=14)
    assert found == {
        "CONSTANTS.c0.__getstate__.0": ("qint8", (2, 3), "constant"),
        "CONSTANTS.c0.__getstate__.1": ("float32", (2,), "constant"),
    }


def test_constants_have_the_names_that_code_has_for_them():
    with tsarchive.open(ARCHIVES / "frozen.pt") as archive:
        constants = [name for name, info in archive.tensors.items() if info.role == "constant"]
        text = "".join(archive.code.values())
    assert constants
    assert all(name in text for name in constants)


@pytest.mark.parametrize("version", ["1.0.1", "1.1.0", "1.2.0"])
def test_constants_of_the_first_versions(version):
    with tsarchive.open(FIXTURES / f"legacy/traced_shapes-{version}.pt") as archive:
        found = {name: info.storage for name, info in archive.tensors.items()}
        text = "".join(archive.code.values())
    constants = [name for name in found if name.startswith("CONSTANTS.")]
    assert constants == ["CONSTANTS.c0", "CONSTANTS.c1"]
    assert all(name in text for name in constants)
    assert found["CONSTANTS.c0"] == "tensors/0"


def test_example_inputs_of_a_trace_are_no_tensors_of_the_archive():
    with tsarchive.open(ARCHIVES / "trace_convolution.pt") as archive:
        assert "traced_inputs.pkl" in archive.records
        assert {name.partition(".")[0] for name in archive.tensors} == {"conv", "norm"}


def test_scales_of_channels_count_as_storages():
    class PerChannel(torch.nn.Module):
        def __init__(self):
            super().__init__()
            scales, points = torch.ones(4, dtype=torch.float64), torch.zeros(4, dtype=torch.int64)
            weight = torch.quantize_per_channel(torch.ones(4, 2), scales, points, 0, torch.qint8)
            self.register_buffer("weight", weight)

        def forward(self):
            return self.weight

    with opened(torch.jit.script(PerChannel())) as archive:
        (info,) = archive.tensors.values()
        assert (info.nbytes, info.storage) == (8, "data/0")
        assert archive.totals == TensorTotals(1, 8, 3, 8 + 4 * 8 + 4 * 8)


def test_views_of_one_storage():
    class Views(torch.nn.Module):
        def __init__(self):
            super().__init__()
            whole = torch.zeros(6)
            self.register_buffer("whole", whole)
            self.register_buffer("part", whole[3:])
            self.register_buffer("same", whole)

        def forward(self):
            return self.whole

    with opened(torch.jit.script(Views())) as archive:
        assert archive.totals == TensorTotals(count=3, elements=15, storages=1, nbytes=24)


TENSOR = "torch._utils._rebuild_tensor_v2"


def test_values_of_every_form_are_gone_through():
    """Those that hold tensors as keys, or as items that Python's pickler adds to a dict."""
    with tsarchive.open(ARCHIVES / "sequential.pt") as archive:
        pickle = tsarchive.pickler.loads(archive.read("data.pkl"), record="data.pkl")
        tensors = [
            v for v in tsarchive.formats.torchscript.pickled.reachable(pickle) if _is_dense(v)
        ]
        ordered = Reduce(tsarchive.pickler.Global("collections", "OrderedDict"), ())
        ordered.items = {"item": tensors[0]}
        ordered.state = {"state": tensors[1]}
        value = (ordered, Memoised([tensors[2]]), {tensors[3]: tensors[3]})
        root = Root("data.pkl", "x", value)
        named = dict(named_tensors([root], archive.class_of, archive.records))
    assert list(named) == ["x.0.item", "x.0.state", "x.1.0", "x.2.<key 0>", "x.2.<Reduce 0>"]


def _is_dense(value: Any) -> bool:
    return isinstance(value, Reduce) and value.function.qualified_name == TENSOR


def test_no_name_hides_another():
    info = TensorInfo("float32", (2,), (1,), "data/0", 8, "attribute", (StorageInfo("a", 0, 8),))
    named = dict(uniquely_named([("x", info), ("x (2)", info), ("x", info), ("x", info)]))
    assert list(named) == ["x", "x (2)", "x (3)", "x (4)"]
    assert totals_of(named.values()) == TensorTotals(count=4, elements=8, storages=1, nbytes=8)


# What is counted where nothing can be listed, and what is read


def test_other_kinds_have_no_count(tmp_path):
    torch.save({"weight": torch.ones(2)}, tmp_path / "weights.pt")
    shown = document("verify", tmp_path / "weights.pt", code=1)
    assert (shown["kind"], shown["tensors"]) == ("torch.save", None)
    assert " tensor" not in run("verify", tmp_path / "weights.pt").stdout.partition("checked:")[2]
    assert tsarchive.audit(tmp_path / "weights.pt").tensors is None


@pytest.mark.parametrize(
    "name", ["archives/sequential.pt", "legacy/attributes-1.2.0.pt", "pt2/linear.pt2"]
)
def test_listing_reads_no_weights(name, monkeypatch):
    read: list[str] = []
    real = Container.read
    monkeypatch.setattr(Container, "read", lambda self, name: read.append(name) or real(self, name))
    monkeypatch.setattr(Container, "view", None)
    with tsarchive.open(FIXTURES / name) as archive:
        storages = {storage.record for i in archive.tensors.values() for storage in i.storages}
    assert storages
    assert storages.isdisjoint(read)


# Archives of the corpus whose weights the attributes of modules do not tell


@pytest.fixture(scope="module")
def real(corpus):
    return lambda name: document("info", corpus / "torchscript" / name)["tensors"]


def test_weights_that_are_constants_of_a_frozen_archive(real):
    facts = real("pytorch-ios-demo-app__d2go_optimized.pt")
    assert (facts["count"], facts["storages"], facts["nbytes"]) == (198, 338, 2_032_632)
    assert facts["devices"] == {"cpu": 198}


def test_devices_count_tensors(real):
    facts = real("pypi-nnsplit-0.2.2__de_ts_cuda.pt")
    assert (facts["count"], facts["storages"], facts["devices"]) == (19, 5, {"cuda:0": 19})
