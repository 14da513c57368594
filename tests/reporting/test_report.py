"""Pages about files of every kind: what they hold, and that they are sound HTML by themselves."""

from __future__ import annotations

import base64
import hashlib
import io
import re
import subprocess
import sys

import pytest
import torch
from torch.nn import Linear, Sequential

import tsarchive
from tests.support.archives import ARCHIVES, ROOT, saved
from tests.support.report_pages import data_of, read
from tsarchive.errors import CallError, FormatError
from tsarchive.reporting import STEPS
from tsarchive.reporting.html import LINES_PER_ROW

FIXTURES = ROOT / "fixtures"
ALWAYS = ["findings", "overview"]
WITH_MODULES = ["modules", *ALWAYS, "operators"]
FILES = {
    "archives/buffers.pt": [*WITH_MODULES, "tensors", "flow", "code", "pickled", "records"],
    "archives/script_function.pt": [*WITH_MODULES, "flow", "code", "pickled", "records"],
    "legacy/attributes-1.2.0.pt": [*WITH_MODULES, "tensors", "flow", "code", "pickled", "records"],
    "legacy/traced_network-1.0.1.pt": [*WITH_MODULES, "tensors", "flow", "code", "records"],
    "pt2/two_models.pt2": [*WITH_MODULES, "tensors", "flow", "code", "pickled", "records"],
    "pt2/linear-2.8.pt2": [*WITH_MODULES, "tensors", "flow", "code", "pickled", "records"],
    "executorch/linear.pte": [*WITH_MODULES, "memory", "tensors", "code", "records"],
    "executorch/values.pte": [*WITH_MODULES, "memory", "code", "records"],
    "executorch/data.ptd": ["modules", *ALWAYS, "tensors", "records"],
    "executorch/linear.bpte": [*WITH_MODULES, "memory", "tensors", "code", "records"],
    "hostile/file-state-dict.pt": [*ALWAYS, "pickled", "records"],
    "hostile/file-package.pt": [*ALWAYS, "code", "pickled", "records"],
    "hostile/file-pickle.pt": ["findings", "pickled"],
    "hostile/file-html.pt": ["findings"],
}


def page_of(file, **options):
    return read(tsarchive.report(FIXTURES / file, **options).html)


@pytest.mark.parametrize(("file", "names"), FILES.items(), ids=list(FILES))
def test_sections_by_kind(file, names):
    made = tsarchive.report(FIXTURES / file)
    assert [section.name for section in made.sections] == names
    page = read(made.html)
    assert [section["id"] for section in page.all("section")] == names
    assert [link["href"] for link in page.one("nav").all("a")] == [f"#{name}" for name in names]
    assert page.one("head").one("title").text == f"{file.rpartition('/')[2]}: tsarchive"
    assert not [p.text for p in page.all("p", "problem")]


@pytest.mark.parametrize("file", FILES)
def test_pages_are_sound(file):
    page = page_of(file, histograms="*")
    ids = [element["id"] for element in page.walk() if element["id"] is not None]
    assert len(ids) == len(set(ids))
    links = {element["href"] for element in page.all("a")}
    assert {link.removeprefix("#") for link in links} <= set(ids)
    for element in page.walk():
        names = set(element.attributes)
        assert "style" not in names
        assert not [name for name in names if name.startswith("on")]
        assert names.isdisjoint({"src", "srcset", "action", "formaction", "background", "poster"})
    assert {e.name for e in page.walk()}.isdisjoint({"link", "img", "iframe", "object", "base"})


def test_nothing_outside_is_named():
    html = tsarchive.report(ARCHIVES / "sequential.pt").html
    page = read(html)
    outside = re.findall(r"\bhttps?://[^\s\"'<]+", html)
    assert set(outside) <= {"http://www.w3.org/2000/svg"}
    assert "url(" not in page.one("style").text
    assert "@import" not in page.one("style").text


def test_the_policy_allows_what_is_in_the_page_alone():
    page = page_of("executorch/linear.pte")
    (policy,) = [m for m in page.all("meta") if m["http-equiv"] == "Content-Security-Policy"]
    rules = dict(rule.split(" ", 1) for rule in policy["content"].split("; "))
    hashes = {}
    for name in ("style", "script"):
        (inline,) = [e for e in page.all(name) if e["type"] is None]
        digest = base64.b64encode(hashlib.sha256(inline.text.encode()).digest()).decode()
        hashes[f"{name}-src"] = f"'sha256-{digest}'"
    assert rules == {
        "default-src": "'none'", "base-uri": "'none'", "form-action": "'none'",
        "require-trusted-types-for": "'script'", "trusted-types": "'none'", **hashes,
    }  # fmt: skip
    metas = page.one("head").children
    assert [metas[0]["charset"], metas[1]] == ["utf-8", policy]


