"""Commands on files of ExecuTorch."""

from __future__ import annotations

import json

from fixtures.executorch_samples import FILES
from tests.support.command_line import document, error, process, run
from tests.support.executorch_files import FIXTURES, edited

PROBE = """
import json, sys
from tsarchive.cli import main
for args in json.loads(sys.argv[1]):
    try:
        main(args)
    except SystemExit as ended:
        status = ended.code
    heavy = {"torch", "numpy", "rich", "executorch", "flatbuffers"} & set(sys.modules)
    print(json.dumps([args, status, sorted(heavy)]), file=sys.stderr)
"""


def path(name):
    return FIXTURES / name


def test_nothing_heavy_is_imported(tmp_path):
    """By a process that runs one command after the other."""
    file = str(path("linear.bpte"))
    calls = [[name, file] for name in ("info", "tree", "code", "tensors", "verify", "audit")]
    done = process("-c", PROBE, json.dumps(calls), cwd=tmp_path)
    found = [json.loads(line) for line in done.stderr.splitlines()]
    assert found == [[args, 0, []] for args in calls]


def test_info_of_a_program():
    lines = run("info", path("state.pte")).output.splitlines()
    shown = [line[12:] for line in lines]
    for text in (
        "pte, format version 0",
        "32 bytes",
        "get_size() -> int",
        "step() -> float32[3]",
        "delegate to MyBackend: 32 bytes",
        "memory plan: 16 bytes",
        "blob, again",
        "net.weight: in a data file (.ptd)",
    ):
        assert text in shown
    assert "root folder" not in "".join(lines)


def test_info_as_json():
    facts = document("info", path("state.pte"))
    program = facts["executorch"]
    assert (facts["kind"], facts["format_version"], program["header_nbytes"]) == ("pte", 0, 32)
    assert [method["name"] for method in program["methods"]] == ["get_size", "step"]
    assert program["methods"][1]["delegates"] == {"XnnpackBackend": 32, "MyBackend": 32}
    assert (program["external"], program["named_data"]) == (["net.weight"], ["blob", "again"])
    assert facts["groups"]["segments"] == {"records": 3, "nbytes": 56, "stored_nbytes": 56}
    assert facts["tensors"]["nbytes"] == 24
    assert document("info", path("add.pte"))["executorch"]["header_nbytes"] is None


def test_info_of_data_and_bundles():
    assert document("info", path("data_06.ptd"))["executorch"]["is_data_of_06"]
    assert "of ExecuTorch 0.6" in run("info", path("data_06.ptd")).output
    data = document("info", path("data.ptd"))["executorch"]
    assert (data["named_data"], data["methods"]) == (["net.weight", "tied", "opaque"], [])
    bundle = document("info", path("linear.bpte"))
    assert bundle["executorch"]["test_cases"] == {"forward": 1}
    assert bundle["groups"]["test data"]["nbytes"] == 56
    assert "forward: 1 call with expected results" in run("info", path("linear.bpte")).output


def test_info_of_other_files_has_none():
    assert document("info", FIXTURES.parent / "archives" / "sequential.pt")["executorch"] is None


def test_tree():
    lines = run("tree", path("linear.pte")).output.splitlines()
    assert lines[1].startswith("└── forward  method  15 parameters, 60 bytes")
    assert lines[2].strip() == "└── aten::addmm.out  operator  1 call"
    root = document("tree", path("linear.pte"))["root"]
    assert [child["methods"] for child in root["children"]] == [
        ["forward(float32[2, 4]) -> float32[2, 3]"]
    ]
    assert run("tree", path("linear.pte"), "--signatures").output.splitlines() == lines


def test_code():
    shown = run("code", path("linear.pte")).output
    assert "  0: aten::addmm.out(%0, %1, %2, %3, %3, %4, %4)\n" in shown
    assert run("code", path("linear.pte"), "forward").output == shown
    (found,) = document("code", path("linear.pte"))["code"]
    assert (found["kind"], found["name"], found["text"]) == ("method", "forward", shown)
    names = [row["name"] for row in document("code", path("state.pte"), "--list")["code"]]
    assert names == ["get_size", "step"]
    assert "net.py" not in run("code", path("state.pte")).output
    assert (
        "# net.py:7 in step: self.count += 1" in run("code", path("state.pte"), "--sources").output
    )


def test_code_that_is_not_there():
    assert run("code", path("state.pte"), "forward").exit_code == 2
    facts = error("code", path("data.ptd"))
    assert (facts["type"], facts["message"]) == ("UnsupportedError", "a data file has no code")


def test_tensors():
    rows = document("tensors", path("state.pte"))["tensors"]
    assert [(row["name"], row["record"], row["role"]) for row in rows] == [
        ("count", "segments/1", "buffer"),
        ("net.weight", "external:net.weight", "attribute"),
        ("step.2", "segments/0", "attribute"),
    ]
    assert "external:net.weight" in run("tensors", path("state.pte")).output


def test_verify():
    found = document("verify", path("state.pte"))
    assert (found["verdict"], found["kind"], found["code_records"]) == ("sound", "pte", 2)
    assert "checked: pte of format version 0" in run("verify", path("linear.pte")).output


def test_audit():
    found = document("audit", path("linear.pte"))
    assert (found["kind"], found["ok"]) == ("pte", True)
    assert run("audit", path("state.pte")).exit_code == 1


def test_broken_files_are_told(tmp_path):
    broken = tmp_path / "broken.pte"
    broken.write_bytes(edited(FILES["linear.pte"](), 8, b"eh01"))
    for command in ("info", "tree", "code", "tensors"):
        facts = error(command, broken)
        assert (facts["type"], facts["offset"]) == ("UnsupportedError", 8)
    assert document("verify", broken, code=1)["verdict"] == "broken"
    assert document("audit", broken, code=1)["kind"] == "ExecuTorch program"


def test_what_is_not_done_with_programs_says_what_they_are():
    found = error("decompile", path("linear.pte"), "-o", "nowhere")
    assert "it is an ExecuTorch program (.pte)" in found["message"]


def test_an_option_for_other_files():
    assert error("tree", path("linear.pte"), "--model", "m")["type"] == "UnsupportedError"
    found = error("code", path("linear.pte"), "--map-location", "cpu")
    assert found["message"].endswith("; this is a program of ExecuTorch")
    assert (found["hint"], found["record"]) == ("Leave out --map-location", None)


def test_what_only_other_archives_have_is_told_with_what_there_is(tmp_path):
    found = error("tree", path("add.pte"), "--model", "one")
    assert "no models by name" in found["message"]
    for command in (("decompile", "-o", tmp_path / "x"), ("demo", "--random", "2x2")):
        assert "'tsarchive info'" in error(command[0], path("add.pte"), *command[1:])["hint"]
