"""Auditing PT2 archives: what they can make torch do, where it stands, and when it happens."""

from __future__ import annotations

import io
import json

import pytest

import tsarchive
from fixtures.hostile_samples.exported import SAMPLES
from fixtures.hostile_samples.exported_archive import MODEL, WEIGHTS, archive, records
from tests.support.pt2_archives import NAMES, corpus_files, fixture
from tsarchive import Severity
from tsarchive.auditing.sarif import sarif_document

# Native code, and objects that only a pickle describes: what the rules say of those.
NOT_FINE = frozenset(
    {
        "nested", "nested-2.4", "pt2_containers", "pt2_fake", "pt2_opaque", "pt2_subclass",
        "pt2_torchbind", "pytorch-executorch__preprocess_7a851d0",
        "pytorch-executorch__preprocess_f59e50c",
    }
)  # fmt: skip


def audit(**changes):
    return tsarchive.audit(io.BytesIO(archive(**changes)))


def sample(name):
    return tsarchive.audit(io.BytesIO(SAMPLES[name].make()))


def node_with(target, **more):
    values = json.loads(records()[MODEL])
    values["graph_module"]["graph"]["nodes"][0].update(target=target, **more)
    return audit(**{MODEL: json.dumps(values).encode()})


def found(report, rule):
    return [finding for finding in report.findings if finding.rule == rule]


@pytest.mark.parametrize("path", [*map(fixture, NAMES), *corpus_files()], ids=lambda p: p.stem)
def test_files_of_torch(path):
    report = tsarchive.audit(path)
    assert report.kind == "pt2"
    assert report.ok == (path.stem not in NOT_FINE), report.findings
    if not report.payloads:
        assert report.operators or path.stem == "pt2_opaque"
        assert {entry.when.value for entry in report.entry_points} == {"call"}


def test_the_sound_archive():
    report = audit()
    assert report.findings == ()
    assert report.groups["programs"].records == 1
    (use,) = report.operators
    assert (use.operator, use.risk.value) == ("aten::mul", "compute")
    assert (use.places[0].record, use.places[0].function) == (MODEL, "graph.nodes[0]")


# A rule, its severity, and what the message says of place and time
RULES = {
    "expression-import": ("code-expression", "error", "sizes[0].as_expr.expr_str", "load"),
    "expression-symbol": ("code-expression", "error", "tensor_values.x", "load"),
    "expression-string": ("code-expression", "error", "tensor_values.x", "load"),
    "expression-factorial": ("code-expression", "error", "tensor_values.x", "load"),
    "expression-deep": ("code-expression", "error", "tensor_values.x", "load"),
    "expression-in-payload": ("code-expression", "error", "config.weight", "load"),
    "range-key": ("code-expression", "error", "range_constraints", "load"),
    "guard-call": ("code-guard", "error", "guards_code[0]", "at a call"),
    "guard-comment": ("code-guard", "error", "guards_code[0]", "at a call"),
    "guard-member": ("code-guard", "error", "guards_code[0]", "at a call"),
    "guard-lambda": ("code-guard", "error", "guards_code[0]", "at a call"),
    "program-key-twice": ("code-guard", "error", "guards_code[0]", "at a call"),
    "inputs-call": ("record-unpickled", "warning", "", "when it loads the file"),
    "inputs-raw-pickle": ("record-unpickled", "warning", "", "when it loads the file"),
    "weight-raw-pickle": ("record-use-pickle", "warning", "", "unpickle"),
    "weight-escaped-flag": ("record-use-pickle", "warning", "", "unpickle"),
    "opaque-object": ("record-use-pickle", "warning", "", "unpickle"),
    "tree-import": ("program-import", "warning", "out_spec", "imports the module 'antigravity'"),
    "target-os-system": ("program-target", "error", "graph.nodes[0]", "'torch.os.system'"),
    "target-attrgetter": ("program-target", "error", "graph.nodes[0]", "attrgetter"),
    "target-globals": ("program-target", "error", "graph.nodes[0]", "__globals__"),
    "target-load-library": ("program-target", "error", "graph.nodes[0]", "load_library"),
    "target-from-file": ("operator-files", "error", "graph.nodes[0]", "when a method is called"),
    "target-library": ("operator-foreign", "info", "", "evil::run"),
    "native-library": ("record-native", "warning", "", "ELF"),
    "native-extra": ("record-native", "error", "", "ELF"),
    "native-weight": ("record-native", "error", "", "ELF"),
    "executorch": ("record-native", "warning", "", "ExecuTorch"),
    "record-unknown": ("record-unknown", "warning", "", "no such record"),
    "json-deep": ("code-unreadable", "error", "", "unknown"),
}


@pytest.mark.parametrize("name", RULES)
def test_each_rule_names_place_and_time(name):
    rule, severity, place, when = RULES[name]
    finding = max(found(sample(name), rule), key=lambda finding: finding.severity)
    assert finding.severity == severity
    assert place in finding.message
    assert when in finding.message
    assert finding.record is not None