def test_headings_tables_and_controls_are_accessible():
    page = page_of("executorch/linear.bpte", histograms="*")
    assert [h.text for h in page.all("h1")] == ["linear.bpte"]
    assert len(page.all("h2")) == len(page.all("section"))
    for table in page.all("table"):
        assert {th["scope"] for th in table.one("thead").all("th")} == {"col"}
        assert {th["scope"] for th in table.one("tbody").all("th")} == {"row"}
    for svg in page.all("svg"):
        assert svg["aria-hidden"] == "true" or (svg["role"] == "img" and svg["aria-label"])
    for box in page.all("input"):
        assert box.parent.name == "label"
    assert page.one("html")["lang"] == "en"


def test_facts_are_those_of_info():
    page = page_of("archives/buffers.pt")
    facts = page.by_id("overview").one("dl")
    labels = [term.text for term in facts.all("dt")]
    assert labels[:2] == ["file", "kind"]
    assert {"main class", "methods", "operators", "parameters", "devices"} <= set(labels)
    assert "torchscript, format version" in facts.text


def test_modules_have_sizes_and_methods():
    tree = page_of("archives/sequential.pt").by_id("tree-root")
    with tsarchive.open(ARCHIVES / "sequential.pt") as archive:
        root = archive.tree()
    names = [span.text for span in tree.all("span", "name")]
    assert names[0] == "(root)"
    assert [*names[1:]][: len(root.children)][0] == root.children[0].name
    assert "parameters" in tree.text
    assert "forward(" in tree.text


def test_operators_are_counted_and_judged():
    page = page_of("hostile/code-from-file-read.pt")
    rows = {
        row.all("th")[0].text: [cell.text for cell in row.all("td")]
        for row in page.by_id("table-operators").one("tbody").all("tr")
    }
    count, ability = rows["aten::from_file"]
    assert int(count) >= 1
    assert ability.startswith("file")


def test_operators_of_programs_have_overloads():
    table = page_of("executorch/linear.pte").by_id("table-operators")
    assert table.one("tbody").one("th").text == "aten::addmm.out"


def test_code_stands_below_its_source():
    page = page_of("archives/buffers.pt")
    block = page.by_id("code").all("details")[0]
    with tsarchive.open(ARCHIVES / "buffers.pt") as archive:
        (text,) = [t for name, t in archive.code.items() if name == block.one("span", "name").text]
    lines = [e for e in block.all("span", "line") if e["data-n"]]
    assert "".join(line.text for line in lines) == text
    origins = [e for e in block.all("span", "origin")]
    assert origins
    for origin in origins:
        target = page.by_id(origin.one("a")["href"].removeprefix("#"))
        quoted = origin.text.strip().partition(": ")[2]
        assert target.text.strip() == quoted
        assert f":{target['data-n']}: " in origin.text


def test_traced_code_has_places_without_text():
    page = page_of("archives/trace_submodules.pt")
    origins = page.by_id("code").all("span", "origin")
    assert origins
    assert all(re.fullmatch(r"\s*# .+\.py:\d+\s", origin.text) for origin in origins)


@pytest.mark.parametrize("file", ["pt2/linear.pt2", "executorch/state.pte"])
def test_listings_keep_their_lines(file):
    page = page_of(file)
    with tsarchive.open(FIXTURES / file) as archive:
        texts = list(archive.code.values())
    for block, text in zip(page.by_id("code").all("details"), texts, strict=True):
        lines = [e for e in block.all("span", "line") if e["data-n"]]
        assert "".join(line.text for line in lines) == text
        assert [int(line["data-n"]) for line in lines] == [*range(1, len(lines) + 1)]
    assert page.by_id("code").all("span", "origin")


def test_colours():
    page = page_of("archives/string_escapes.pt")
    code = page.by_id("code")
    assert {"def", "return"} <= {e.text for e in code.all("span", "tk")}
    assert "forward" in {e.text for e in code.all("span", "td")}
    assert all(e.text[-1] in "\"'" for e in code.all("span", "ts"))


def test_findings_lead_to_lines():
    page = page_of("hostile/code-from-file-read.pt")
    links = page.by_id("findings").all("a")
    assert links
    for link in links:
        line = page.by_id(link["href"].removeprefix("#"))
        assert link.text == f"line {line['data-n']}"
    assert page.by_id("findings").all("b", "error")


@pytest.mark.parametrize(
    ("file", "verdict", "ok"),
    [
        ("archives/buffers.pt", "sound", True),
        ("hostile/file-state-dict.pt", "another kind", False),
        ("hostile/file-half.pt", "broken", False),
        ("hostile/zip-local-size.pt", "inconsistent", False),
        ("hostile/pickle-reduce-os-system.pt", "hostile", False),
    ],
)
def test_verdicts(file, verdict, ok):
    made = tsarchive.report(FIXTURES / file)
    assert made.ok is ok
    assert read(made.html).one("header").one("b", "badge").text == verdict


