"""Opened PT2 archives: tensors, trees, needs, several models, machine code, older schemas."""

from __future__ import annotations

import io
import math
import re

import pytest
import torch

import tsarchive
from tests.support.archives import torch_pickled
from tests.support.command_line import document
from tests.support.features import stores_weights_apart
from tests.support.pt2_archives import (
    NAMES,
    ROW_META,
    changed,
    corpus_files,
    fixture,
    payload,
    records_in,
    write,
)
from tsarchive.container import Container
from tsarchive.errors import FormatError, MissingRecordError, UnsupportedError
from tsarchive.formats.pt2.metadata import Frame, ModulePlace, frames, modules, operator_name
from tsarchive.formats.pt2.payloads import compiled
from tsarchive.formats.pt2.records import Records
from tsarchive.formats.pt2.schema import Node
from tsarchive.formats.pt2.view import module_tree, sample_inputs

MODEL = "models/model.json"
CONFIG = "data/weights/model_weights_config.json"


@pytest.mark.parametrize(
    ("name", "version"),
    [("linear", 0), ("linear-2.8", 0), ("linear-2.7", 8), ("linear-2.5", 7), ("linear-2.4", 5)],
)
def test_format_version(name, version):
    with tsarchive.open(fixture(name)) as archive:
        assert (archive.kind, archive.format_version) == ("pt2", version)


@pytest.mark.parametrize("text", [b"two", b"", b"9" * 20])
def test_a_format_version_that_is_none(tmp_path, text):
    path = write(tmp_path / "a.pt2", records_in(fixture("linear")) | {"archive_version": text})
    with tsarchive.open(path) as archive, pytest.raises(FormatError, match="not a number"):
        _ = archive.format_version


def test_an_archive_without_version(tmp_path):
    records = records_in(fixture("linear"))
    del records["archive_version"]
    path = write(tmp_path / "a.pt2", records)
    with tsarchive.open(path) as archive, pytest.raises(MissingRecordError, match="no version"):
        _ = archive.format_version


# Tensors

TENSORS = {
    "linear": {
        "layer.weight": ("float32", (3, 4), (4, 1), "data/weights/weight_0", 48, True, False),
        "layer.bias": ("float32", (3,), (1,), "data/weights/weight_1", 12, True, False),
    },
    "mutating": {
        "count": ("float32", (2,), (1,), "data/weights/weight_0", 8, False, True),
        "factor": ("float32", (2,), (1,), "data/constants/tensor_0", 8, False, False),
        "scratch": ("float32", (2,), (1,), "data/constants/tensor_1", 8, False, True),
    },
    "nested": {},
}


@pytest.mark.parametrize("name", TENSORS)
def test_tensors(name):
    with tsarchive.open(fixture(name)) as archive:
        found = {
            key: (i.dtype, i.shape, i.strides, i.storage, i.nbytes, i.is_parameter, i.is_buffer)
            for key, i in archive.tensors.items()
        }
    assert found == TENSORS[name]


@pytest.mark.parametrize("name", [name for name in NAMES if name != "two_models"])
def test_tensors_are_those_of_every_other_layout(name):
    with tsarchive.open(fixture(name)) as archive:
        found = {key: (i.shape, i.is_parameter, i.is_buffer) for key, i in archive.tensors.items()}
    with tsarchive.open(fixture(name.partition("-")[0])) as archive:
        expected = {
            key: (i.shape, i.is_parameter, i.is_buffer) for key, i in archive.tensors.items()
        }
    assert found == expected


def test_names_have_that_of_their_model_where_there_are_several():
    with tsarchive.open(fixture("two_models")) as archive:
        names = set(archive.tensors)
        assert {"first.layer.weight", "second.embedding.weight"} <= names
        first = archive.only("first")
        assert set(first.tensors) == {"layer.weight", "layer.bias"}
        assert first.tree().name == ""
        assert [child.name for child in archive.tree().children] == ["first", "second"]
        assert list(first.code) == ["models/first.py"]
        assert set(first.needs.operators) == {"aten::linear", "aten::relu"}
        assert archive.needs.operators["aten::linear"] == 2
        assert archive.needs.operators["aten::relu"] == 1


