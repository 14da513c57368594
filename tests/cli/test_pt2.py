"""``tsarchive info``, ``tree``, ``code`` and ``tensors`` on PT2 archives."""

from __future__ import annotations

import io
import json

import pytest
import torch

import tsarchive
from tests.support.command_line import SEQUENTIAL, document, error, process, run
from tests.support.pt2_archives import NAMES, changed, corpus_files, fixture, records_in, write

MODEL = "models/model.json"
COMMANDS = (["info"], ["tree"], ["tree", "--signatures"], ["code"], ["code", "--list"], ["tensors"])
SIGNATURE = "forward(x: float32[s77, 4]) -> float32[s77, 3]"


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", NAMES)
def test_every_command_on_every_fixture(name, command):
    result = run(*command, fixture(name))
    assert result.exit_code == 0
    assert result.stdout.strip()
    assert document(*command, fixture(name))["file"] == str(fixture(name))


@pytest.mark.long("test_every_command_on_every_fixture")
def test_every_command_on_every_file_of_the_corpus(corpus):
    """Those without a program end in a message, the same in every command but info."""
    for path in corpus_files():
        with tsarchive.open(path) as archive:
            models = archive.exported.models
        for command in COMMANDS:
            assert run(*command, path).exit_code == (0 if models or command == ["info"] else 2)


# info


def test_facts_of_a_small_archive():
    facts = document("info", fixture("linear"))
    assert (facts["kind"], facts["format_version"], facts["program"]) == ("pt2", 0, None)
    exported = facts["exported"]
    assert (exported["layout"], exported["compiled"], exported["extra"]) == ("raw", [], {})
    (model,) = exported["models"]
    assert model == {
        "name": "model",
        "main_class": "fixtures.pt2_modules.cases.Linear",
        "schema_version": "8.20",
        "torch_version": "2.13.0+cpu",
        "opset": {"aten": 10},
        "verifiers": ["TRAINING"],
        "signature": SIGNATURE,
        "modules": 2,
        "nodes": 2,
        "graphs": 1,
        "operators": {"aten::linear": 1, "aten::relu": 1},
        "needs": {},
        "parameters": 2,
        "buffers": 0,
        "constants": 0,
        "ranges": {"s77": "2 to 64"},
        "guards": [],
        "objects": [],
        "sample_inputs": "(float32[4, 4])",
        "sample_inputs_problem": None,
    }
    assert facts["tensors"] == {
        "count": 2,
        "elements": 15,
        "storages": 2,
        "nbytes": 60,
        "parameters": 2,
        "parameter_elements": 15,
        "dtypes": {"float32": 2},
        "devices": {"cpu": 2},
    }


def test_nodes_of_graphs_inside_count():
    (model,) = document("info", fixture("control_flow"))["exported"]["models"]
    assert (model["graphs"], model["nodes"]) == (5, 9)
    assert model["operators"]["higher_order::cond"] == 1


def test_shared_storages_count_once():
    facts = document("info", fixture("shared"))["tensors"]
    assert (facts["count"], facts["nbytes"]) == (6, 96 + 24 + 48)
    assert document("info", fixture("shared-2.8"))["tensors"] == facts


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("linear", ["torch 2.13.0+cpu, schema 8.20, opset aten 10, TRAINING", SIGNATURE,
                    "ranges            s77: 2 to 64", "2 nodes in 1 graph, 2 modules",
                    "sample inputs     (float32[4, 4])", "aten::linear 1, aten::relu 1"]),
        ("linear-2.4", ["schema 5.3", "as torch 2.3 to 2.7 wrote it", "notes.txt (5 bytes)"]),
        ("linear-2.8", ["schema 8.8", "as torch 2.8 wrote it", "notes.txt (5 bytes)"]),
        ("two_models", ["first, of class", "second, of class", "operators of first"]),
        ("extra_files", ["notes.txt (5 bytes), folder/settings.json (8 bytes)"]),
        ("nested", ["not described: an object whose class is given arguments"]),
    ],
)  # fmt: skip
def test_text_of_info(name, texts):
    shown = run("info", fixture(name)).stdout
    assert [text for text in texts if text not in shown] == []


