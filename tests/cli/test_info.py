"""``tsarchive info``."""

from __future__ import annotations

import zipfile
from types import SimpleNamespace

import pytest
import torch

from tests.support.archives import ARCHIVES, FIXTURES
from tests.support.command_line import SEQUENTIAL, document, error, run, write_archive
from tests.support.processes import torch_process
from tests.support.registry_calls import archive_of
from tsarchive.formats.records import GROUPS, Reader
from tsarchive.formats.registry import zip_format
from tsarchive.operators.registry import operator_names
from tsarchive.operators.removed import is_removed, removed

PACKED = FIXTURES / "old" / "1.13.1" / "phone_lite.ptl"
KEYS = {
    "file", "nbytes", "kind", "format_version", "root", "byte_order", "serialization_id",
    "compression", "groups", "program", "exported", "executorch", "tensors", "written_by",
    "extra_files",
}  # fmt: skip
PROGRAM_KEYS = {
    "main_class", "has_traced_inputs", "modules", "classes", "methods", "functions",
    "signatures", "native_classes", "operators", "needs", "removed",
}  # fmt: skip
TENSOR_KEYS = {
    "count", "elements", "storages", "nbytes", "parameters", "parameter_elements", "dtypes",
    "devices",
}  # fmt: skip


def test_every_fact_of_a_small_archive():
    facts = document("info", SEQUENTIAL)
    assert facts.keys() == KEYS
    assert facts["program"].keys() == PROGRAM_KEYS
    assert facts["tensors"].keys() == TENSOR_KEYS
    assert (facts["kind"], facts["root"], facts["byte_order"]) == (
        "torchscript", "sequential", "little"
    )  # fmt: skip
    program, tensors = facts["program"], facts["tensors"]
    assert program["main_class"] == "__torch__.fixtures.modules.containers.InSequence"
    assert (program["modules"], program["classes"]) == (5, 5)
    assert program["operators"]["aten::linear"] == 2
    assert program["native_classes"] == []
    assert program["signatures"] == ["forward(x: Tensor) -> Tensor"]
    assert program["needs"] == {}
    assert program["has_traced_inputs"] is False
    assert (tensors["count"], tensors["parameters"], tensors["nbytes"]) == (4, 4, 104)
    assert tensors["parameter_elements"] == 26
    assert (tensors["dtypes"], tensors["devices"]) == ({"float32": 4}, {"cpu": 4})


@pytest.mark.parametrize("name", ["sequential", "trace_convolution", "quantized_static_linear"])
def test_sums_agree_with_zipfile(name):
    path = ARCHIVES / f"{name}.pt"
    facts = document("info", path)
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
    groups = facts["groups"].values()
    assert facts["nbytes"] == path.stat().st_size
    assert sum(group["records"] for group in groups) == len(members)
    assert sum(group["nbytes"] for group in groups) == sum(m.file_size for m in members)
    assert sum(group["stored_nbytes"] for group in groups) == sum(m.compress_size for m in members)
    assert sum(facts["compression"].values()) == len(members)


@pytest.mark.parametrize("name", ["sequential", "shared_child", "two_types_of_one_class"])
def test_figures_agree_with_torch(name):
    path = ARCHIVES / f"{name}.pt"
    module = torch.jit.load(str(path))
    facts = document("info", path)
    assert facts["program"]["modules"] == len(list(module.modules()))
    names = dict(module.named_parameters(remove_duplicate=False))
    assert facts["tensors"]["parameters"] == len(names)
    assert facts["tensors"]["parameter_elements"] == sum(p.numel() for p in names.values())


def test_a_traced_archive_says_so():
    assert document("info", ARCHIVES / "trace_convolution.pt")["program"]["has_traced_inputs"]
    assert "traced" in run("info", ARCHIVES / "trace_convolution.pt").stdout


def test_torchbind_classes_are_named():
    facts = document("info", ARCHIVES / "quantized_static_linear.pt")
    assert facts["program"]["native_classes"] == ["quantized.LinearPackedParamsBase"]


def test_a_file_that_is_no_torchscript(tmp_path):
    path = tmp_path / "weights.pt"
    torch.save({"weight": torch.ones(2)}, path)
    facts = document("info", path)
    assert (facts["kind"], facts["program"], facts["tensors"]) == ("torch.save", None, None)
    assert "torch.save" in run("info", path).stdout


def test_an_archive_without_version(tmp_path):
    path = write_archive(tmp_path / "a.zip", {"notes.txt": b"hello"})
    facts = document("info", path)
    assert (facts["kind"], facts["format_version"]) == ("zip", None)


def test_text_holds_the_same_figures():
    shown = run("info", SEQUENTIAL).stdout
    for text in (
        "sequential.pt", "5 modules of 5 classes", "26 elements", "aten::linear 2",
        "nothing beyond torch", "forward(x: Tensor) -> Tensor",
    ):  # fmt: skip
        assert text in shown


@pytest.mark.parametrize("command", [["info"], ["tree"], ["tensors"], ["code", "--list"]])
def test_lines_in_a_pipe_are_not_padded(command):
    lines = run(*command, SEQUENTIAL).stdout.split("\n")
    assert len(lines) > 3
    assert [line for line in lines if line.endswith(" ")] == []


