"""``tsarchive audit``: text, JSON, SARIF and exit codes."""

from __future__ import annotations

import json
import os

import pytest

from tests.support.archives import ARCHIVES
from tests.support.auditing import archive_with
from tests.support.command_line import document, error, run

WRITER = archive_with(
    "class Net(Module):\n"
    "  __parameters__ = []\n"
    "  def forward(self: __torch__.Net, x: Tensor) -> Tensor:\n"
    '    torch.save(x, "out.pt")\n'
    "    print(x)\n"
    "    return torch.relu(x)\n"
)
HARMLESS = str(ARCHIVES / "buffers.pt")
HOSTILE = b"cos\nsystem\n(S'true\x1b[31m'\ntR."


@pytest.fixture
def writer(tmp_path):
    path = tmp_path / "writer.pt"
    path.write_bytes(WRITER)
    return path


def test_verdict_first_then_abilities_by_moment_then_findings(writer):
    result = run("audit", writer)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0].startswith(f"{writer}: 1 error: ")
    assert "when a method is called: __torch__.Net.forward" in lines
    assert "  files: aten::save code/__torch__.py:4 with 'out.pt'" in lines
    assert "  output: prim::Print code/__torch__.py:5" in lines
    assert "  compute: 1 operator" in lines
    assert lines[-2].startswith("error: code/__torch__.py, line 4: ")
    assert lines[-1].startswith("info: code/__torch__.py, line 5: ")


def test_a_file_that_only_computes_is_fine():
    result = run("audit", HARMLESS)
    assert result.exit_code == 0
    assert "beyond computing" in result.stdout.splitlines()[0]


def test_json_holds_the_whole_report(writer):
    found = document("audit", writer, code=1)
    assert (found["ok"], found["kind"]) == (False, "torchscript")
    save = next(use for use in found["operators"] if use["operator"] == "aten::save")
    assert (save["risk"], save["when"], save["count"]) == ("files", ["call"], 1)
    assert save["places"] == [
        {
            "record": "code/__torch__.py", "line": 4, "function": "__torch__.Net.forward",
            "when": ["call"], "files": ["out.pt"],
        }
    ]  # fmt: skip
    assert {finding["rule"] for finding in found["findings"]} == {
        "operator-files", "operator-output",
    }  # fmt: skip
    assert found["entry_points"] == [{"when": "call", "function": "__torch__.Net.forward"}]
    assert found["groups"]["code"]["records"] == 1
    assert {name["name"] for name in found["pickled_names"]} == {"__torch__.Net"}


def sarif(path, code) -> dict:
    result = run("audit", path, "--sarif")
    assert result.exit_code == code
    return json.loads(result.stdout)


def check_sarif(found: dict) -> None:
    """The structure that version 2.1.0 of the standard asks for."""
    assert found["version"] == "2.1.0"
    assert found["$schema"].endswith("sarif-schema-2.1.0.json")
    (run_,) = found["runs"]
    driver = run_["tool"]["driver"]
    assert driver["name"] == "tsarchive"
    rules = [rule["id"] for rule in driver["rules"]]
    assert len(set(rules)) == len(rules)
    assert all(rule["shortDescription"]["text"] for rule in driver["rules"])
    for result in run_["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in {"note", "warning", "error"}
        assert result["message"]["text"]
        (location,) = result["locations"]
        region = location["physicalLocation"].get("region", {"startLine": 1})
        assert region.get("startLine", 1) >= 1
        assert region.get("byteOffset", 0) >= 0


def test_sarif_names_file_record_and_line(writer):
    found = sarif(writer, 1)
    check_sarif(found)
    first = found["runs"][0]["results"][0]
    assert (first["ruleId"], first["level"]) == ("operator-files", "error")
    (location,) = first["locations"]
    assert location["physicalLocation"] == {
        "artifactLocation": {"uri": str(writer)}, "region": {"startLine": 4},
    }  # fmt: skip
    assert location["logicalLocations"] == [
        {"fullyQualifiedName": "code/__torch__.py", "kind": "resource"}
    ]


def test_sarif_of_a_pickle_names_the_offset(tmp_path):
    path = tmp_path / "a b.pkl"
    path.write_bytes(HOSTILE)
    found = sarif(path, 1)
    check_sarif(found)
    (result,) = found["runs"][0]["results"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"].endswith("/a%20b.pkl")
    assert place["region"]["byteOffset"] == HOSTILE.index(b"R.")


def test_sarif_without_findings_is_whole():
    found = sarif(HARMLESS, 0)
    check_sarif(found)
    assert found["runs"][0]["results"] == []


def test_terminal_escapes_of_a_file_are_not_passed_on(tmp_path):
    path = tmp_path / "model.pt"
    code = WRITER.replace(b"out.pt", b"\\033[1")
    path.write_bytes(code)
    assert "\x1b" not in run("audit", path).stdout


def test_a_missing_file_and_two_forms_at_once_are_unusable(tmp_path):
    error("audit", tmp_path / "missing.pt")
    assert run("audit", HARMLESS, "--json", "--sarif").exit_code == 2


def test_the_command_stands_between_verify_and_jitter():
    lines = run("--help").stdout.splitlines()
    listed = [line.split()[0] for line in lines if line.strip()]
    assert listed.index("verify") + 1 == listed.index("audit") < listed.index("jitter")


def test_what_a_file_says_is_escaped_in_every_line(tmp_path):
    path = tmp_path / "terminal.pkl"
    path.write_bytes(b"\x80\x02cevil\x1b[31m\nname\n.")
    result = run("audit", path)
    assert "\x1b" not in result.stdout
    assert "\\x1b[31m" in result.stdout.splitlines()[0]


def test_a_file_name_that_is_no_text_has_a_place_in_sarif(tmp_path):
    path = tmp_path / os.fsdecode(b"\xff.pt")
    path.write_bytes(b"cos\nsystem\n.")
    found = json.loads(run("audit", "--sarif", path).stdout)
    location = found["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    assert location["artifactLocation"]["uri"].endswith("/%FF.pt")
