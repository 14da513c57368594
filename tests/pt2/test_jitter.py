"""No jitter in PT2 archives: saved twice, loaded and saved again, JSON decoded and encoded."""

from __future__ import annotations

import io
import json

import pytest

import tsarchive
from tests.support.command_line import run
from tests.support.pt2_archives import NAMES, changed, fixture, records_in, write
from tsarchive.testing import assert_no_jitter

MODEL = "models/model.json"
# Programs that torch 2.8 or later wrote; older ones are written in today's layout.
OF_TODAY = [name for name in NAMES if "-2." not in name and name != "two_models"]
OF_OLD = [name for name in NAMES if "-2." in name]


@pytest.mark.parametrize("name", OF_TODAY)
def test_files_of_torch_are_saved_as_they_are(name):
    report = tsarchive.check_jitter(fixture(name))
    assert report.stable
    assert report.as_read is not None
    assert report.as_read.same_file
    assert report.graph == tsarchive.GraphReport()


@pytest.mark.parametrize("name", OF_OLD)
def test_files_of_old_versions_are_saved_once_in_another_layout(name):
    report = tsarchive.check_jitter(fixture(name))
    assert report.stable
    assert report.as_read is not None
    assert not report.as_read.same_file
    assert report.graph.stable
    assert report.graph.records == ()


def test_fields_that_the_schema_does_not_have_are_told(tmp_path):
    """Decoding and encoding drops what is new, once."""
    path = changed(fixture("linear"), MODEL, lambda p: p.update(new=1), tmp_path / "linear.pt2")
    report = tsarchive.check_jitter(path)
    assert report.stable
    assert [difference.record for difference in report.graph.code] == [MODEL]
    assert report.graph.records == ()


def test_the_text_of_json_counts(tmp_path):
    """Other white space is the same program, and another record."""

    def spaced(record: bytes) -> bytes:
        return json.dumps(json.loads(record), indent=1).encode()

    records = records_in(fixture("linear"))
    path = write(tmp_path / "linear.pt2", {**records, MODEL: spaced(records[MODEL])})
    (difference,) = tsarchive.check_jitter(path).graph.code
    assert (difference.record, difference.offset) == (MODEL, 1)


@pytest.mark.long("test_files_of_torch_are_saved_as_they_are")
def test_each_of_several_models_is_loaded_and_saved():
    report = tsarchive.check_jitter(fixture("two_models"), canonical=True)
    assert report.stable
    assert report.as_read is not None
    assert report.as_read.same_file
    assert report.canonical is not None
    assert report.canonical.same


@pytest.mark.parametrize("model", ["first", "second"])
def test_the_report_is_of_the_model_that_changes(model, monkeypatch):
    """Where saving one of them gives other bytes each time, whichever it is."""
    from tsarchive import jitter

    saved, saves = jitter._saved, []
    name = {"first": "Linear", "second": "Shared"}[model]

    def unstable(module, root):
        saves.append(module)
        return saved(module, f"root{len(saves)}" if module.original_name == name else root)

    monkeypatch.setattr(jitter, "_saved", unstable)
    assert not tsarchive.check_jitter(fixture("two_models")).twice.same


def test_the_assertion_takes_pt2_archives():
    assert_no_jitter(fixture("nested"))
    assert_no_jitter(tsarchive.load(fixture("nested")))
    assert_no_jitter(io.BytesIO(fixture("mutating").read_bytes()))


def test_the_command_finds_pt2_archives_below_a_folder():
    result = run("jitter", "--all", str(fixture("linear").parent))
    assert "linear.pt2: stable" in result.stdout
    assert "15 archives: 0 unusable, 15 stable, 0 changed" in result.stdout
    assert result.exit_code == 0


def test_the_command_speaks_of_programs():
    shown = run("jitter", fixture("linear")).output
    assert "programs: the JSON as read" in shown
    assert "code" not in shown
    assert "debug" not in shown