# What a file needs

LIBRARY = """
import torch
library = torch.library.Library("{space}", "DEF")
library.define("twice(Tensor x) -> Tensor")
library.impl("twice", lambda x: x * 2, "CompositeImplicitAutograd")
"""
MODULE = """
import torch, {space}
class Net(torch.nn.Module):
    def forward(self, x):
        return torch.ops.{space}.twice(x)
torch.jit.save(torch.jit.script(Net()), "net.pt")
"""


@pytest.fixture(scope="module")
def needy(tmp_path_factory):
    """A folder with a library and an archive that needs it; this process knows neither."""
    folder = tmp_path_factory.mktemp("needy")
    (folder / "doubling.py").write_text(LIBRARY.format(space="doubling"))
    (folder / "make.py").write_text(MODULE.format(space="doubling"))
    made = torch_process("-W", "ignore", "make.py", cwd=folder)
    assert made.returncode == 0, made.stderr
    return folder


def test_what_a_file_needs_is_told_without_torch(needy):
    needs = document("info", needy / "net.pt")["program"]["needs"]
    assert list(needs) == ["doubling::twice"]
    assert "give --import with its name" in needs["doubling::twice"]
    shown = run("info", needy / "net.pt").stdout
    assert "doubling::twice" in shown
    assert needs["doubling::twice"] in shown


def test_what_this_process_lacks_is_a_finding(needy):
    found = document("info", needy / "net.pt", "--check", code=1)
    assert found["missing"]["operators"] == ["doubling::twice"]
    assert found["missing"]["classes"] == []
    assert found["missing"]["hints"] == found["program"]["needs"]
    assert run("info", needy / "net.pt", "--check").exit_code == 1
    assert document("info", SEQUENTIAL, "--check")["missing"] == {
        "operators": [], "classes": [], "hints": {}
    }  # fmt: skip


@pytest.mark.long("test_what_this_process_lacks_is_a_finding")
@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["info", "net.pt", "--check"], 1),
        (["run", "net.pt", "--random", "2x3"], 2),
        # It says that the code cannot be compared, which is no jitter.
        (["jitter", "net.pt"], 0),
        (["demo", "net.pt", "--random", "2x3"], 2),
    ],
    ids=["info", "run", "jitter", "demo"],
)
def test_a_library_is_imported_first(needy, command, code):
    env = {"PYTHONPATH": str(needy)}
    without = torch_process("-m", "tsarchive", *command, cwd=needy, env=env)
    assert without.returncode == code
    assert "operator doubling::twice" in without.stdout + without.stderr or "missing" in (
        without.stdout
    )
    allowed = ("--allow", "doubling::twice") if command[0] == "run" else ()
    named = ("--import", "doubling", *allowed)
    done = torch_process("-m", "tsarchive", *command, *named, cwd=needy, env=env)
    assert done.returncode == 0, done.stderr
    assert "operator doubling::twice" not in done.stdout + done.stderr


def test_the_operator_that_is_missing_is_told_with_both_options(needy):
    found = error("run", needy / "net.pt", "--random", "2x3")
    assert found["operator"] == "doubling::twice"
    assert "--import" in found["hint"]
    assert '--allow "doubling::*"' in found["hint"]
    allowed = error("run", needy / "net.pt", "--random", "2x3", "--allow", "doubling::twice")
    assert "--import" in allowed["hint"]
    assert "--allow" not in allowed["hint"]


def test_a_package_names_the_library_that_it_needs(needy, tmp_path):
    shown = run("decompile", needy / "net.pt", "-o", tmp_path / "package").stdout
    begins = "The package needs a library before it is called: doubling::twice comes with a library"
    assert begins in " ".join(shown.split())


@pytest.mark.long("test_what_this_process_lacks_is_a_finding")
def test_fresh_processes_import_the_library(needy):
    env = {"PYTHONPATH": str(needy)}
    command = ("-m", "tsarchive", "jitter", "--canonical", "net.pt")
    without = torch_process(*command, cwd=needy, env=env)
    assert without.returncode == 2
    assert "Traceback" not in without.stderr
    done = torch_process(*command, "--import", "doubling", cwd=needy, env=env)
    assert done.returncode == 0, done.stderr
    assert "the same bytes in fresh processes" in done.stdout


@pytest.mark.parametrize("command", ["info", "run", "jitter", "demo"])
def test_a_library_that_cannot_be_imported(command):
    found = error(command, SEQUENTIAL, "--import", "no_such_module")
    assert "ModuleNotFoundError: No module named 'no_such_module'" in found["message"]


def test_a_shared_library_that_is_not_there(tmp_path):
    found = error("info", SEQUENTIAL, "--import", tmp_path / "lib.so")
    assert "OSError" in found["message"]


def test_a_file_that_is_no_torchscript_needs_nothing_that_is_known(tmp_path):
    path = write_archive(tmp_path / "a.zip", {"notes.txt": b"hello"})
    assert error("info", path, "--check")["type"] == "MissingRecordError"