def test_what_a_file_lacks_is_told(tmp_path):
    """A section that cannot be made says why; the others are there."""
    path = tmp_path / "damaged.pt"
    data = bytearray((ARCHIVES / "sequential.pt").read_bytes())
    with tsarchive.open(ARCHIVES / "sequential.pt") as archive:
        data[archive.records[next(iter(archive.code))].offset + 9] ^= 1
    path.write_bytes(data)
    page = read(tsarchive.report(path).html)
    assert page.by_id("code").all("p", "problem")
    assert page.by_id("records").all("tbody")
    assert page.by_id("findings").all("b", "error")
    with pytest.raises(FormatError):
        tsarchive.report(FIXTURES / "hostile/file-half.pt", findings=False)


def test_rows_are_bounded(tmp_path):
    path = tmp_path / "wide.pt"
    path.write_bytes(saved(torch.jit.script(Sequential(*[Linear(1, 1) for _ in range(60)]))))
    made = tsarchive.report(path, rows=10)
    page = read(made.html)
    sizes = {section.name: section for section in made.sections}
    assert (sizes["modules"].shown, sizes["modules"].total) == (10, 61)
    assert (sizes["tensors"].shown, sizes["tensors"].total) == (10, 120)
    assert len(page.by_id("table-tensors").one("tbody").all("tr")) == 10
    assert "and 51 more modules" in page.by_id("modules").text
    assert "and 110 more tensors" in page.by_id("tensors").text
    shown = [
        e for e in page.by_id("code").all("span", "line") if (e["id"] or "").startswith("code")
    ]
    assert len(shown) == sizes["code"].shown == 10 * LINES_PER_ROW
    assert re.search(r"and [\d,]+ more lines", page.by_id("code").text)


def test_the_largest_tensors_are_shown():
    class Sizes(torch.nn.Module):
        def __init__(self):
            super().__init__()
            for name, size in {"small": 1, "large": 500, "middle": 50, "tiny": 1}.items():
                self.register_buffer(name, torch.zeros(size))

        def forward(self, x):
            return x

    page = read(tsarchive.report(io.BytesIO(saved(torch.jit.script(Sizes()))), rows=2).html)
    rows = page.by_id("table-tensors").one("tbody").all("tr")
    assert [row.one("th").text for row in rows] == ["large", "middle"]


def test_objects_and_paths_give_one_page(tmp_path):
    path = tmp_path / "archive"
    path.write_bytes((ARCHIVES / "sequential.pt").read_bytes())
    out = tmp_path / "page.html"
    made = tsarchive.report(str(path), out)
    assert out.read_bytes() == made.html.encode()
    assert (made.out, made.nbytes) == (str(out), out.stat().st_size)
    with path.open("rb") as file:
        assert tsarchive.report(file).html == made.html


def test_a_page_does_not_depend_on_the_process(tmp_path):
    code = "import sys, tsarchive; sys.stdout.write(tsarchive.report(sys.argv[1]).html)"
    command = [sys.executable, "-c", code, str(FIXTURES / "pt2/two_models.pt2")]
    pages = [
        subprocess.run(command, cwd=tmp_path, env={"PYTHONHASHSEED": seed, "PYTHONUTF8": "1"},
                       check=True, capture_output=True).stdout
        for seed in ("1", "2")
    ]  # fmt: skip
    assert pages[0] == pages[1]


def test_steps_are_told_in_order():
    told = []
    tsarchive.report(ARCHIVES / "sequential.pt", step=told.append)
    assert tuple(told) == STEPS


def test_without_findings_nothing_is_judged():
    made = tsarchive.report(ARCHIVES / "sequential.pt", findings=False)
    assert made.ok is None
    names = [section.name for section in made.sections]
    assert {"findings", "pickled"}.isdisjoint(names)
    assert "operators" in names


def test_arguments_are_checked(tmp_path):
    path = tmp_path / "model.pt"
    path.write_bytes((ARCHIVES / "sequential.pt").read_bytes())
    before = path.read_bytes()
    with pytest.raises(CallError, match="would replace"):
        tsarchive.report(path, tmp_path / "." / "model.pt")
    with pytest.raises(CallError, match="0 rows"):
        tsarchive.report(path, rows=0)
    with pytest.raises(CallError, match="from int"):
        tsarchive.report(3)
    with pytest.raises(OSError, match="No such file"):
        tsarchive.report(tmp_path / "absent.pt")
    assert path.read_bytes() == before


def test_a_failed_write_leaves_the_old_page(tmp_path, monkeypatch):
    out = tmp_path / "page.html"
    out.write_text("old")

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tsarchive.container.writer.os.replace", full)
    with pytest.raises(OSError, match="No space"):
        tsarchive.report(ARCHIVES / "sequential.pt", out)
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    assert out.read_text() == "old"


def test_data_for_the_script_is_json():
    page = page_of("archives/buffers.pt", histograms="*")
    with tsarchive.open(ARCHIVES / "buffers.pt") as archive:
        count = len(archive.tensors)
    assert len(data_of(page)["tensors"]) == count
