"""The page about a survey: sound, whatever rows say, and as long as was asked for."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from tests.reporting.browser import Browser, executable
from tests.support.report_pages import HOSTILE, read
from tests.support.suite import examples
from tests.support.survey_rows import FILES, Rows, file, finding
from tsarchive.reporting.charts import Column, Range, Share, columns, ranges, strip
from tsarchive.surveying.gate import check
from tsarchive.surveying.page import page
from tsarchive.surveying.rules import Gate
from tsarchive.surveying.summary import summarise

POLICY = "[[rule]]\nname = 'one'\nmessage = 'None has errors'\nrequire = { errors = 0 }"
PLAIN = [
    file("a.pt", kind="torchscript", nbytes=2000, model="m", sha256="s", operators=("aten::relu",),
         effects=("files",), dtypes=("float32",), torch_first="1.13", torch_last="2.1",
         loads_on=("2.0", "2.1"), runs_on=("2.1",)),
    file("b.pt", kind="torchscript", nbytes=3000, model="m",
         operators=("aten::relu", "aten::save")),
    file("c.pt", status="crashed", nbytes=7, problem="signal 11", errors=1),
]  # fmt: skip
SECTIONS = ["overview", "kinds", "findings", "files", "twins", "torch", "contents", "operators"]


def sections(document):
    return [section["id"] for section in document.one("main").all("section")]


def cells(document, table):
    rows = document.by_id(f"table-{table}").one("tbody").all("tr")
    return [[cell.text for cell in row.children] for row in rows]


def test_the_page_tells_what_the_summary_does():
    found = page(summarise(PLAIN, [finding("c.pt")]), "models")
    document = read(found.html)
    assert sections(document) == SECTIONS
    assert (found.kind, found.ok, found.out) == ("survey", False, None)
    assert document.one("h1").text == "models"
    assert "Survey of 3 files, 4.9 KiB" in document.one("header").text
    assert cells(document, "findings") == [
        ["pickle-call", "error", "audit", "hostile", "1 ", "1"],
    ]  # fmt: skip
    assert cells(document, "files") == [["c.pt", "crashed", "1", "0", "signal 11"]]
    assert [row[:2] for row in cells(document, "operators")] == [
        ["aten::relu", "2 "], ["aten::save", "1 "],
    ]  # fmt: skip
    assert cells(document, "twins-models") == [["m", "2", "3,000 ", "a.pt, b.pt"]]
    assert cells(document, "releases") == [["2.0", "1 ", "0"], ["2.1", "1 ", "1"]]


def test_risks_of_operators_are_told():
    document = read(page(summarise(PLAIN), "x").html)
    told = {row[0]: row[2] for row in cells(document, "operators")}
    assert told["aten::relu"].startswith("compute")
    assert told["aten::save"].startswith("files")


def test_a_survey_without_files_has_a_page():
    found = page(summarise([]), "nothing")
    assert sections(read(found.html)) == ["overview"]
    assert found.ok


def test_a_gate_comes_first():
    gate = Gate.of(POLICY)
    report = check(gate, Rows(PLAIN))
    document = read(page(summarise(PLAIN), "models", gate=report).html)
    assert sections(document)[:2] == ["overview", "gate"]
    assert cells(document, "gate-rules") == [
        ["one", "error", "1", "0", "None has errors"],
        ["unread", "error", "1", "0", "not all that the file holds is known"],
    ]  # fmt: skip
    assert cells(document, "violations") == [
        ["c.pt", "error", "one", "None has errors: errors is 1 (required: errors 0)"],
        ["c.pt", "error", "unread", "not all that the file holds is known: status is crashed"],
    ]  # fmt: skip
    passing = page(summarise(PLAIN[:2]), "models", gate=check(gate, Rows(PLAIN[:2])))
    assert passing.ok
    assert "passes" in read(passing.html).one("header").text


def test_what_is_left_out_is_counted():
    many = [file(f"{n:04}", operators=(f"x::{n:04}",), errors=1, model=f"{n // 2}", nbytes=1)
            for n in range(1000)]  # fmt: skip
    few, more = (page(summarise(many, largest=n), "x") for n in (5, 10))
    text = read(few.html).one("main").text
    for told in ("and 995 more operators", "and 995 more files", "and 495 more groups"):
        assert told in text
    assert few.nbytes < more.nbytes < few.nbytes + 10_000
    sizes = {section.name: (section.shown, section.total) for section in few.sections}
    assert sizes["operators"] == (5, 1000)
    assert sizes["twins"] == (5, 500)


@settings(max_examples=examples(50))
@given(FILES)
def test_pages_of_any_rows_are_sound(rows):
    report = check(Gate.of(POLICY), Rows(rows))
    document = read(page(summarise(rows), "x", gate=report).html)
    names = [element["id"] for element in document.walk() if element["id"]]
    assert len(names) == len(set(names))


def hostile_page():
    rows = [
        file(name, root=name, kind=name, model=name, operators=(name,), effects=(name,),
             libraries=(name,), dtypes=(name,), devices=(name,), problem=name, status="failed",
             errors=1, nbytes=9, torch_first="2.0", torch_last="2.1", loads_on=(name,))
        for name in HOSTILE
    ]  # fmt: skip
    twins = [file(f"{row.path}2", model=row.model, nbytes=9) for row in rows]
    findings = [finding(row.path, rule=row.path, message=row.path) for row in rows]
    policy = Gate.of(POLICY.replace("None has errors", "<script>alert(2)</script>"))
    found = [*rows, *twins]
    return page(summarise(found, findings), HOSTILE[0], gate=check(policy, Rows(found)))


def test_hostile_names_are_text():
    html = hostile_page().html
    document = read(html)
    assert len(document.all("script")) == 2
    assert not document.all("img")
    assert html.isascii() or all(char.isprintable() or char == "\n" for char in html)
    assert HOSTILE[0] in document.by_id("files").text


@pytest.mark.long("test_hostile_names_are_text")
def test_a_browser_runs_nothing_of_it(tmp_path):
    path = executable()
    if path is None:
        pytest.skip("there is no Chromium: 'apt-get install chromium' brings one")
    (tmp_path / "page.html").write_text(hostile_page().html)
    browser = Browser(path, tmp_path / "profile")
    try:
        browser.open(tmp_path / "page.html")
        assert browser.complaints == []
        assert browser.value("document.scripts.length") == 2
        assert browser.value("document.images.length") == 0
        charts = "document.querySelectorAll('svg[role=img]')"
        assert browser.value(f"[...{charts}].every(c => c.getBoundingClientRect().width > 300)")
        assert browser.value(f"{charts}.length") == 5
        browser.click("#table-operators th:nth-child(1) button")
        assert (
            browser.value("document.querySelector('#table-operators th').ariaSort") == "ascending"
        )
    finally:
        browser.close()


def rects(drawn):
    return [
        {name: float(rect[name]) for name in ("x", "y", "width", "height")}
        for rect in read(drawn).all("rect")
    ]


def test_a_strip_is_as_wide_as_its_shares():
    drawn = strip("Files", [Share("b", 1, "one"), Share("a", 3, "three"), Share("c", 0, "none")])
    widths = [rect["width"] for rect in rects(drawn)]
    assert widths == [750, 250, 0]
    assert [item.text for item in read(drawn).all("li")] == [
        "a three, 75.0 %", "b one, 25.0 %", "c none, 0.0 %",
    ]  # fmt: skip
    assert rects(strip("Files", [Share("a", 0, "none")]))[0]["width"] == 0


@pytest.mark.parametrize("count", [1, 2, 30, 300])
def test_columns_stand_on_one_line_within_the_chart(count):
    shown = [Column(str(n), n, f"{n} files") for n in range(count)]
    drawn = columns("Files", shown)
    svg, bars = read(drawn).one("svg"), rects(drawn)
    width, height = map(float, svg["viewbox"].split()[2:])
    (line,) = svg.all("line")
    assert len(bars) == count
    for value, bar in enumerate(bars):
        assert bar["x"] >= 0
        assert bar["x"] + bar["width"] <= width
        assert bar["y"] + bar["height"] == pytest.approx(float(line["y1"]), abs=0.2)
        assert (bar["height"] > 0) is (value > 0)
    assert [bar["height"] for bar in bars] == sorted(bar["height"] for bar in bars)
    assert height > float(line["y1"])
    assert len(svg.all("text")) <= 14
    assert svg["aria-label"] == "Files"


def test_ranges_cover_their_places():
    axis = [f"1.{n}" for n in range(30)]
    drawn = ranges("Written by", axis, [Range(0, 29, "7", "all"), Range(29, 29, "1", "last")])
    whole, last = rects(drawn)
    assert last["x"] + last["width"] == pytest.approx(whole["x"] + whole["width"], abs=0.2)
    assert last["width"] < whole["width"] / 20
    assert last["y"] >= whole["y"] + whole["height"]
    assert [rect.one("title").text for rect in read(drawn).all("rect")] == ["all", "last"]
