"""``tsarchive report``."""

from __future__ import annotations

import json

import pytest

import tsarchive
from tests.support.archives import ROOT
from tests.support.command_line import SEQUENTIAL, document, error, process, run
from tests.support.report_pages import data_of, read
from tsarchive.reporting.html import ROWS

HALF = ROOT / "fixtures" / "hostile" / "file-half.pt"


def test_it_writes_the_page_of_the_library(tmp_path):
    out = tmp_path / "page.html"
    shown = run("report", SEQUENTIAL, "-o", out)
    assert shown.exit_code == 0
    assert out.read_text() == tsarchive.report(SEQUENTIAL).html
    assert str(out) in shown.stdout
    assert "sections" in shown.stdout


def test_json_names_the_sections(tmp_path):
    out = tmp_path / "page.html"
    found = document("report", SEQUENTIAL, "-o", out)
    assert (found["file"], found["out"]) == (SEQUENTIAL, str(out))
    assert (found["nbytes"], found["kind"], found["ok"]) == (
        out.stat().st_size,
        "torchscript",
        True,
    )
    sections = {section["name"]: section for section in found["sections"]}
    with tsarchive.open(SEQUENTIAL) as archive:
        assert sections["tensors"]["total"] == len(archive.tensors)
    assert all(section["nbytes"] > 0 for section in found["sections"])


def test_findings_give_one(tmp_path):
    out = tmp_path / "page.html"
    found = document("report", HALF, "-o", out, code=1)
    assert found["ok"] is False
    assert read(out.read_text()).one("header").one("b", "badge").text == "broken"
    assert "findings" in run("report", HALF, "-o", out).stdout


@pytest.mark.parametrize(
    ("given", "drawn"),
    [([], 0), (["--histograms"], None), (["--histograms=*.weight"], "weight")],
)
def test_histograms_are_asked_for(given, drawn, tmp_path):
    out = tmp_path / "page.html"
    assert run("report", SEQUENTIAL, "-o", out, *given).exit_code == 0
    with tsarchive.open(SEQUENTIAL) as archive:
        names = list(archive.tensors)
    found = data_of(read(out.read_text())).get("tensors", {})
    wanted = [name for name in names if drawn is None or name.endswith(f".{drawn}")]
    assert len(found) == len(wanted)


def test_rows_and_findings_are_chosen(tmp_path):
    out = tmp_path / "page.html"
    found = document("report", SEQUENTIAL, "-o", out, "--rows", 1, "--no-findings")
    assert found["ok"] is None
    assert {section["name"]: section["shown"] for section in found["sections"]}["records"] == 1
    assert f"({ROWS})" in run("report", "--help").stdout.replace(",", "")


def test_errors(tmp_path):
    folder = tmp_path / "absent"
    found = error("report", SEQUENTIAL, "-o", folder / "page.html")
    assert "No such file" in found["message"]
    assert not folder.exists()
    assert "would replace" in error("report", SEQUENTIAL, "-o", SEQUENTIAL)["message"]
    missing = tmp_path / "missing.pt"
    assert "No such file" in error("report", missing, "-o", tmp_path / "page.html")["message"]
    assert run("report", SEQUENTIAL).exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_nothing_heavy_is_imported(tmp_path):
    code = (
        "import json, sys\nfrom tsarchive.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "finally: print(json.dumps(sorted({'torch', 'numpy', 'rich'} & set(sys.modules))),"
        " file=sys.stderr)"
    )
    done = process("-c", code, "report", SEQUENTIAL, "-o", "page.html", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stderr.splitlines()[-1]) == []