def test_a_model_that_is_not_there():
    with tsarchive.open(fixture("two_models")) as archive:
        with pytest.raises(MissingRecordError, match="It has: first, second"):
            archive.only("third")
        with pytest.raises(MissingRecordError, match="It has: first"):
            archive.only("first").only("second")


def test_only_pt2_archives_have_models():
    from tests.support.archives import ARCHIVES

    with (
        tsarchive.open(ARCHIVES / "sequential.pt") as archive,
        pytest.raises(UnsupportedError, match="no models by name"),
    ):
        archive.only("model")


def test_a_pickled_tensor_is_listed_by_its_configuration(tmp_path):
    """Where the configuration does not say its sizes, it is no tensor in the list."""

    def pickled(config) -> None:
        described = payload("weight_0", ROW_META, use_pickle=True, is_param=True)
        config["config"]["layer.weight"] = described
        config["config"]["other"] = {**described, "tensor_meta": None}

    path = changed(fixture("linear"), CONFIG, pickled, tmp_path / "a.pt2")
    with tsarchive.open(path) as archive:
        assert archive.tensors["layer.weight"].shape == (2, 3)
        assert "other" not in archive.tensors


# The tree


def flat(module, prefix=""):
    yield prefix, module
    for child in module.children:
        yield from flat(child, f"{prefix}.{child.name}".removeprefix("."))


def test_tree_of_names_and_classes():
    with tsarchive.open(fixture("shared")) as archive:
        found = {name: module for name, module in flat(archive.tree())}
    assert {name: module.qualified_class for name, module in found.items()} == {
        "": "fixtures.pt2_modules.cases.Shared",
        "embedding": "torch.nn.modules.sparse.Embedding",
        "output": "torch.nn.modules.linear.Linear",
    }
    assert found[""].methods == ("forward",)
    assert (found["embedding"].parameters, found["embedding"].nbytes) == (24, 96)
    assert found["output"].parameters == 24
    assert (found[""].parameters, found[""].nbytes) == (6, 24 + 48 + 12 + 12)


@stores_weights_apart
@pytest.mark.parametrize("name", ["shared", "control_flow", "mutating", "linear"])
def test_tree_counts_what_torch_counts(name):
    program = torch.export.load(fixture(name))
    with tsarchive.open(fixture(name)) as archive:
        modules = [module for _, module in flat(archive.tree())]
    parameters = [v for v in program.state_dict.values() if isinstance(v, torch.nn.Parameter)]
    assert sum(module.parameters for module in modules) == sum(map(torch.numel, parameters))


def test_a_name_with_too_many_parts():
    path = [ModulePlace("a." * 300 + "a", "M")]
    with pytest.raises(FormatError, match="too many parts"):
        module_tree("", {}, path, MODEL)


# What nodes tell


def node(**metadata) -> Node:
    return Node("torch.ops.aten.relu.default", [], [], metadata)


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("L__self__,,a.M;L__self___b,b,c.L", [("", "a.M"), ("b", "c.L")]),
        ("k,L['self'].layers.0,a.L", [("layers.0", "a.L")]),
        ("k,layers.0@2,a.L", [("layers.0", "a.L")]),
        ("f(a, b)[1, 2],x,a.L", [("x", "a.L")]),
        ("_empty_nn_module_stack_from_metadata_hook," * 2 + "x", []),
        ("nothing of the kind", []),
        ("", []),
    ],
)
def test_modules_around_a_node(text, places):
    assert [tuple(place) for place in modules(node(nn_module_stack=text))] == places


def test_frames_of_a_node():
    trace = (
        'File "/a b/n.py", line 12, in forward\n    return self.x(y)\n'
        '  File "m.py", line 3, in <lambda>\n  File "z.py", line 99999999999999999999, in g\n  z()'
    )
    assert frames(node(stack_trace=trace)) == (
        Frame("/a b/n.py", 12, "forward", "return self.x(y)"),
        Frame("m.py", 3, "<lambda>", ""),
        Frame("z.py", 999999999, "g", "z()"),
    )
    assert frames(node()) == ()


