"""Pages about two files: what changed stands where it is, and as text."""

from __future__ import annotations

import io
from collections import OrderedDict

import numpy
import pytest
import torch
from torch import Tensor, nn

import tsarchive
from tests.support.archives import ARCHIVES, ROOT, saved
from tests.support.report_pages import HOSTILE, data_of, read
from tsarchive.diffing.report import MethodChange, SideBySide, SourceLine
from tsarchive.errors import CallError, FormatError
from tsarchive.reporting.against import STEPS
from tsarchive.reporting.side_by_side import block, marked
from tsarchive.reporting.trees import _in_order

FIXTURES = ROOT / "fixtures"


class Layer(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) * self.factor


def before() -> nn.Module:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = Layer(1.0)
            self.gone = nn.ReLU()
            self.last = Layer(2.0)

        def forward(self, x: Tensor) -> Tensor:
            y = self.gone(self.first(x))
            return torch.sigmoid(self.last(y))

    return Net()


def after() -> nn.Module:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = Layer(1.0)
            self.last = Layer(2.5)
            self.new = nn.Tanh()

        def forward(self, x: Tensor) -> Tensor:
            y = self.first(x)
            return self.new(self.last(y))

    return Net()


@pytest.fixture(scope="module")
def models() -> tuple[bytes, bytes]:
    torch.manual_seed(0)
    one, other = before(), after()
    other.first.load_state_dict(one.first.state_dict())
    other.last.load_state_dict(one.last.state_dict())
    with torch.no_grad():
        other.first.linear.weight[1] += torch.tensor([0.5, 0.25, 0.25])
    return (
        saved(torch.jit.script(one), extra_files={"labels.txt": b"cat\ndog\n", "gone": b"\x00"}),
        saved(torch.jit.script(other), extra_files={"labels.txt": b"cat\nfox\n"}),
    )


def made(before, after, **options):
    return tsarchive.report(io.BytesIO(before), against=io.BytesIO(after), **options)


@pytest.fixture(scope="module")
def page(models):
    return read(made(*models).html)


def test_sections(models):
    found = made(*models)
    assert [section.name for section in found.sections if section.name != "packing"] == [
        "overview", "changes", "modules", "code", "tensors", "operators", "extra",
    ]  # fmt: skip
    assert found.ok is False
    steps: list[str] = []
    made(*models, step=steps.append)
    assert tuple(steps) == STEPS


def test_trees_stand_side_by_side(page):
    rows = page.by_id("modules").one("table", "trees").one("tbody").all("tr")
    found = {}
    for row in rows:
        names = [[span.text for span in cell.all("span", "name")] for cell in row.all("td")]
        found[(names[0] or names[1])[0]] = row["class"], *map(bool, names[:2])
    assert found["(root)"] == ("changed", True, True)
    assert found["first"] == ("around", True, True)
    assert found["gone"] == ("removed", True, False)
    assert found["new"] == ("added", False, True)
    assert found["last"] == ("changed", True, True)
    assert rows[2].all("td")[2].text == "tensor values"


def test_code_has_what_differs_marked(page):
    code = page.by_id("code")
    removed = [line.text.strip() for line in code.all("td", "removed")]
    added = [line.text.strip() for line in code.all("td", "added")]
    assert any("gone" in line for line in removed)
    assert any("(new)" in line for line in added)
    assert not any("(new)" in line for line in removed)
    assert "return torch.sigmoid(self.last(y))" in code.text


def test_tensors_have_their_distance_and_histogram(page, models):
    (row,) = page.by_id("table-tensors").one("tbody").all("tr")
    cells = [cell.text for cell in [row.one("th"), *row.all("td")]]
    assert cells[:2] == ["first.linear.weight", "float32 3x3"]
    assert cells[2].startswith("33.3 %")
    assert float(cells[3]) == pytest.approx(0.5)
    drawn = data_of(page)["tensors"][row["data-opens"]]
    assert sum(drawn["counts"]) == 9
    assert drawn["facts"]["maximum"] == "0.5"
    assert drawn["facts"]["zeros"] == "6"
    tensors = [tsarchive.load(io.BytesIO(data)).first.linear.weight.detach() for data in models]
    change = (tensors[1].double() - tensors[0].double()).numpy()
    expected = numpy.histogram(change, 64, (change.min(), change.max()))[0]
    assert drawn["counts"] == expected.tolist()