TORCHSCRIPT = ("data.pkl", "constants.pkl")
FLAT = ("serialized_exported_program.json",)
WHOLE = ("archive_format", "models/model.json", "data/weights/model.pt")
RAW = ("archive_format", "models/model.json")


@pytest.mark.parametrize(
    ("name", "group", "others"),
    [
        ("extra/data.pkl", "extra", TORCHSCRIPT),
        ("data/0", "tensors", TORCHSCRIPT),
        ("data.pkl", "objects", TORCHSCRIPT),
        ("code/__torch__/a.py", "code", TORCHSCRIPT),
        ("code/__torch__/a.py.debug_pkl", "debug", TORCHSCRIPT),
        ("constants/3", "tensors", TORCHSCRIPT),
        ("constants/3.storage", "tensors", TORCHSCRIPT),
        ("constants.pkl", "objects", TORCHSCRIPT),
        ("version", "other", TORCHSCRIPT),
        (".data/serialization_id", "other", TORCHSCRIPT),
        ("traced_inputs.pkl", "inputs", TORCHSCRIPT),
        ("traced_inputs/0", "inputs", TORCHSCRIPT),
        ("models/model.json", "code", RAW),
        ("serialized_exported_program.json", "code", FLAT),
        ("data/weights/weight_12", "tensors", RAW),
        ("data/weights/model.pt", "tensors", WHOLE),
        ("data/constants/tensor_0", "tensors", RAW),
        ("data/constants/custom_obj_0", "objects", RAW),
        ("data/weights/model_weights_config.json", "objects", RAW),
        ("serialized_state_dict.pt", "tensors", FLAT),
        ("data/sample_inputs/model.pt", "inputs", RAW),
        ("serialized_example_inputs.pt", "inputs", FLAT),
        ("data/aotinductor/model/a.so", "machine code", RAW),
        ("extra_files/a.txt", "extra", FLAT),
        ("archive_format", "other", RAW),
    ],
)
def test_groups_of_records(name, group, others):
    """Of a record in an archive of the format that these other records tell."""
    records = {one: None for one in (name, *others)}
    found = zip_format(records).table(SimpleNamespace(records=records)).row(name)
    assert found.role.described == group
    assert found.reader is not Reader.FOREIGN
    assert group in GROUPS


def written(tmp_path, calls: str):
    """An archive whose code has these statements."""
    code = f"""class M(Module):
  __parameters__ = []
  __buffers__ = []
  def forward(self: __torch__.M, x: Tensor) -> Tensor:
{calls}    return x
"""
    path = tmp_path / "model.pt"
    path.write_bytes(archive_of(code))
    return path


@pytest.mark.parametrize(
    ("call", "advice"),
    [
        ("torch.symeig(x, False, True)", {"aten::symeig": "tsarchive convert old.pt new.pt"}),
        ("torch.gesv(x, x)", {"aten::gesv": "they run here"}),
        ("torch.align_as(x, x)", {"aten::align_as": "what calls them is refused here"}),
        ("ops.mine.twice(x)", {}),
        ("torch.linalg_solve(x, x)", {}),
    ],
)
def test_operators_that_torch_removed(tmp_path, call, advice):
    path = written(tmp_path, f"    _0 = {call}\n")
    found = document("info", path)["program"]["removed"]
    assert found.keys() == advice.keys()
    assert all(words in found[name] for name, words in advice.items())
    shown = run("info", path).stdout
    assert all(text in shown for text in (*found, *found.values()))
    assert ("torch has no more" in shown) == bool(advice)


def test_many_operators_that_torch_removed_are_counted(tmp_path):
    gone = (name for name in operator_names() if name.startswith("aten::") and is_removed(name))
    names = [n for n in gone if any(overload.upgrader for overload in removed(n))][:14]
    path = written(tmp_path, "".join(f"    _0 = torch.{n[6:]}(x)\n" for n in names))
    assert list(document("info", path)["program"]["removed"]) == sorted(names)
    lines = run("info", path).stdout.splitlines()
    place = next(place for place, line in enumerate(lines) if line.startswith("removed"))
    assert lines[place].endswith("and 2 more")
    assert lines[place + 1].strip().startswith("14 that torch has no more: they run here")


def test_packed_layers_and_bytecode_are_named():
    facts = document("info", PACKED)
    assert "xnnpack.LinearOpContext" in facts["program"]["removed"]
    assert "prepacked::linear_clamp_run" in facts["program"]["removed"]
    assert facts["groups"]["bytecode"]["records"] == 1
    lines = run("info", PACKED).stdout.splitlines()
    (row,) = (line for line in lines if line.startswith("bytecode"))
    assert row.split()[:2] == ["bytecode", "1"]


def test_extra_files_are_named(tmp_path):
    source = tmp_path / "net.pt"
    module = torch.jit.script(torch.nn.Linear(1, 1))
    torch.jit.save(module, source, _extra_files={"meta.json": "{}", "notes.txt": ""})
    assert document("info", source)["extra_files"] == {"meta.json": 2, "notes.txt": 0}
    shown = run("info", source).stdout
    assert "meta.json: 2 bytes" in shown
    assert "notes.txt: 0 bytes" in shown