# What a file needs


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("torch.ops.aten.add.Tensor", "aten::add"),
        ("torch.ops.my.op.default", "my::op"),
        ("executorch.exir.dialects.edge._ops.aten.add.Tensor", "aten::add"),
        ("#my:op", "my::op"),
        ("_operator.add", "_operator.add"),
        ("torch.sym_max", "torch.sym_max"),
    ],
)
def test_names_of_operators(target, name):
    assert operator_name(target) == name


def needing(program) -> None:
    nodes = program["graph_module"]["graph"]["nodes"]
    nodes[0]["target"] = "torch.ops.nowhere.twice.default"
    nodes.append({**nodes[1], "target": "_operator.add"})
    nodes.append({**nodes[1], "target": "torch.ops.higher_order.cond"})
    held = {"arg": {"name": "o", "class_fqn": "__torch__.torch.classes.lib.Thing"}}
    specs = program["graph_module"]["signature"]["input_specs"]
    specs.append({"custom_obj": {**held, "custom_obj_name": "o"}})


def test_needs_and_what_is_missing(tmp_path):
    path = changed(fixture("linear"), MODEL, needing, tmp_path / "a.pt2")
    with tsarchive.open(path) as archive:
        assert archive.needs.operators == {"nowhere::twice": 1, "aten::relu": 1}
        assert archive.needs.classes == ("lib.Thing",)
        assert archive.needs.foreign == ("nowhere::twice", "lib.Thing")
    missing = tsarchive.missing(path)
    assert (missing.operators, missing.classes) == (("nowhere::twice",), ("lib.Thing",))


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_missing_for_the_fixtures(name):
    assert not tsarchive.missing(fixture(name))


# Machine code

AOT = {
    "data/aotinductor/net/abc.wrapper.so": b"\x7fELF" + bytes(60),
    "data/aotinductor/net/abc.wrapper_metadata.json": b'{"AOTI_DEVICE_KEY": "cpu", "n": 3}',
    "data/aotinductor/net/weights_config.json": b'{"w": ["weight_0", [2], [1], 0]}',
    "data/executorch/net.pte": b"1234",
    "archive_format": b"pt2",
    "archive_version": b"0",
}


def test_machine_code_is_listed(tmp_path):
    records = Records(Container.open(write(tmp_path / "a.pt2", AOT)))
    assert (records.models, records.compiled) == ((), ("net",))
    found = compiled(records, "net")
    assert found.files["abc.wrapper.so"] == 64
    assert found.metadata == {"AOTI_DEVICE_KEY": "cpu", "n": "3"}
    assert found.weights == 1


def test_an_archive_of_machine_code_alone_says_so(tmp_path):
    records = {name: data for name, data in AOT.items() if not name.endswith("weights_config.json")}
    with tsarchive.open(write(tmp_path / "a.pt2", records)) as archive:
        assert dict(archive.code) == {}
        assert archive.needs.operators == {}
        for look in (lambda: archive.tensors, archive.tree):
            with pytest.raises(MissingRecordError, match="AOTInductor and programs of ExecuTorch"):
                look()


def test_weights_beside_machine_code_are_listed(tmp_path):
    config = b'{"w": ["weight_0", [2], [1], 0], "row": ["weight_0", [1, 2], [2, 1], 2]}'
    records = {
        **AOT,
        "data/aotinductor/net/weights_config.json": config,
        "data/weights/weight_0": torch_pickled(torch.arange(4.0)),
    }
    with tsarchive.open(write(tmp_path / "a.pt2", records)) as archive:
        found = {name: (t.dtype, t.shape, t.nbytes) for name, t in archive.tensors.items()}
    assert found == {"w": ("float32", (2,), 8), "row": ("float32", (1, 2), 8)}
    facts = document("info", tmp_path / "a.pt2")["tensors"]
    assert (facts["count"], facts["nbytes"]) == (2, 16)


