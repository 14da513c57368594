"""Checkpoints of torch.save: told as what they are, with what to do; sound ones are not broken."""

from __future__ import annotations

import pytest
import torch

import tsarchive
from tests.support.archives import torch_pickled
from tests.support.command_line import document, error, run
from tests.support.verifying import verified
from tsarchive.findings import Nature, Severity

LINEAR = torch.nn.Linear(2, 2)
OLD = {"_use_new_zipfile_serialization": False}
# The file, and the rule that tells its kind.
CHECKPOINTS = {
    "state_dict": (torch_pickled(LINEAR.state_dict()), "file-kind"),
    "module": (torch_pickled(LINEAR), "file-kind"),
    "old state_dict": (torch_pickled(LINEAR.state_dict(), **OLD), "file-torch-save-legacy"),
    "old by protocol 0": (
        torch_pickled(LINEAR.state_dict(), pickle_protocol=0, **OLD),
        "file-torch-save-legacy",
    ),
    "old by protocol 5": (
        torch_pickled(LINEAR.state_dict(), pickle_protocol=5, **OLD),
        "file-torch-save-legacy",
    ),
    "old module": (torch_pickled(LINEAR, **OLD), "file-torch-save-legacy"),
}
each = pytest.mark.parametrize("name", CHECKPOINTS)


@pytest.fixture
def path(name, tmp_path):
    path = tmp_path / "checkpoint.pt"
    path.write_bytes(CHECKPOINTS[name][0])
    return path


def tells_what_to_do(hint: str) -> bool:
    return "torch.load(weights_only=True)" in hint and "tsarchive.save" in hint


@each
def test_a_sound_checkpoint_is_of_another_kind(name):
    data, rule = CHECKPOINTS[name]
    report = verified(data)
    (found,) = (f for f in report.findings if f.severity is not Severity.INFO)
    assert (found.rule, found.nature) == (rule, Nature.OTHER_KIND)
    assert "torch.save checkpoint" in found.message
    assert tells_what_to_do(found.hint)
    assert (report.verdict, report.ok) == ("another kind", False)


@each
def test_the_command_says_what_it_is(name, path):
    result = run("verify", path)
    assert result.exit_code == 1
    assert "torch.save checkpoint" in result.stdout
    assert "broken" not in result.stdout
    assert result.stdout.splitlines()[-1].startswith(f"{path}: another kind: ")
    found = document("verify", path, code=1)
    assert found["verdict"] == "another kind"
    assert {finding["nature"] for finding in found["findings"]} == {"another kind"}


@each
def test_errors_say_what_it_is(name, path):
    for command in ("tensors", "tree", "code"):
        found = error(command, path)
        assert "torch.save checkpoint" in found["message"]
        assert tells_what_to_do(found["hint"])
    with pytest.raises(tsarchive.ArchiveError, match=r"torch\.save checkpoint") as caught:
        tsarchive.load(path)
    assert tells_what_to_do(caught.value.hint)


@each
def test_the_page_says_what_it_is(name, path, tmp_path):
    page = tsarchive.report(path).html
    assert "another kind</b> The file is of another kind." in page
    assert "torch.save checkpoint" in page


@pytest.mark.parametrize("name", ["state_dict", "module"])
def test_a_damaged_checkpoint_is_broken(name):
    data = bytearray(CHECKPOINTS[name][0])
    data[data.index(b"weight") + 2] ^= 1
    report = verified(bytes(data))
    assert report.verdict == "broken"
    assert {"zip-crc", "file-kind"} <= {finding.rule for finding in report.findings}
