"""Histograms of stored tensors, which equal those of torch."""

from __future__ import annotations

import io
import math
import subprocess
import sys
from fnmatch import fnmatchcase

import pytest
import torch

import tsarchive
from tests.support.archives import ARCHIVES, ROOT, saved
from tests.support.executorch_files import FIXTURES
from tests.support.report_pages import data_of, read
from tsarchive.reporting.histograms import Elements, histogram

STEPS = 64
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.float8_e5m2)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


class Holder(torch.nn.Module):
    def __init__(self, tensors):
        super().__init__()
        for name, tensor in tensors.items():
            self.register_buffer(name, tensor)

    def forward(self, x: torch.Tensor):
        return x


def archived(**tensors) -> io.BytesIO:
    return io.BytesIO(saved(torch.jit.script(Holder(tensors))))


def counted(tensor):
    with tsarchive.open(archived(value=tensor)) as archive:
        return histogram(Elements(archive).of("value"))


def by_torch(tensor, bins):
    values = tensor.double().flatten()
    values = values[values.isfinite()]
    return torch.histc(values, bins, values.min().item(), values.max().item()).long().tolist()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_floats(dtype):
    torch.manual_seed(3)
    tensor = torch.randn(40, 50).to(dtype)
    found = counted(tensor)
    values = tensor.double()
    assert list(found.counts) == by_torch(tensor, STEPS)
    assert (found.low, found.high) == (values.min().item(), values.max().item())
    assert found.mean == pytest.approx(values.mean().item(), rel=1e-12)
    assert found.deviation == pytest.approx(values.std(correction=0).item(), rel=1e-12)
    assert (found.elements, found.zeros) == (2000, int((values == 0).sum()))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("reach", [5, 100])
def test_integers(dtype, reach):
    tensor = torch.randint(0, reach, (3000,)).to(dtype)
    found = counted(tensor)
    bins = min(int(tensor.max() - tensor.min()) + 1, STEPS)
    assert list(found.counts) == by_torch(tensor, bins)
    if reach == 5:
        assert list(found.counts) == torch.bincount(tensor.long()).tolist()


def test_bools():
    found = counted(torch.tensor([True, False, True]))
    assert (found.counts, found.zeros, found.mean) == ((1, 2), 1, pytest.approx(2 / 3))


def test_what_is_not_finite_is_counted_apart():
    values = [0.0, 1.0, math.nan, math.inf, -math.inf, math.nan]
    found = counted(torch.tensor(values))
    assert (found.nans, found.infinities, found.elements, found.zeros) == (2, 2, 6, 1)
    assert (found.low, found.high, sum(found.counts)) == (0, 1, 2)


@pytest.mark.parametrize(
    ("tensor", "counts"),
    [
        (torch.full((7,), 2.5), (7,)),
        (torch.empty(0, 3), ()),
        (torch.tensor(4), (1,)),
        (torch.tensor([math.nan]), ()),
        (torch.tensor([-1.7e308, 1.7e308], dtype=torch.float64), ()),
        (torch.full((7,), 1e300, dtype=torch.float64), (7,)),
        (torch.tensor([2**62, 2**62 + 1]), (2,)),
        (torch.tensor([1.0, 1.0 + 2**-52, 1.0 + 2**-49], dtype=torch.float64), (2, 0, 0, 1)),
        (torch.tensor([0.0, 5e-324], dtype=torch.float64), (2,)),
    ],
    ids=[
        "one value",
        "no elements",
        "a scalar",
        "no number",
        "too wide",
        "a large value",
        "large integers",
        "neighbours",
        "the smallest number",
    ],
)
def test_extremes(tensor, counts):
    found = counted(tensor)
    assert found.counts == counts
    assert found.elements == tensor.numel()
    assert all(isinstance(value, str) for value in found.document()["facts"].values())


@pytest.mark.parametrize(
    "view",
    [
        lambda base: base.t(),
        lambda base: base[3:, ::2],
        lambda base: base[1].expand(5, 30),
        lambda base: base[:, 7].as_strided((4, 3), (60, 0), 2),
    ],
    ids=["transposed", "sliced", "expanded", "repeated"],
)
def test_views(view):
    torch.manual_seed(4)
    tensor = view(torch.randn(20, 30))
    assert list(counted(tensor).counts) == by_torch(tensor, STEPS)


def test_large_tensors_are_read_in_pieces():
    torch.manual_seed(5)
    tensor = torch.randn(3 * (1 << 20) + 17)
    assert list(counted(tensor).counts) == by_torch(tensor, STEPS)