def test_renamed_modules_stand_beside_what_they_were():
    torch.manual_seed(0)
    first, second = nn.Linear(3, 3), nn.Linear(3, 3)
    one = nn.Sequential(OrderedDict(stem=first, head=second))
    data = saved(torch.jit.script(one))
    with torch.no_grad():
        second.bias[1] += 0.5
    other = saved(torch.jit.script(nn.Sequential(OrderedDict(trunk=first, head=second))))
    page = read(made(data, other).html)
    rows = page.by_id("modules").one("table", "trees").one("tbody").all("tr")
    shown = [[span.text for span in row.all("span", "name")] for row in rows]
    assert shown == [["(root)", "(root)"], ["stem", "trunk"], ["head", "head"]]
    assert rows[1].all("td")[2].text == "was stem"
    assert "none" not in page.by_id("table-tensors").text


@pytest.mark.parametrize(("count", "more"), [(3, ""), (8, ""), (10, " and 2 more")])
def test_changes_name_all_modules_that_share_a_class(count, more):
    one, other = (
        saved(torch.jit.script(nn.Sequential(*(kind() for _ in range(count)))))
        for kind in (nn.ReLU, nn.Tanh)
    )
    rows = read(made(one, other).html).by_id("changes").one("tbody").all("tr")
    cells = [cell.text for row in rows for cell in (row.all("th") + row.all("td"))]
    assert f"{', '.join(map(str, range(min(count, 8))))}{more}" in cells


def test_histograms_are_those_that_are_asked_for(models):
    assert data_of(read(made(*models, histograms="*.bias").html)).get("tensors") is None


def test_operators_and_extra_files(page):
    operators = {row.one("th").text: row.all("td")[0].text
                 for row in page.by_id("table-operators").one("tbody").all("tr")}  # fmt: skip
    assert operators["aten::tanh"] == "gained"
    assert operators["aten::sigmoid"] == "lost"
    extra = page.by_id("extra")
    rows = page.by_id("table-extra").one("tbody").all("tr")
    shown = {row.all("td")[0].text: [cell.text for cell in row.all("td")[1:3]] for row in rows}
    assert shown["gone"][0].startswith("1 bytes, sha256 ")
    assert shown["labels.txt"] == ["cat ⏎ dog ⏎ ", "cat ⏎ fox ⏎ "]
    assert [cell.text for cell in extra.all("td", "removed")] == ["dog"]
    assert [cell.text for cell in extra.all("td", "added")] == ["fox"]


def test_files_that_are_the_same_model(models):
    resaved = saved(tsarchive.load(io.BytesIO(models[0])), extra_files={
        "labels.txt": b"cat\ndog\n", "gone": b"\x00"})  # fmt: skip
    found = made(models[0], resaved)
    assert found.ok is True
    page = read(found.html)
    assert page.one("header").one("b", "good").text == "same model"
    names = {section["id"] for section in page.all("section")}
    assert names <= {"overview", "modules", "packing"}


def test_files_that_have_little_in_common():
    """What cannot be compared is not called the same."""
    pair = (FIXTURES / "pt2/linear-2.8.pt2", FIXTURES / "executorch/linear.pte")
    page = read(tsarchive.report(pair[0], against=pair[1]).html)
    assert not page.one("header").all("b", "good")
    overview = page.by_id("overview")
    assert "No difference was found in what can be compared" in overview.text
    assert overview.all("td", "differs")
    assert all(cell.text for cell in overview.all("td", "differs"))


