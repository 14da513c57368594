"""A survey for notebooks: lazy frames, tables of Arrow, and what the rows tell."""

from __future__ import annotations

from dataclasses import fields

import pytest

from tests.support.archives import ROOT
from tests.support.survey_rows import file, finding
from tests.support.surveys import listed_names
from tsarchive.errors import CallError, UnsupportedError
from tsarchive.surveying import results
from tsarchive.surveying.dataset import DatasetWriter
from tsarchive.surveying.results import Survey
from tsarchive.surveying.rows import FileRow, FindingRow, Surveyed
from tsarchive.surveying.rules import Gate

FORMATS = ("parquet", "jsonl")
FILES = [
    file("a.pt", kind="torchscript", nbytes=10, operators=("aten::relu",), model="m"),
    file("b.pt", kind="torchscript", nbytes=30, operators=("aten::relu", "aten::add"), model="m"),
    file("c.pt2", kind="pt2", nbytes=5),
]
FINDINGS = [finding("b.pt"), finding("b.pt", rule="zip-gap", severity="warning", verb="verify")]


@pytest.fixture
def survey(tmp_path):
    """Writes a survey of these rows in a format."""
    pytest.importorskip("pyarrow")

    def write(format, *, is_finished=True, rows=tuple(FILES)):
        folder = tmp_path / f"survey-{format}"
        writer = DatasetWriter(folder, {}, format)
        for row in rows:
            writer.add([Surveyed(row, [f for f in FINDINGS if f.path == row.path])])
        if is_finished:
            writer.finish(lambda row: True)
        writer.close()
        return Survey.of(folder)

    return write


# Dask calls pandas so.
@pytest.mark.filterwarnings("ignore:The inplace keyword in DataFrame.reset_index")
@pytest.mark.parametrize("format", FORMATS)
def test_frames(survey, format):
    pytest.importorskip("dask.dataframe")
    found = survey(format)
    assert [*found.files.columns] == [field.name for field in fields(FileRow)]
    assert [*found.findings.columns] == [field.name for field in fields(FindingRow)]
    sizes = found.files.groupby("kind").nbytes.sum().compute()
    assert sizes.to_dict() == {"torchscript": 40, "pt2": 5}
    assert found.files[found.files["nbytes"] > 5].path.compute().to_list() == ["a.pt", "b.pt"]
    assert [*map(tuple, found.files.operators.compute())] == [row.operators for row in FILES]
    assert found.findings.rule.compute().to_list() == ["pickle-call", "zip-gap"]


@pytest.mark.parametrize("format", FORMATS)
def test_tables_of_arrow(survey, format):
    found = survey(format).arrow("files").to_table(columns=["path", "nbytes"])
    assert found.to_pylist() == [{"path": row.path, "nbytes": row.nbytes} for row in FILES]


@pytest.mark.parametrize("format", FORMATS)
def test_a_survey_of_nothing_has_empty_frames(survey, format):
    pytest.importorskip("dask.dataframe")
    found = survey(format, rows=())
    assert len(found.files) == len(found.findings) == 0
    assert found.arrow("files").count_rows() == 0
    assert [*found.files.columns] == [field.name for field in fields(FileRow)]
    assert found.summary().files == 0
    assert found.page().ok


def test_frames_of_parquet_are_lazy(survey):
    dataframe = pytest.importorskip("dask.dataframe")
    found = survey("parquet")
    frame = found.files
    assert isinstance(frame, dataframe.DataFrame)
    for path in found.dataset.parts("files"):
        path.unlink()
    with pytest.raises(FileNotFoundError):
        frame.compute()


def test_a_survey_that_was_not_finished_has_rows_and_no_frames(survey):
    found = survey("jsonl", is_finished=False)
    assert found.summary().files == len(FILES)
    for ask in (lambda: found.files, lambda: found.arrow("findings")):
        with pytest.raises(CallError) as raised:
            ask()
        assert "Run the survey again" in raised.value.hint


@pytest.mark.parametrize("package", ["dask.dataframe", "pyarrow"])
def test_what_is_not_installed_is_told(survey, package, monkeypatch):
    found = survey("jsonl")
    monkeypatch.setattr(results, "find_spec", lambda name: None if name == package else name)
    with pytest.raises(UnsupportedError) as raised:
        found.files if package == "dask.dataframe" else found.arrow("files")
    assert package in raised.value.message
    assert "tsarchive[survey]" in raised.value.hint


@pytest.mark.filterwarnings("ignore:The inplace keyword in DataFrame.reset_index")
def test_the_documented_lines_run(tmp_path, monkeypatch, capsys):
    pytest.importorskip("dask.dataframe")
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    listed_names(tmp_path, ["a.pt", "b.pt"])
    (tmp_path / "policy.toml").write_text("[[rule]]\nname = 'r'\ndeny = { kind = 'pt2' }")
    text = (ROOT / "docs/survey.md").read_text().partition("```python\n")[2].partition("```")[0]
    lines = text.replace('survey("models", "survey")', 'survey(".", "survey", workers=0)')
    lines = lines.replace('forget("models")', 'forget(".")')
    assert lines.count('"."') == 2
    exec(lines, {})
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["a.pt", "b.pt"]
    assert (tmp_path / "survey.html").exists()


def test_a_survey_is_shown_by_its_folder(survey, tmp_path):
    assert repr(survey("jsonl")) == f"<Survey in {str(tmp_path / 'survey-jsonl')!r}>"


def test_the_rows_tell_and_pass_a_gate(survey, tmp_path):
    found = survey("jsonl")
    summary = found.summary()
    assert (summary.files, summary.by_model.saved_nbytes) == (3, 30)
    assert summary.severities == {"error": 1, "warning": 1}
    policy = "[[rule]]\nname = 'r'\ndeny = { finding = { severity = 'error' } }"
    (tmp_path / "policy.toml").write_text(policy)
    report = found.check(tmp_path / "policy.toml")
    assert report == found.check(Gate.of(policy))
    assert [violation.place.path for violation in report.violations] == ["b.pt"]
    page = found.page(tmp_path / "page.html", gate=report, name="All models")
    assert (tmp_path / "page.html").read_text() == page.html
    assert not page.ok
    assert "All models" in page.html
    assert "survey-jsonl" in found.page(largest=1).html