def test_elements_that_overlap_without_end_are_refused():
    tensor = torch.arange(200.0).as_strided((100, 100), (1, 1))
    with pytest.raises(tsarchive.FormatError, match="more elements than its record"):
        counted(tensor)


def test_quantized_tensors_show_their_integers():
    tensor = torch.quantize_per_tensor(torch.randn(500), 0.1, 3, torch.qint8)
    found = counted(tensor)
    assert sum(found.counts) == 500
    assert found.low == tensor.int_repr().min().item()


def test_complex_numbers_have_no_histogram():
    with pytest.raises(tsarchive.UnsupportedError, match="complex64"):
        counted(torch.zeros(2, dtype=torch.complex64))


def documents(path, pattern="*"):
    page = read(tsarchive.report(path, histograms=pattern).html)
    rows = page.by_id("table-tensors").one("tbody").all("tr")
    found = data_of(page).get("tensors", {})
    return {row.one("th").text: found[row["data-opens"]] for row in rows if row["data-opens"]}


@pytest.mark.parametrize("pattern", ["*", "*.weight", "nothing"])
def test_only_what_is_asked_for_is_read(pattern, monkeypatch):
    asked = []
    find = Elements.of

    def noting(self, name):
        asked.append(name)
        return find(self, name)

    monkeypatch.setattr(Elements, "of", noting)
    with tsarchive.open(ARCHIVES / "sequential.pt") as archive:
        fitting = [name for name in archive.tensors if fnmatchcase(name, pattern)]
    assert list(documents(ARCHIVES / "sequential.pt", pattern)) == asked == fitting
    assert bool(fitting) is (pattern != "nothing")


def test_without_histograms_numpy_is_not_imported():
    code = (
        "import sys, tsarchive\n"
        "for path in sys.argv[1:]: tsarchive.report(path)\n"
        "print(sorted({'torch', 'numpy', 'rich', 'executorch'} & set(sys.modules)))"
    )
    files = [ARCHIVES / "sequential.pt", ROOT / "fixtures/pt2/linear.pt2", FIXTURES / "linear.bpte",
             ROOT / "fixtures/legacy/attributes-1.2.0.pt"]  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code, *map(str, files)], capture_output=True,
                          text=True, cwd="/", check=True)  # fmt: skip
    assert done.stdout.strip() == "[]"


def test_with_histograms_torch_is_not_imported():
    code = (
        "import sys, tsarchive\n"
        "tsarchive.report(sys.argv[1], histograms='*')\n"
        "print(sorted({'torch', 'executorch'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(ARCHIVES / "sequential.pt")],
                          capture_output=True, text=True, cwd="/", check=True)  # fmt: skip
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", ["linear", "linear-2.4", "linear-2.8", "two_models"])
def test_programs_of_torch_export(name):
    path = ROOT / "fixtures" / "pt2" / f"{name}.pt2"
    found = documents(path)
    with tsarchive.open(path) as archive:
        models = archive.exported.models
    weights = {}
    for model in models:
        state = tsarchive.load(path, model=model).state_dict()
        prefix = f"{model}." if len(models) > 1 else ""
        weights |= {f"{prefix}{key}": value for key, value in state.items()}
    assert weights
    for key, value in weights.items():
        assert found[key]["facts"]["elements"] == f"{value.numel():,}"
        assert found[key]["facts"]["maximum"] == f"{value.double().max().item():.6g}"


@pytest.mark.parametrize("name", ["attributes-1.2.0", "quantized-1.2.0"])
def test_archives_of_before_torch_1_3(name):
    found = documents(ROOT / "fixtures" / "legacy" / f"{name}.pt")
    assert found
    assert not [entry for entry in found.values() if "problem" in entry]


def test_programs_and_data_of_executorch():
    weight = documents(FIXTURES / "linear.pte")["forward.2"]["facts"]
    assert (weight["elements"], weight["maximum"], weight["mean"]) == ("12", "11", "5.5")
    assert documents(FIXTURES / "inline.pte")["forward.2"]["facts"] == weight
    assert documents(FIXTURES / "data.ptd")["net.weight"]["facts"] == weight
    older = documents(FIXTURES / "data_06.ptd")
    assert older["b"]["facts"]["maximum"] == "7"
    bundle = documents(FIXTURES / "linear.bpte")
    assert bundle["forward.2"]["facts"] == weight
    assert bundle["test_suites/forward/0/expected_outputs/0"]["facts"]["maximum"] == "3"
    state = documents(FIXTURES / "state.pte")
    assert state["net.weight"] == {"problem": "its elements are in a data file"}
    assert state["count"]["facts"]["maximum"] == "3"