@pytest.mark.parametrize(
    ("described", "message"),
    [
        (b'["weight_0", [4], [1], 1]', "'w': a tensor of size"),
        (b'["weight_0", [4], [1]]', "'w' is not a file, shape, strides and an offset"),
        (b'["weight_0", [-4], [1], 0]', "'w' is not a file, shape, strides and an offset"),
        (b'["weight_0", [4], [], 0]', "'w': it has the sizes [4] and the strides []"),
    ],
)
def test_weights_beside_machine_code_fit_their_records(described, message, tmp_path):
    records = {
        **AOT,
        "data/aotinductor/net/weights_config.json": b'{"w": %s}' % described,
        "data/weights/weight_0": torch_pickled(torch.arange(4.0)),
    }
    with (
        tsarchive.open(write(tmp_path / "a.pt2", records)) as archive,
        pytest.raises(FormatError, match=re.escape(message)),
    ):
        _ = archive.tensors


# Sample inputs


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("linear", "(float32[4, 4])"),
        ("control_flow", "(bool[()], float32[3])"),
        ("linear-2.4", "(float32[4, 4])"),
        ("linear-2.8", "(float32[4, 4])"),
    ],
)
def test_sample_inputs(name, text):
    assert sample_inputs(Records(Container.open(fixture(name))), "model") == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ((([1, 2.5], {"a": "b"}, None), {"k": True}), "([int, float], {a: str}, None, k=bool)"),
        (((torch.device("cpu"),), {}), "(torch.device)"),
        (((torch.ones(2).to_sparse(),), {}), "(torch._utils._rebuild_sparse_tensor)"),
        (3, "int"),
    ],
)
def test_sample_inputs_of_other_kinds(tmp_path, value, text):

    buffer = io.BytesIO()
    torch.save(value, buffer)
    records = records_in(fixture("linear")) | {"data/sample_inputs/model.pt": buffer.getvalue()}
    assert sample_inputs(Records(Container.open(write(tmp_path / "a", records))), "model") == text


def test_no_sample_inputs(tmp_path):
    records = records_in(fixture("linear")) | {"data/sample_inputs/model.pt": b""}
    assert sample_inputs(Records(Container.open(write(tmp_path / "a", records))), "model") is None


# Older schemas

