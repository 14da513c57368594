"""``tsarchive survey`` of a survey that is there: what it tells, its gate and its page."""

from __future__ import annotations

import json

import pytest

from tests.support.command_line import document, error, run
from tests.support.survey_rows import file, finding
from tsarchive.surveying.dataset import DatasetWriter
from tsarchive.surveying.rows import Surveyed

PASSING = "[[rule]]\nname = 'sizes'\nrequire = { nbytes = '< 1 MiB' }"
FAILING = "[[rule]]\nname = 'effects'\nmessage = 'No files'\ndeny = { effects = 'files' }"


@pytest.fixture
def survey(tmp_path):
    """Writes a survey, and returns its folder."""

    def write(*rows, aspects=None):
        folder = tmp_path / "survey"
        writer = DatasetWriter(folder, aspects or {}, "jsonl")
        writer.add(rows)
        writer.finish(lambda row: True)
        writer.close()
        return folder

    return write


@pytest.fixture
def policy(tmp_path):
    def write(text):
        path = tmp_path / "policy.toml"
        path.write_text(text)
        return path

    return write


FINE = Surveyed(file("a.pt", kind="torchscript", nbytes=100, model="m"))
TWIN = Surveyed(file("b.pt", kind="torchscript", nbytes=300, model="m", effects=("files",)))
WARNED = Surveyed(file("c.pt", nbytes=50, warnings=1), [finding("c.pt", severity="warning")])
DAMAGED = Surveyed(file("e.pt", status="refused", problem="it is cut short"))
DIED = Surveyed(file("d.pt", status="crashed", problem="signal 9"))


def test_roots_are_forgotten(survey):
    out = survey(FINE, Surveyed(file("x.pt", root="other")))
    assert document("survey", "--out", out, "--forget", "other")["files"] == {"read": 1}
    assert "no root 'other'" in error("survey", "--out", out, "--forget", "other")["message"]


def test_nothing_is_left_where_a_root_is_not_there(tmp_path):
    out = tmp_path / "out"
    assert error("survey", tmp_path / "nonexistent", "--out", out)["type"] == "FileNotFoundError"
    assert not out.exists()


def test_it_tells_of_the_survey(survey):
    shown = run("survey", "--out", survey(FINE, TWIN, WARNED))
    assert shown.exit_code == 0
    for told in (
        "3 files, 450 bytes: 3 read",
        "2 files in 1 group; one of each would save 300 bytes",
        "effects:     files 1",
        "pickle-call",
        "models/c.pt: read: 1 warning",
    ):
        assert told in shown.stdout


@pytest.mark.parametrize(
    ("loads_on", "told"),
    [
        (
            (("1.13", "2.0", "2.1", "2.4"), ("1.13", "2.0", "2.1", "2.4")),
            "all of them by 1.13 to 2.1, 2.4",
        ),
        ((("2.4",), ("2.3", "2.4")), "all of them by 2.4"),
        ((("2.3",), ("2.4",)), "none loads all of them"),
    ],
)
def test_releases_that_follow_each_other_are_told_as_one(survey, loads_on, told):
    rows = [Surveyed(file(f"{n}.pt", loads_on=each)) for n, each in enumerate(loads_on)]
    shown = run("survey", "--out", survey(*rows)).stdout
    assert f"2 files that some release loads; {told}\n" in shown


def test_it_tells_the_same_as_json(survey):
    found = document("survey", "--out", survey(FINE, TWIN, WARNED))
    assert (found["ok"], found["read"], found["files"]) == (True, 0, {"read": 3})
    assert found["findings"] == {"error": 0, "warning": 1, "info": 0}
    assert found["summary"]["by_model"]["saved_nbytes"] == 200 + 100
    assert found["gate"] is None