MACHINE_CODE = {
    "data/aotinductor/model/abc.wrapper.so": bytes(2048),
    "data/aotinductor/model/abc.wrapper_metadata.json": b'{"AOTI_DEVICE_KEY": "cpu"}',
    "data/executorch/net.pte": b"1234",
    "archive_format": b"pt2",
    "archive_version": b"0",
}


def test_machine_code_is_listed(tmp_path):
    path = write(tmp_path / "a.pt2", MACHINE_CODE)
    facts = document("info", path)
    assert facts["tensors"] is None
    (machine,) = facts["exported"]["compiled"]
    assert machine["metadata"] == {"AOTI_DEVICE_KEY": "cpu"}
    assert facts["exported"]["executorch"] == {"net.pte": 4}
    shown = run("info", path).stdout
    assert "by AOTInductor: 2 files, 2.0 KiB; it is never loaded" in shown
    assert "AOTI_DEVICE_KEY cpu" in shown
    assert "net.pte (4 bytes)" in shown


@pytest.mark.parametrize("command", ["tree", "code", "tensors"])
def test_machine_code_alone_has_nothing_to_show(tmp_path, command):
    found = error(command, write(tmp_path / "a.pt2", MACHINE_CODE))
    assert found["message"] == "the archive has no exported program"
    assert "tsarchive info" in found["hint"]


def test_objects_and_guards(tmp_path):
    def held(config) -> None:
        config["config"]["scaler"] = {
            "path_name": "custom_obj_0",
            "is_param": False,
            "use_pickle": True,
            "tensor_meta": None,
        }

    def guarded(program) -> None:
        program["guards_code"] = [f"L['x'].size()[0] != {n}" for n in range(7)]

    buffer = io.BytesIO()
    torch.save([1], buffer)
    records = records_in(fixture("linear")) | {"data/constants/custom_obj_0": buffer.getvalue()}
    path = write(tmp_path / "a.pt2", records)
    path = changed(path, "data/constants/model_constants_config.json", held, tmp_path / "b.pt2")
    path = changed(path, MODEL, guarded, tmp_path / "c.pt2")
    (model,) = document("info", path)["exported"]["models"]
    assert model["objects"] == [
        {
            "name": "scaler",
            "kind": "custom object",
            "class_name": "list",
            "record": "data/constants/custom_obj_0",
        }
    ]
    assert len(model["guards"]) == 7
    shown = run("info", path).stdout
    assert "scaler: custom object of list, in data/constants/custom_obj_0" in shown
    assert "and 2 more: --json lists them" in shown


def test_needs_are_named_with_what_to_do(tmp_path):
    def needing(program) -> None:
        node = program["graph_module"]["graph"]["nodes"][0]
        node["target"] = "torch.ops.torchvision.nms.default"

    path = changed(fixture("linear"), MODEL, needing, tmp_path / "a.pt2")
    (model,) = document("info", path)["exported"]["models"]
    assert list(model["needs"]) == ["torchvision::nms"]
    assert "torchvision::nms" in run("info", path).stdout
    document("info", fixture("linear"), "--check")


# tree, code, tensors


def test_tree_has_the_signature_of_each_model():
    assert document("tree", fixture("linear"), "--signatures")["root"]["methods"] == [SIGNATURE]
    root = document("tree", fixture("two_models"), "--signatures")["root"]
    assert [child["methods"] for child in root["children"]] == [
        [SIGNATURE],
        ["forward(index: int64[2]) -> float32[2, 6]"],
    ]
    assert root["total_parameters"] == 15 + 54
    lines = run("tree", fixture("two_models")).stdout.splitlines()
    assert lines[0].startswith("(root)  69 parameters")
    assert lines[1].startswith("├── first  fixtures.pt2_modules.cases.Linear")


def test_code_is_the_listing_byte_for_byte():
    with tsarchive.open(fixture("linear")) as archive:
        assert run("code", fixture("linear")).stdout == archive.code["models/model.py"]


