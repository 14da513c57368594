"""``tsarchive edit``."""

from __future__ import annotations

import json
import shutil

import numpy
import pytest

import tsarchive
from fixtures.executorch_samples import BIAS, FILES, WEIGHT
from tests.support.command_line import SEQUENTIAL, document, error, process, run
from tests.support.executorch_files import FIXTURES
from tsarchive.executorch import Draft

HEAVY = """
import json, sys
from tsarchive.cli import main
try:
    main(sys.argv[1:])
finally:
    heavy = {"torch", "numpy", "rich", "executorch", "flatbuffers"} & set(sys.modules)
    print(json.dumps(sorted(heavy)), file=sys.stderr)
"""


def path(name):
    return FIXTURES / name


def tensors(file):
    with tsarchive.open(file) as archive:
        return {name: info.storage for name, info in archive.tensors.items()}


def test_constants_out_and_in_again(tmp_path):
    small, data, whole = (tmp_path / name for name in ("small.pte", "data.ptd", "whole.pte"))
    shown = run("edit", path("linear.pte"), "-o", small, "--external", data).stdout
    sizes = [f"({file.stat().st_size:,} bytes)" for file in (small, data)]
    assert shown == f"{path('linear.pte')} is now {small} {sizes[0]} and {data} {sizes[1]}\n"
    assert set(tensors(small).values()) == {"external:forward.0", "external:forward.2"}
    found = document("edit", small, "-o", whole, "--internal", data)
    assert found == {
        "file": str(small),
        "edited": True,
        "files": [{"file": str(whole), "nbytes": whole.stat().st_size}],
    }
    assert set(tensors(whole).values()) == {"segments/0"}


def test_nothing_to_edit_is_a_copy(tmp_path):
    target = tmp_path / "copy.pte"
    result = run("edit", path("state.pte"), "-o", target)
    assert result.stdout.endswith("bytes), byte for byte\n")
    assert target.read_bytes() == FILES["state.pte"]()
    assert not document("edit", path("state.pte"), "-o", target)["edited"]


def test_only_some(tmp_path):
    small, data = tmp_path / "small.pte", tmp_path / "data.ptd"
    run("edit", path("linear.pte"), "-o", small, "--external", data, "--only", "forward.0")
    assert tensors(small) == {"forward.0": "external:forward.0", "forward.2": "segments/0"}
    assert list(tensors(data)) == ["forward.0"]


def test_other_bytes_and_names(tmp_path):
    target = tmp_path / "model.pte"
    shutil.copy(path("linear.pte"), target)
    weight, raw = tmp_path / "weight.npy", tmp_path / "bias.bin"
    numpy.save(weight, numpy.ones((4, 3), "float32"))
    raw.write_bytes(BIAS[::-1])
    args = ("--replace", f"forward.2={weight}", "--replace", f"forward.0={raw}")
    run("edit", target, "-o", target, *args, "--rename", "forward.2=weight")
    with tsarchive.open(target) as archive:
        assert list(archive.tensors) == ["forward.0", "weight"]
        assert archive.read("segments/0") == BIAS[::-1] + bytes(4) + numpy.ones(12, "f").tobytes()


def test_data_files_are_merged(tmp_path):
    other, target = tmp_path / "other.ptd", tmp_path / "all.ptd"
    run("edit", path("linear.pte"), "-o", tmp_path / "x.pte", "--external", other)
    run("edit", path("data.ptd"), "-o", target, "--merge", other, "--merge", path("data_06.ptd"))
    names = ["net.weight", "tied", "forward.0", "forward.2", "a", "b"]
    assert list(tensors(target)) == names


def test_stripping_aligning_and_upgrading(tmp_path):
    target = tmp_path / "model.pte"
    run("edit", path("state.pte"), "-o", target, "--strip", "all", "--align", 4096)
    with tsarchive.open(target) as archive:
        found = archive.executorch.program
        assert found.method("step").chains[0].frames == ()
        assert {start % 4096 for start, _ in found.segments} == {0}
    run("edit", path("inline.pte"), "-o", target, "--upgrade", "--align-constants", 64)
    with tsarchive.open(target) as archive:
        assert archive.executorch.program.constants.offsets == (0, 0, 64)