@pytest.mark.parametrize(
    ("rows", "options", "code"),
    [
        ((FINE,), (), 0),
        ((WARNED,), (), 0),
        ((WARNED,), ("--fail-on", "warning"), 1),
        ((WARNED,), ("--fail-on", "info"), 1),
        ((DAMAGED,), (), 1),
        ((DAMAGED,), ("--fail-on", "never"), 0),
        ((DIED,), (), 1),
        ((DIED,), ("--fail-on", "never"), 0),
    ],
)
def test_exit_codes(survey, rows, options, code):
    assert run("survey", "--out", survey(*rows), *options).exit_code == code


@pytest.mark.parametrize(
    ("rows", "text", "options", "code"),
    [
        ((FINE, WARNED), PASSING, (), 0),
        ((FINE, WARNED), PASSING, ("--fail-on", "warning"), 1),
        ((FINE, TWIN), FAILING, (), 1),
        ((FINE, TWIN), f"{FAILING}\nseverity = 'info'", (), 0),
        ((DIED,), FAILING, (), 1),
    ],
)
def test_exit_codes_with_a_gate(survey, policy, rows, text, options, code):
    shown = run("survey", "--out", survey(*rows), "--gate", policy(text), *options)
    assert shown.exit_code == code, shown.output
    assert ("gate passes" in shown.stdout) is (code == 0 or bool(options))


def test_violations_as_text_json_and_sarif(survey, policy):
    args = "survey", "--out", survey(FINE, TWIN), "--gate", policy(FAILING)
    assert "error: models/b.pt: effects: No files: effects: files" in run(*args).stdout
    found = document(*args, code=1)
    assert (found["ok"], found["gate"]["violated"]) == (False, 1)
    assert [each["place"]["path"] for each in found["gate"]["violations"]] == ["b.pt"]
    shown = run(*args, "--sarif")
    (result,) = json.loads(shown.stdout)["runs"][0]["results"]
    assert (shown.exit_code, result["ruleId"]) == (1, "effects")


def test_a_page(survey, policy, tmp_path):
    args = "survey", "--out", survey(FINE, TWIN), "--page", tmp_path / "page.html"
    assert run(*args, "--gate", policy(FAILING)).exit_code == 1
    assert "No files: effects: files" in (tmp_path / "page.html").read_text()
    assert run(*args).exit_code == 0
    assert "No files" not in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("given", [(), ("--json",)])
def test_sarif_is_of_a_gate(survey, given):
    shown = run("survey", "--out", survey(FINE), "--sarif", *given)
    assert shown.exit_code == 2


def test_a_folder_without_a_survey(tmp_path):
    shown = run("survey", "--out", tmp_path / "none")
    assert shown.exit_code == 2
    assert "has no survey yet" in shown.output


def test_what_is_wrong_with_a_policy_is_told(survey, policy, tmp_path):
    folder = survey(FINE, aspects={"audit": False})
    told = error("survey", "--out", folder, "--gate", policy("rule = 3"))
    assert told["type"] == "FormatError"
    assert told["file"] == str(tmp_path / "policy.toml")
    told = error("survey", "--out", folder, "--gate", policy(FAILING))
    assert "made without audit" in told["message"]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [("rule = 3", (), "rule is no list"), (FAILING, ("--no-audit",), "made without audit")],
)
def test_a_policy_is_read_before_any_file(policy, tmp_path, text, options, message):
    (tmp_path / "a.pt").touch()
    out = tmp_path / "survey"
    told = error("survey", tmp_path, "--out", out, "--gate", policy(text), *options)
    assert message in told["message"]
    assert not out.exists()


def test_a_gate_that_checks_nothing_does_not_pass(survey, policy):
    signature = Surveyed(file("a.pt.sig", kind="signature", status="foreign"))
    for rows in ((), (signature,)):
        told = error("survey", "--out", survey(*rows), "--gate", policy(PASSING))
        assert "no file that the gate could check" in told["message"]


def test_a_survey_is_written_to_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for roots in ((), (tmp_path,)):
        told = error("survey", *roots, "--out", "memory://bucket/survey")
        assert told["message"] == "a survey is written to a folder, not to a URL"
    assert not [*tmp_path.iterdir()]