def test_parts_of_a_listing_by_name():
    listed = document("code", fixture("two_models"), "--list")["code"]
    assert [row["name"] for row in listed if row["kind"] == "class"] == [
        "models.first.Linear",
        "models.second.Shared",
    ]
    shown = run("code", fixture("two_models"), "Shared.forward").stdout
    assert shown.startswith("  def forward(self, index: int64[2])")
    assert "no 'Net'" in error("code", fixture("linear"), "Net")["message"]


def test_lines_of_source_on_request():
    shown = run("code", fixture("linear"), "--sources").stdout
    assert "return torch.relu(self.layer(x))" in shown
    assert "return torch.relu" not in run("code", fixture("linear")).stdout
    assert error("code", SEQUENTIAL, "--sources")["type"] == "UnsupportedError"


def test_one_of_several_models():
    path = fixture("two_models")
    names = [row["name"] for row in document("tensors", path)["tensors"]]
    assert {name.partition(".")[0] for name in names} == {"first", "second"}
    rows = document("tensors", path, "--model", "first")["tensors"]
    assert [row["name"] for row in rows] == ["layer.weight", "layer.bias"]
    assert document("tree", path, "--model", "second")["root"]["class"].endswith("Shared")
    assert run("code", path, "--model", "first").stdout.count("class ") == 1
    for command in ("tree", "code", "tensors"):
        assert error(command, path, "--model", "third")["hint"] == "It has: first, second"
        assert error(command, SEQUENTIAL, "--model", "x")["type"] == "UnsupportedError"


def test_roles_and_records_of_tensors():
    rows = {row["name"]: row for row in document("tensors", fixture("mutating"))["tensors"]}
    assert {name: row["role"] for name, row in rows.items()} == {
        "count": "buffer", "factor": "attribute", "scratch": "buffer"
    }  # fmt: skip
    assert rows["factor"]["record"] == "data/constants/tensor_0"
    rows = document("tensors", fixture("linear-2.8"))["tensors"]
    assert rows[0]["record"] == "data/weights/model.pt/data/0"


@pytest.mark.parametrize("command", COMMANDS)
def test_what_the_file_says_does_not_reach_the_terminal(tmp_path, command):
    def evil(program) -> None:
        program["torch_version"] = "2\x1b[2J"
        text = json.dumps(program["graph_module"]).replace("layer", "la\\u001byer")
        program["graph_module"] = json.loads(text)

    path = changed(fixture("linear"), MODEL, evil, tmp_path / "a.pt2")
    assert "\x1b" not in run(*command, path).output


def test_torch_is_not_imported(tmp_path):
    lines = "\n".join(
        [
            "import sys",
            "from click.testing import CliRunner",
            "from tsarchive.cli import main",
            *(f"print(CliRunner().invoke(main, {[*command, str(fixture('two_models'))]}).exit_code)"
              for command in COMMANDS),
            "assert 'torch' not in sys.modules",
        ]
    )  # fmt: skip
    result = process("-c", lines, cwd=tmp_path)
    assert (result.returncode, result.stdout.split()) == (0, ["0"] * len(COMMANDS)), result.stderr


# run


@pytest.mark.parametrize(("name", "shape"), [("linear", "3x4"), ("linear-2.4", "3x4")])
def test_programs_run(name, shape):
    found = document("run", fixture(name), "--random", shape)
    assert found["output"]["shape"] == [3, 3]


def test_one_of_several_models_runs():
    args = ["run", fixture("two_models"), "--random", "3x4"]
    assert document(*args, "--model", "first")["output"]["shape"] == [3, 3]
    assert "2 models" in error(*args)["message"]
    assert "'third'" in error(*args, "--model", "third")["message"]


def test_arguments_that_a_program_refuses():
    assert "must be 4, but is 5" in error("run", fixture("linear"), "--random", "3x5")["message"]
    assert "no method 'encode'" in run("run", fixture("linear"), "--method", "encode").stderr


def test_every_program_of_the_corpus_runs_or_says_why(corpus):
    """No argument is one that few of them take: the message is about arguments, or the file."""
    for path in corpus_files():
        result = run("run", path)
        assert result.exit_code in (0, 2)
        assert "has no TorchScript classes" not in result.stderr