def test_the_program_of_a_bundle(tmp_path):
    target, bundle = tmp_path / "model.pte", tmp_path / "model.bpte"
    run("edit", path("linear.bpte"), "-o", target)
    assert target.read_bytes() == FILES["linear.pte"]()
    run("edit", path("linear.bpte"), "-o", bundle, "--strip", "test-suites")
    with tsarchive.open(bundle) as archive:
        assert archive.executorch.regions.content.test_suites == ()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--replace", "forward.0"], "no LEFT=RIGHT"),
        (["--rename", "=x"], "no LEFT=RIGHT"),
        (["--rename", "nothing=x"], "no tensor 'nothing'"),
        (["--only", "forward.0"], "--only is about"),
        (["--strip", "weights"], "'weights' is not one of"),
        (["--align", "24"], "power of two"),
        (["--merge", str(path("data.ptd"))], "no data file"),
        (["--internal", str(path("add.pte"))], "a pte file is no data file"),
        (["--external", str(path("linear.pte"))], "the data would replace FILE"),
        (["--external", "-"], "not written to a pipe"),
        (["--internal", "nowhere.ptd"], "nowhere.ptd: No such file"),
        (["--replace", f"forward.0={path('data.ptd')}"], "has 12 bytes"),
    ],
)
def test_errors_write_nothing(args, message, tmp_path):
    target = tmp_path / "model.pte"
    target.write_bytes(b"old")
    assert message in error("edit", path("linear.pte"), "-o", target, *args)["message"]
    assert list(tmp_path.iterdir()) == [target]
    assert target.read_bytes() == b"old"


def test_arrays_that_cannot_be_read(tmp_path):
    array = tmp_path / "a.npy"
    array.write_bytes(b"\x93NUMPY" + WEIGHT)
    args = ("-o", tmp_path / "x.pte", "--replace", f"forward.0={array}")
    assert "a.npy" in error("edit", path("linear.pte"), *args)["message"]


def test_two_files_at_one_place(tmp_path):
    target = tmp_path / "model"
    found = error("edit", path("linear.pte"), "-o", target, "--external", target)
    assert "two files" in found["message"]


def test_data_of_another_program_is_told(tmp_path):
    data, target = tmp_path / "data.ptd", tmp_path / "x.pte"
    run("edit", path("linear.pte"), "-o", tmp_path / "small.pte", "--external", data)
    found = error("edit", path("add.pte"), "-o", target, "--internal", data)
    assert "data.ptd' has nothing that the program takes" in found["message"]
    assert not target.exists()


def test_a_pipe_is_no_file_to_write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("edit", "report", "decompile"):
        found = error(name, SEQUENTIAL, "-o", "-")
        assert "not written to a pipe" in found["message"]
    assert list(tmp_path.iterdir()) == []
    run("edit", path("linear.pte"), "-o", "./-")
    assert [found.name for found in tmp_path.iterdir()] == ["-"]


def test_other_archives_are_told(tmp_path):
    found = error("edit", SEQUENTIAL, "-o", tmp_path / "x.pte")
    assert found["message"] == "this is a TorchScript archive, not a file of ExecuTorch"
    assert "'tsarchive convert'" in found["hint"]


def test_a_call_without_edits_is_told_what_to_give():
    found = error("edit", SEQUENTIAL)
    assert "Missing option '-o'" in found["message"]
    assert "and the edits, such as -o small.pte --strip all" in found["message"]


def test_nothing_heavy_is_imported(tmp_path):
    args = (path("linear.pte"), "-o", "a.pte", "--external", "a.ptd", "--strip", "all")
    done = process("-c", HEAVY, "edit", *args, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stderr.splitlines()[-1]) == []


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    target = tmp_path / "model.pte"
    shutil.copy(path("linear.pte"), target)

    def fails(*_args):
        raise OSError(28, "No space left on device", str(target))

    monkeypatch.setattr(Draft, "_write", fails)
    found = error("edit", target, "-o", target, "--strip", "all")
    assert "No space left" in found["message"]
    assert target.read_bytes() == FILES["linear.pte"]()