SCHEMAS = {
    "linear-2.4": ((5, 3), "<=2.4", ["TRAINING"]),
    "mutating-2.4": ((5, 3), "<=2.4", ["ATEN"]),
    "linear-2.5": ((7, 3), "2.5.0", ["TRAINING"]),
    "linear-2.7": ((8, 7), "2.7.0", ["TRAINING"]),
    "linear-2.8": ((8, 8), "2.8.0", ["TRAINING"]),
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_programs_of_older_schemas(name):
    with tsarchive.open(fixture(name)) as archive:
        program = archive.exported.program("model")
    version = (program.schema_version.major, program.schema_version.minor)
    assert (version, program.torch_version, program.verifiers) == SCHEMAS[name]


@pytest.mark.parametrize("name", ["linear", "mutating", "nested"])
def test_an_older_schema_means_the_same_program(name):
    """But for what it does not have: kinds of arguments, names of nodes and parameters."""

    def meaning(path):
        with tsarchive.open(path) as archive:
            graph = archive.exported.program("model").graph_module.graph
        nodes = [(n.target, [i.arg for i in n.inputs], n.outputs) for n in graph.nodes]
        return nodes, graph.inputs, graph.outputs

    assert meaning(fixture(f"{name}-2.4")) == meaning(fixture(name))


@pytest.mark.parametrize("major", [4, 9])
def test_schemas_of_other_major_versions_are_refused(tmp_path, major):
    def other(program) -> None:
        program["schema_version"]["major"] = major

    path = changed(fixture("linear"), MODEL, other, tmp_path / "a.pt2")
    with tsarchive.open(path) as archive, pytest.raises(UnsupportedError, match="5 to 8 are known"):
        archive.tree()


@pytest.mark.parametrize("value", [[1], {}, 0, "x"])
def test_none_is_an_empty_tuple_or_a_truth_value(tmp_path, value):
    def other(program) -> None:
        program["graph_module"]["graph"]["outputs"][0] = {"as_none": value}

    path = changed(fixture("linear"), MODEL, other, tmp_path / "a.pt2")
    with tsarchive.open(path) as archive, pytest.raises(FormatError, match="not true or false"):
        archive.tree()


def inside(graph, depth: int) -> None:
    """Graphs in arguments of nodes of graphs in arguments."""
    empty = {**graph, "nodes": []}
    node, inner = graph["nodes"][1], empty
    for _ in range(depth):
        given = {"name": "", "arg": {"as_graph": {"name": "g", "graph": inner}}, "kind": 1}
        inner = {**empty, "nodes": [{**node, "inputs": [given]}]}
    graph["nodes"] += inner["nodes"]


def arguments_inside(graph, depth: int) -> None:
    value = {"as_int": 1}
    for _ in range(depth):
        value = {"as_string_to_argument": {"k": value}}
    graph["nodes"][1]["inputs"].append({"name": "z", "arg": value, "kind": 1})


@pytest.mark.parametrize(
    ("nest", "depth", "is_shown"),
    [
        (inside, 1, True),
        (inside, 30, True),
        (inside, 60, False),
        (inside, 110, False),
        (arguments_inside, 1, True),
        (arguments_inside, 110, True),
        (arguments_inside, 400, False),
    ],
)
def test_deep_nesting_is_shown_or_refused(tmp_path, nest, depth, is_shown):
    """Never an error of Python: what is refused breaks a limit of the format's reader."""
    path = changed(
        fixture("linear"),
        MODEL,
        lambda program: nest(program["graph_module"]["graph"], depth),
        tmp_path / "a.pt2",
    )
    refused = []
    with tsarchive.open(path) as archive:
        for look in (
            archive.tree,
            lambda: archive.needs,
            lambda: archive.code[next(iter(archive.code))],
            lambda: archive.exported.sourced_code[next(iter(archive.code))],
        ):
            try:
                look()
            except FormatError as error:
                refused.append(error.limit)
    assert refused == ([] if is_shown else [256] * 4)


def test_a_pt2_archive_has_no_torchscript_classes():
    with tsarchive.open(fixture("linear")) as archive:
        for look in ("classes", "root"):
            with pytest.raises(UnsupportedError, match="no TorchScript classes"):
                getattr(archive, look)
        with pytest.raises(MissingRecordError, match="PT2 archive of torch"):
            archive.moved("cpu")


def test_opening_reads_no_program(tmp_path):
    """The directory alone: a program that is no JSON is noticed when it is asked for."""
    path = write(tmp_path / "a.pt2", records_in(fixture("linear")) | {MODEL: b"no JSON"})
    with tsarchive.open(path) as archive:
        assert archive.exported.models == ("model",)
        assert list(archive.code) == ["models/model.py"]
        with pytest.raises(FormatError, match="not JSON"):
            _ = archive.tensors


def test_every_file_of_the_corpus_shows_all_that_it_has(corpus):
    for path in corpus_files():
        with tsarchive.open(path) as archive:
            for model in archive.exported.models:
                specs = archive.exported.program(model).graph_module.signature.input_specs
                held = [spec for spec in specs if spec.tag in ("parameter", "buffer")]
                assert len(archive.only(model).tensors) >= len({str(s.value) for s in held})
                assert archive.exported.signature(model).startswith("forward(")
                total = sum(math.prod(i.shape) for i in archive.tensors.values() if i.is_parameter)
                assert sum(m.parameters for _, m in flat(archive.tree())) == total
            for name in archive.exported.records.compiled:
                assert compiled(archive.exported.records, name).metadata["AOTI_DEVICE_KEY"]
