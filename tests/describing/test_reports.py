"""Reports: true where their command exits with 0, a line as ``repr``, readable as ``str``."""

from __future__ import annotations

import re
import zipfile
from functools import reduce

import pytest
import torch

import tsarchive
from tests.describing.test_notebook import ALLOWED, Tags
from tests.support.archives import ARCHIVES, ROOT
from tests.support.command_line import run
from tsarchive.comparing import SaveComparison
from tsarchive.notebook import MOST_LINES
from tsarchive.reports import Report

NET = ARCHIVES / "sequential.pt"
OTHER = ARCHIVES / "buffers.pt"
DAMAGED = ROOT / "fixtures/hostile/zip-crc.pt"
HOSTILE = ROOT / "fixtures/hostile/code-from-file-read.pt"
PROGRAM = ROOT / "fixtures/executorch/linear.pte"


def with_a_bad_weight(folder):
    path = folder / "bad.pt"
    with zipfile.ZipFile(NET) as archive:
        weight = archive.read("sequential/data/0")
    path.write_bytes(NET.read_bytes().replace(weight, bytes(len(weight))))
    return path


# The report, the command that makes it, and the truth of both. The command writes FILE.
ROWS = {
    "verify": (lambda out: tsarchive.verify(NET), ("verify", NET), True),
    "verify damaged": (lambda out: tsarchive.verify(DAMAGED), ("verify", DAMAGED), False),
    "audit": (lambda out: tsarchive.audit(NET), ("audit", NET), True),
    "audit hostile": (lambda out: tsarchive.audit(HOSTILE), ("audit", HOSTILE), False),
    "compat": (lambda out: tsarchive.compat(NET), ("compat", NET), True),
    "compat asked": (
        lambda out: tsarchive.compat(NET, ["1.4", "2.13"]),
        ("compat", NET, "--torch", "1.4,2.13"),
        False,
    ),
    "compat of a program": (lambda out: tsarchive.compat(PROGRAM), ("compat", PROGRAM), True),
    "jitter": (lambda out: tsarchive.check_jitter(NET), ("jitter", NET), True),
    "diff": (lambda out: tsarchive.diff(NET, NET), ("diff", NET, NET), True),
    "diff of others": (lambda out: tsarchive.diff(NET, OTHER), ("diff", NET, OTHER), False),
    "convert": (
        lambda out: tsarchive.convert(NET, out / "a.safetensors"),
        ("convert", NET, "FILE.safetensors"),
        True,
    ),
    "decompile": (
        lambda out: tsarchive.decompile(NET, out / "package"),
        ("decompile", NET, "-o", "FILE"),
        True,
    ),
    "leave": (
        lambda out: tsarchive.leave(NET, only=["safetensors"]),
        ("leave", NET, "--only", "safetensors"),
        True,
    ),
    "salvage": (
        lambda out: tsarchive.salvage(NET, out / "rest.safetensors"),
        ("tensors", NET, "--salvage", "FILE.safetensors"),
        True,
    ),
    "salvage damaged": (
        lambda out: tsarchive.salvage(with_a_bad_weight(out), out / "rest.safetensors"),
        ("tensors", "FOLDER/bad.pt", "--salvage", "FILE.safetensors"),
        False,
    ),
    "page": (lambda out: tsarchive.report(NET), ("report", NET, "-o", "FILE.html"), True),
    "page damaged": (
        lambda out: tsarchive.report(DAMAGED),
        ("report", DAMAGED, "-o", "FILE.html"),
        False,
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_truth_is_what_the_command_exits_with(name, tmp_path):
    make, command, is_fine = ROWS[name]
    names = {"FOLDER": str(tmp_path), "FILE": str(tmp_path / "written")}
    report = make(tmp_path)
    args = (
        reduce(lambda arg, name: arg.replace(*name), names.items(), str(arg)) for arg in command
    )
    exit_code = run(*args).exit_code
    assert isinstance(report, Report)
    assert (bool(report), report.ok, exit_code) == (is_fine, is_fine, 0 if is_fine else 1)


@pytest.mark.parametrize("name", ROWS)
def test_reports_are_read(name, tmp_path):
    report = ROWS[name][0](tmp_path)
    headline, *lines = str(report).splitlines()
    assert repr(report) == f"<{type(report).__name__}: {headline}>"
    assert "<" not in headline
    assert len(lines) <= MOST_LINES + 1
    assert not any(re.search(r"\w+\(.*=", line) for line in lines)  # the repr of a value
    found = Tags(report._repr_html_())
    assert set(found.tags) <= ALLOWED


def test_what_is_not_compared_is_no_difference():
    report = tsarchive.DiffReport("a", "b", [], ("weights",), not_compared=("code",))
    assert (report.same, report.ok, bool(report)) == (None, True, True)


def test_hostile_names_are_escaped():
    name = "a\x1b[31mb\u202ec\n"
    report = tsarchive.SalvageReport((), (tsarchive.LostTensor(name, "cut"),))
    assert str(report).splitlines()[1:] == ["a\\x1b[31mb\\u202ec\\n  cut"]
    assert "\n" not in repr(tsarchive.DiffReport(name, "b", [], ()))


def test_a_page_that_checked_nothing_is_true():
    page = tsarchive.report(DAMAGED, findings=False)
    assert (page.ok, bool(page)) == (None, True)


def test_all_of_jitter_decides():
    fine = tsarchive.check_jitter(NET)
    worse = SaveComparison(same=False)
    assert fine.ok
    for change in ({"stable": False}, {"canonical": worse}):
        fields = {name: getattr(fine, name) for name in fine.__slots__}
        assert not type(fine)(**{**fields, **change})


def test_long_reports_say_what_is_left_out():
    state = {f"weight{number}": torch.ones(1) for number in range(MOST_LINES + 5)}
    other = {name: value + 1 for name, value in state.items()}
    text = str(tsarchive.diff(_saved(state), _saved(other)))
    assert text.splitlines()[-1] == "and 5 more"


def _saved(state):
    module = torch.nn.Module()
    for name, value in state.items():
        module.register_buffer(name, value)
    return torch.jit.script(module)
