"""Looking into archives of before torch 1.3: versions, code, tensors and modules, without torch."""

from __future__ import annotations

import csv
import json

import pytest

import tsarchive
from tests.support.archives import CORPUS
from tests.support.command_line import process, run
from tests.support.legacy_archives import FIXTURES, archive, fixture, model_of, program
from tsarchive.container import Container
from tsarchive.formats.registry import zip_format

CORPUS_FILES = []
if CORPUS.is_dir():
    with (CORPUS / "INDEX.tsv").open(newline="") as index:
        CORPUS_FILES = [
            CORPUS / row[0]
            for row in csv.reader(index, delimiter="\t")
            if len(row) > 5 and row[5] == "torchscript-legacy-json"
        ]
# Written between two releases without its tensors: the code reads what is not there.
WITHOUT_TENSORS = "zhiics-pytorch__foo_4da3731.pt"
VERBS = ("info", "tree", "code", "tensors")

_PROBE = """
import sys
import tsarchive
archive = tsarchive.open(sys.argv[1])
archive.tree(), dict(archive.tensors), dict(archive.code), archive.format_version
print("torch" in sys.modules)
"""


def named(paths):
    return pytest.mark.parametrize("path", paths, ids=lambda path: path.stem)


@named(FIXTURES)
def test_fixtures_open(path):
    with tsarchive.open(path) as opened:
        model = json.loads(opened.read("model.json"))
        assert opened.kind == "torchscript-legacy"
        assert str(opened.format_version) == model["protoVersion"]
        assert {name for name in opened.records if name.endswith(".py")} == set(opened.code)
        assert len(opened.tree().children) == len(model["mainModule"].get("submodules", ()))
        for info in opened.tensors.values():
            assert opened.records[info.storage].size >= info.nbytes
        assert {info.storage for info in opened.tensors.values()} <= set(opened.records)


def test_torch_is_not_imported(tmp_path):
    done = process("-c", _PROBE, fixture("recursive-1.2.0"), cwd=tmp_path)
    assert done.stdout.strip() == "False", done.stderr


@named([fixture("recursive-1.2.0"), fixture("lists-1.2.0"), fixture("views-1.0.1")])
@pytest.mark.parametrize("verb", VERBS)
def test_commands(verb, path):
    shown = run(verb, path)
    assert shown.exit_code == 0, shown.output
    assert shown.stdout
    document = run(verb, path, "--json")
    assert document.exit_code == 0, document.output
    assert json.loads(document.stdout)


def test_tensors():
    with tsarchive.open(fixture("views-1.1.0")) as opened:
        found = {
            name: (info.dtype, info.shape, info.strides, info.storage, info.nbytes)
            for name, info in opened.tensors.items()
        }
        roles = {name: (i.is_parameter, i.is_buffer) for name, i in opened.tensors.items()}
    assert found == {
        "crossed": ("float32", (3, 2), (1, 3), found["tail"][3], 24),
        "tail": ("float32", (2, 3), (3, 1), found["tail"][3], 24),
        "single": ("float32", (), (), found["single"][3], 4),
        "empty": ("float32", (0, 3), (3, 1), found["empty"][3], 0),
    }
    assert roles == {
        "crossed": (True, False), "tail": (True, False),
        "single": (False, True), "empty": (False, True),
    }  # fmt: skip


def test_tensors_inside_containers_and_states():
    with tsarchive.open(fixture("lists-1.2.0")) as opened:
        assert {"tensors.0", "tensors.1"} <= set(opened.tensors)
    with tsarchive.open(fixture("stateful-1.2.0")) as opened:
        assert set(opened.tensors) == {"scale", "part.__getstate__.0"}
    with tsarchive.open(fixture("quantized-1.2.0")) as opened:
        assert opened.tensors["weight"].dtype == "quint8"


def test_tree():
    with tsarchive.open(fixture("nested-1.2.0")) as opened:
        root = opened.tree()
    assert root.qualified_class == "__torch__.nested_1_2_0"
    assert [(child.name, child.qualified_class) for child in root.children] == [
        ("first", "__torch__.nested_1_2_0.first"), ("second", "__torch__.nested_1_2_0.second")
    ]  # fmt: skip
    assert (root.methods, root.nbytes, root.children[0].parameters) == (("forward",), 4, 9)


def test_names_of_classes_differ_and_are_identifiers():
    inner = [{"name": name} for name in ("a.b", "a b", "0", "_0", "", "é")]
    main_module = model_of()["mainModule"] | {"submodules": inner}
    with tsarchive.open(archive(model_of(mainModule=main_module))) as opened:
        names = [child.qualified_class for child in opened.tree().children]
    assert names == [
        "__torch__.m.a_b", "__torch__.m.___torch_mangle_0.a_b", "__torch__.m._0",
        "__torch__.m.___torch_mangle_0._0", "__torch__.m._", "__torch__.m.___torch_mangle_0._",
    ]  # fmt: skip


def test_names_of_classes_differ_from_those_of_libraries():
    model = model_of(tensors=[])
    model["mainModule"] = {"name": "lib", "submodules": [{"name": "Pair"}]}
    library = "class Pair:\n  def get(self) -> int:\n    return 1\n"
    with tsarchive.open(archive(model, **{"libs/__torch__/lib.py": library})) as opened:
        assert opened.tree().children[0].qualified_class == "__torch__.lib.___torch_mangle_0.Pair"


def test_definitions_are_named(tmp_path):
    path = tmp_path / "m.pt"
    written = program("def forward(self) -> int:\n  return 1\n", "class A:\n  a : int\n")
    path.write_bytes(written.read())
    shown = json.loads(run("code", path, "--list", "--json").stdout)["code"]
    listed = {(each["kind"], each["name"]) for each in shown}
    assert {("method", "m.forward"), ("class", "__torch__.lib.A")} <= listed


def test_what_only_archives_of_today_have():
    with (
        Container.open(fixture("views-1.0.1")) as container,
        pytest.raises(tsarchive.MissingRecordError, match=r"tsarchive\.save writes it in the form"),
    ):
        raise zip_format(container.records).not_torchscript(container.records)


@named([fixture("stateful-1.2.0"), fixture("traced_shapes-1.0.1"), fixture("forked-1.1.0")])
def test_what_is_saved_of_them_has_no_jitter(path):
    report = tsarchive.check_jitter(path)
    assert report.stable
    assert not report.graph.code


@pytest.mark.skipif(not CORPUS_FILES, reason="the corpus is not beside the repository")
@named(CORPUS_FILES)
def test_corpus(path):
    with tsarchive.open(path) as opened:
        assert opened.kind == "torchscript-legacy"
        assert opened.tree().methods
        assert opened.code
        tensors = dict(opened.tensors)
    module = tsarchive.load(path)
    assert set(module.state_dict()) <= set(tensors)
    methods = module.tsarchive_class.methods.values()
    if path.name == WITHOUT_TENSORS:
        with pytest.raises(tsarchive.SourceError, match="no attribute or method 'weight'"):
            [method.graph for method in methods]
    else:
        assert all(method.graph.returns for method in methods)
