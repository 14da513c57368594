"""``tsarchive diff``: changes for people and programs, counts, parts, exit codes."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch
from torch import Tensor, nn

import tsarchive
from tests.support.archives import ARCHIVES, records_of, saved
from tests.support.command_line import SEQUENTIAL, document, error, run
from tests.support.verifying import packed

VIEWS = str(ARCHIVES / "views.pt")


@pytest.fixture
def changed(tmp_path) -> str:
    """An archive with another operator."""
    records = records_of((ARCHIVES / "sequential.pt").read_bytes())
    name, data = next((n, d) for n, d in records.items() if b"torch.relu(" in d)
    path = tmp_path / "changed.pt"
    path.write_bytes(packed({**records, name: data.replace(b"torch.relu(", b"torch.tanh(", 1)}))
    return str(path)


def test_a_model_is_no_other_than_itself():
    result = run("diff", SEQUENTIAL, SEQUENTIAL)
    assert result.exit_code == 0
    assert result.stdout == (
        f"{SEQUENTIAL} and {SEQUENTIAL} do not differ: code, structure, weights, extra files\n"
    )


def test_changes_are_told_with_the_code_side_by_side(changed):
    result = run("diff", SEQUENTIAL, changed)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert any("operator" in line and "aten::relu -> aten::tanh" in line for line in lines)
    assert [line for line in lines if line.startswith(("- ", "+ "))]
    assert lines[-1] == f"1 change from {SEQUENTIAL} to {changed}"


def test_a_wide_terminal_has_two_columns(changed, monkeypatch):
    monkeypatch.setattr("tsarchive.cli.diff.width", lambda: 140)
    lines = run("diff", SEQUENTIAL, changed).stdout.splitlines()
    (row,) = [line for line in lines if "torch.tanh(" in line]
    assert "torch.relu(" in row.partition(" | ")[0]


def test_changes_are_counted(changed):
    result = run("diff", SEQUENTIAL, changed, "--stat")
    assert result.exit_code == 1
    heading, _, row, total = result.stdout.splitlines()
    assert heading.split() == ["module", "kind", "changes"]
    assert row.split()[-2:] == ["operator", "1"]
    assert total.startswith("1 change ")


def test_a_document_has_all_of_the_report(changed):
    found = document("diff", SEQUENTIAL, changed, code=1)
    (change,) = found["changes"]
    assert (found["same"], change["kind"], change["after"]) == (False, "operator", "aten::tanh")
    assert [use["operator"] for use in found["operators_gained"]] == ["aten::tanh"]
    assert {"packing", "methods", "compared", "divergence"} <= found.keys()


def test_parts_are_chosen(changed):
    assert run("diff", SEQUENTIAL, changed, "--only", "weights, structure").exit_code == 0
    assert run("diff", SEQUENTIAL, changed, "--only", "code").exit_code == 1
    told = error("diff", SEQUENTIAL, changed, "--only", "wights")
    assert "'wights' is none of" in told["message"]


@pytest.mark.parametrize("name", ["missing.pt", "broken.pt"])
def test_what_cannot_be_read_is_told(name, tmp_path):
    (tmp_path / "broken.pt").write_bytes(b"PK\x03\x04 and no more")
    assert run("diff", SEQUENTIAL, tmp_path / name).exit_code == 2
    assert document("diff", SEQUENTIAL, tmp_path / name, code=2)["error"]["message"]


def test_control_characters_are_escaped(tmp_path):
    records = records_of((ARCHIVES / "sequential.pt").read_bytes())
    path = tmp_path / "noted.pt"
    path.write_bytes(packed({**records, "extra/note": b"\x1b[2J"}))
    result = run("diff", SEQUENTIAL, path)
    assert result.exit_code == 1
    assert "\x1b" not in result.stdout


def test_progress_of_large_files_is_shown(monkeypatch):
    told: list[str] = []
    monkeypatch.setattr("tsarchive.cli.output.progress", lambda steps: nullcontext(told.append))
    assert run("diff", VIEWS, VIEWS).exit_code == 0
    assert told


@pytest.mark.parametrize("place", [0, 1])
def test_errors_name_the_file(place, tmp_path):
    paths = [SEQUENTIAL, SEQUENTIAL]
    paths[place] = str(tmp_path / "net.py")
    (tmp_path / "net.py").write_text("print()\n")
    result = run("diff", *paths)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {paths[place]}: ")
    assert error("diff", *paths)["file"] == paths[place]
    with pytest.raises(tsarchive.ArchiveError) as raised:
        tsarchive.diff(*paths)
    assert str(raised.value).startswith(f"{paths[place]}: ")


class Block(nn.Module):
    def __init__(self, kind: str, values: list[int]) -> None:
        super().__init__()
        self.kind = kind
        self.values = values

    def forward(self, x: Tensor) -> Tensor:
        return x


def written(path, *modules: nn.Module) -> str:
    path.write_bytes(saved(torch.jit.script(nn.Sequential(*modules))))
    return str(path)


def test_changes_that_are_alike_are_told_as_one(tmp_path):
    before = written(tmp_path / "a.pt", *(Block("a", [1]) for _ in range(6)))
    after = written(tmp_path / "b.pt", *(Block("b", [1]) for _ in range(6)))
    lines = run("diff", before, after).stdout.splitlines()
    assert lines[:3] == [
        "in 6 modules", "  attribute kind: a -> b", "    in:   0, 1, 2, 3, and 2 more",
    ]  # fmt: skip
    assert lines[-1].startswith("6 changes from")


def test_of_long_values_the_part_that_differs_is_shown(tmp_path):
    values = [*range(1000)]
    before = written(tmp_path / "a.pt", Block("a", values))
    after = written(tmp_path / "b.pt", Block("a", [*values[:-1], 5]))
    (line,) = [
        line for line in run("diff", before, after).stdout.splitlines() if "attribute" in line
    ]
    own, other = line.partition(": ")[2].split(" -> ")
    assert own.endswith("999]")
    assert other.endswith("5]")
    assert len(line) < 120


def test_what_is_told_of_a_function_stands_in_it(changed):
    assert "operator in relu: aten::relu -> aten::tanh" in run("diff", SEQUENTIAL, changed).stdout


def test_parts_that_are_not_compared_are_told(tmp_path):
    path = written(tmp_path / "a.pt", nn.Linear(2, 2))
    tsarchive.convert(path, tmp_path / "a.pt2", args=(torch.ones(1, 2),))
    result = run("diff", path, tmp_path / "a.pt2")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == (
        "NOT COMPARED: code and structure (two formats); --random or --run runs both"
    )
    found = document("diff", path, tmp_path / "a.pt2")
    assert (found["same"], found["not_compared"]) == (None, ["code", "structure"])
    assert document("diff", path, tmp_path / "a.pt2", "--only", "weights")["same"] is True


def test_extra_files_have_both_names(changed):
    for name in ("extra", "extra files"):
        assert run("diff", SEQUENTIAL, changed, "--only", name).exit_code == 0