PAIRS = [
    ("pt2/linear-2.8.pt2", "pt2/two_models.pt2"),
    ("executorch/linear.pte", "executorch/values.pte"),
    ("archives/buffers.pt", "archives/sequential.pt"),
    ("legacy/attributes-1.2.0.pt", "archives/buffers.pt"),
    ("executorch/linear.pte", "executorch/linear.bpte"),
    ("archives/script_function.pt", "archives/buffers.pt"),
    ("hostile/file-state-dict.pt", "archives/buffers.pt"),
]


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_pages_are_sound(before, after):
    page = read(tsarchive.report(FIXTURES / before, against=FIXTURES / after).html)
    ids = [element["id"] for element in page.walk() if element["id"] is not None]
    assert len(ids) == len(set(ids))
    links = {element["href"].removeprefix("#") for element in page.all("a")}
    assert links <= set(ids)
    for element in page.walk():
        names = set(element.attributes)
        assert "style" not in names
        assert not [name for name in names if name.startswith("on")]
    assert not [p.text for p in page.all("p", "problem")]


def test_rows_are_limited(models):
    for section in made(*models, rows=1).sections:
        assert section.shown <= (5 if section.name == "code" else 1), section


def test_a_page_does_not_replace_what_it_is_about(tmp_path, models):
    paths = [tmp_path / name for name in ("before.pt", "after.pt")]
    for path, data in zip(paths, models, strict=True):
        path.write_bytes(data)
    for out in paths:
        with pytest.raises(CallError, match="would replace"):
            tsarchive.report(paths[0], out, against=paths[1])
    assert [path.read_bytes() for path in paths] == [*models]


def test_files_that_cannot_be_compared_are_errors():
    with pytest.raises(FormatError):
        tsarchive.report(FIXTURES / "hostile/file-html.pt", against=ARCHIVES / "buffers.pt")


LINES = [
    ("y = torch.mean(x)", "y = torch.amax(x)", ["mean"], ["amax"]),
    ("return f(x)", "return g(f(x))", [], ["g", "("]),
    ("a = 1", "a = 1", [], []),
    ('s = "one"', 's = "two"', ['"one"'], ['"two"']),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "removed", "added"), LINES)
def test_tokens_that_differ_are_marked(before, after, removed, added):
    found = [read(f"<p>{line}</p>") for line in marked(before, after)]
    assert [line.text for line in found] == [before, after]
    marks = ["".join(mark.text for mark in line.all("mark")) for line in found]
    assert marks[0] == "".join(removed)
    assert set("".join(added)) <= set(marks[1])


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text(text):
    source = (SourceLine(text, 3, text), None)
    rows = [SideBySide(text, f"{text} x", False, source), SideBySide(None, text, False)]
    drawn, shown = block(MethodChange(text, rows), 10, is_open=True)
    found = read(drawn)
    assert shown == 2
    names = {"details", "summary", "span", "div", "table", "colgroup", "col", "tbody", "tr", "td",
             "mark"}  # fmt: skip
    assert {element.name for element in found.walk()} - {""} <= names


def test_long_runs_of_like_lines_are_left_out():
    rows = [SideBySide(f"x{i}", f"x{i}", True) for i in range(40)]
    rows[20] = SideBySide("a", "b", False)
    drawn, _ = block(MethodChange("forward", rows), 100, is_open=True)
    found = read(drawn).all("tr")
    assert [row.text for row in found if row["class"] == "left-out"] == [
        "17 more lines alike", "16 more lines alike",
    ]  # fmt: skip
    assert len(found) == 2 + 7


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [("abc", "abc", "abc"), ("abc", "ac", "abc"), ("abc", "xc", "abxc"), ("ab", "ba", "ba"),
     ("", "ab", "ab"), ("ab", "", "ab"), ("aXb", "abY", "aXbY")],
)  # fmt: skip
def test_modules_that_are_gone_stand_where_they_were(before, after, expected):
    assert "".join(_in_order(before, after)) == expected
