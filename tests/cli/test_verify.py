"""``tsarchive verify``: findings, the verdict in the last line, exit codes, JSON."""

from __future__ import annotations

import json
import re
from contextlib import nullcontext
from dataclasses import asdict

import pytest

import tsarchive
from tests.container.forging import forge, member
from tests.support.command_line import SEQUENTIAL, document, error, process, run
from tests.support.legacy_archives import FIXTURES as LEGACY
from tests.support.verifying import changed, records, zipped
from tsarchive.cli.output import COLOURS
from tsarchive.verifying import STEPS

CODE = "code/__torch__/fixtures/modules/containers.py"
FINDING_KEYS = {"rule", "severity", "nature", "message", "record", "offset", "line", "hint"}
EVIL = changed(**{"constants.pkl": b"\x80\x02(cos\nsystem\nX\x02\0\0\0ls\x85Rt."})
# A file, its verdict, the exit code, and what is told to do.
FILES = {
    "sound": (changed(), "sound", 0, "'tsarchive audit' tells what it can do"),
    "packed again": (zipped(records()), "unusual", 0, "does no harm"),
    "unknown record": (changed(**{"a.exe": b"MZ"}), "unusual", 1, "see above"),
    "cut": (changed()[:4000], "broken", 1, "get it again"),
    "web page": (b"<html></html>", "another kind", 1, "another kind"),
    "contradiction": (forge(member(local={"crc": 1})), "inconsistent", 1, "damaged or forged"),
    "evil": (EVIL, "hostile", 1, "do not load it"),
}


@pytest.fixture(params=FILES)
def made(request, tmp_path):
    data, *expected = FILES[request.param]
    path = tmp_path / "model.pt"
    path.write_bytes(data)
    return path, *expected


def test_the_last_line_is_the_verdict(made):
    path, verdict, code, advice = made
    result = run("verify", path)
    assert result.exit_code == code
    *_, last = result.stdout.splitlines()
    assert last.startswith(f"{path}: {verdict}: ")
    assert advice in last


def test_json_is_the_report(made):
    path, verdict, code, _ = made
    found = document("verify", path, code=code)
    report = tsarchive.verify(path)
    assert found["file"] == str(path)
    assert (found["verdict"], found["ok"]) == (verdict, code == 0)
    for key in ("kind", "format_version", "nbytes", "records", "code_records"):
        assert found[key] == getattr(report, key)
    assert found["tensors"] == (report.tensors and asdict(report.tensors))
    assert len(found["findings"]) == len(report.findings)
    for row, finding in zip(found["findings"], report.findings, strict=True):
        assert row.keys() == FINDING_KEYS
        assert all(row[key] == getattr(finding, key) for key in FINDING_KEYS)


def test_a_finding_says_what_where_and_what_to_do(tmp_path):
    path = tmp_path / "evil.pt"
    path.write_bytes(EVIL)
    first, what, where, hint, *_ = run("verify", path).stdout.splitlines()
    assert re.match(r"error: the pickle names 'os.system'", first)
    assert what == "  what:  hostile (pickle-global)"
    assert where == "  where: record constants.pkl, offset 3"
    assert hint.startswith("  hint:  Never unpickle")


def test_a_finding_of_code_has_its_line(tmp_path):
    path = tmp_path / "model.pt"
    path.write_bytes(changed(**{CODE: b"import os\n" + records()[CODE]}))
    assert f"  where: record {CODE}, line 1" in run("verify", path).stdout.splitlines()


def test_what_was_checked_is_told():
    *_, checked, _ = run("verify", SEQUENTIAL).stdout.splitlines()
    assert checked.startswith("checked: torchscript of format version 3, ")
    assert "21 records, 6 code records, 4 tensors in 4 storages, 104 bytes" in checked
    *_, checked, _ = run("verify", LEGACY[0]).stdout.splitlines()
    assert checked.startswith("checked: torchscript-legacy of format version ")


def test_text_from_the_file_does_not_reach_the_terminal_raw(tmp_path):
    path = tmp_path / "model.pt"
    path.write_bytes(zipped({**records(), "b\U000e0041": b"", CODE: b"import \x1b[2J\n"}))
    result = run("verify", path)
    assert result.exit_code == 1
    assert "code-import" in result.stdout
    assert "\U000e0041" not in result.stdout
    assert "\x1b" not in result.stdout


def test_files_that_cannot_be_read(tmp_path):
    assert error("verify", tmp_path / "none.pt")["type"] == "FileNotFoundError"
    found = error("verify", tmp_path)
    assert (found["type"], found["message"]) == (
        "CallError", f"{tmp_path}: no file below is named like a model"
    )  # fmt: skip


def test_a_file_argument_is_needed():
    assert run("verify").exit_code == 2


def test_progress_is_shown(monkeypatch):
    told: list[str] = []
    monkeypatch.setattr("tsarchive.cli.output.progress", lambda steps: nullcontext(told.append))
    assert run("verify", SEQUENTIAL).exit_code == 0
    assert list(dict.fromkeys(step.partition(": ")[0] for step in told)) == list(STEPS)


def test_help_says_how():
    shown = run("verify", "--help").stdout
    assert "tsarchive verify model.pt --json" in shown
    assert re.search(r"^  verify  ", run("--help").stdout, re.MULTILINE)


@pytest.mark.parametrize(
    ("env", "coloured"),
    [({}, False), ({"FORCE_COLOR": "1"}, True), ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False)],
    ids=["pipe", "forced", "forbidden"],
)
def test_severities_are_coloured(env, coloured, tmp_path, monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    path = tmp_path / "evil.pt"
    path.write_bytes(EVIL)
    shown = process("-m", "tsarchive", "verify", path, cwd=tmp_path, env=env)
    assert shown.returncode == 1
    assert (f"\x1b[38;5;{COLOURS['red']}m" in shown.stdout) is coloured


_PROBE = """
import json, sys
from tsarchive.cli import main
try:
    main(sys.argv[1:])
finally:
    print(json.dumps(sorted({"torch", "numpy"} & set(sys.modules))), file=sys.stderr)
"""


@pytest.mark.parametrize("args", [[], ["--json"]], ids=["text", "json"])
def test_torch_is_not_imported(args, tmp_path):
    done = process("-c", _PROBE, "verify", SEQUENTIAL, *args, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stderr.splitlines()[-1]) == []