@pytest.mark.parametrize("name", RULES)
def test_the_sound_archive_breaks_none_of_them(name):
    assert found(audit(), RULES[name][0]) == []


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("inputs-call", "posix.getcwd"),
        ("inputs-print", "builtins.print"),
        ("inputs-raw-pickle", "builtins.print"),
        ("weight-pickled", "builtins.print"),
        ("weight-raw-pickle", "os.getcwd"),
        ("weight-escaped-flag", "builtins.print"),
        ("opaque-object", "os.getcwd"),
        ("custom-object", "builtins.print"),
    ],
)
def test_pickles_tell_what_they_call(name, call):
    names = {found.name for found in sample(name).pickled_names if found.reason is None}
    assert names == {call.replace("posix.", "os.")}


@pytest.mark.parametrize(
    ("target", "operator", "risk"),
    [
        ("torch.ops.aten.relu.default", "aten::relu", "compute"),
        ("torch.ops.aten.relu", "aten::relu", "compute"),
        ("torch.ops.aten.save.default", "aten::save", "files"),
        ("executorch.exir.dialects.edge._ops.aten.save.default", "aten::save", "files"),
        ("#aten:save", "aten::save", "files"),
        ("torch.ops.aten.dropout.default", "aten::dropout", "randomness"),
        ("torch.ops.lib.run.default", "lib::run", "foreign"),
        ("torch.ops.higher_order.cond", "higher_order::cond", "compute"),
        ("torch.ops.higher_order.new", "higher_order::new", "unknown"),
        ("torch.ops.higher_order.call_torchbind", "higher_order::call_torchbind", "foreign"),
        ("torch.ops.higher_order.executorch_call_delegate",
         "higher_order::executorch_call_delegate", "native code"),
        ("_operator.add", None, None),
        ("torch.sym_max", None, None),
        ("math.trunc", None, None),
    ],
)  # fmt: skip
def test_targets(target, operator, risk):
    report = node_with(target)
    assert found(report, "program-target") == []
    assert [(use.operator, use.risk.value) for use in report.operators] == (
        [] if operator is None else [(operator, risk)]
    )


@pytest.mark.parametrize(
    "target",
    [
        "os.system", "torch.ops", "torch.ops.aten", "torch.ops.aten.add.default.x", "eval",
        "torch.load", "math.inf", "_operator.methodcaller", "torch.sym_max.__globals__", "",
        "#a", "torch.ops.aten.\uff41dd.default",
    ],
)  # fmt: skip
def test_targets_that_are_no_operators(target):
    (finding,) = found(node_with(target), "program-target")
    assert (finding.severity, finding.record) == (Severity.ERROR, MODEL)


def test_operators_given_as_arguments_and_in_graphs_inside_count():
    held = {
        "inputs": [], "outputs": [], "tensor_values": {}, "sym_int_values": {},
        "sym_bool_values": {}, "nodes": [
            {"target": "torch.ops.aten.save.default", "inputs": [], "outputs": [], "metadata": {}}
        ],
    }  # fmt: skip
    inputs = [
        {"name": "", "arg": {"as_graph": {"name": "g", "graph": held}}},
        {"name": "", "arg": {"as_operator": "torch.ops.aten.from_file.default"}},
    ]
    report = node_with("torch.ops.higher_order.with_effects", inputs=inputs)
    assert {use.operator for use in report.operators} == {
        "aten::save", "aten::from_file", "higher_order::with_effects",
    }  # fmt: skip
    places = [use.places[0].function for use in report.operators if use.operator == "aten::save"]
    assert places == ["graph.nodes[0].inputs[0].arg.as_graph.graph.nodes[0]"]


def test_classes_bound_from_cpp_are_listed():
    name = "__torch__.torch.classes.lib.Thing"
    custom = {"as_custom_obj": {"name": "c", "class_fqn": name}}
    report = node_with("torch.ops.lib.run.default", inputs=[{"name": "x", "arg": custom}])
    assert report.classes == ("lib.Thing",)
    assert found(report, "code-native-class")


@pytest.mark.parametrize("flag", ["true", "1", '"yes"', "[0]"])
def test_any_true_flag_asks_for_unpickling(flag):
    config = records()[WEIGHTS].replace(b'"use_pickle": false', f'"use_pickle": {flag}'.encode())
    assert found(audit(**{WEIGHTS: config}), "record-use-pickle")


@pytest.mark.parametrize("module", ["builtins", "collections"])
def test_default_factories_of_python_import_nothing_new(module):
    text = json.dumps({"default_factory_module": module, "default_factory_name": "list"})
    values = json.loads(records()[MODEL])
    call = values["graph_module"]["module_call_graph"][0]["signature"]
    node = {"type": "collections.defaultdict", "context": text, "children_spec": []}
    call["out_spec"] = json.dumps([1, node])
    report = audit(**{MODEL: json.dumps(values).encode()})
    assert bool(found(report, "program-import")) == (module != "builtins")


def test_sarif():
    report = sample("guard-call")
    document = sarif_document("m.pt2", report, "1")
    (run,) = document["runs"]
    rules = {
        rule["id"]: rule["shortDescription"]["text"] for rule in run["tool"]["driver"]["rules"]
    }
    assert "code-guard" in rules
    result = next(row for row in run["results"] if row["ruleId"] == "code-guard")
    (location,) = result["locations"]
    assert location["logicalLocations"] == [{"fullyQualifiedName": MODEL, "kind": "resource"}]
    assert result["level"] == "error"
