"""Verifying PT2 archives: each rule with what breaks it and with what does not."""

from __future__ import annotations

import io
import json

import pytest

import tsarchive
from fixtures.hostile_samples.exported import SAMPLES
from fixtures.hostile_samples.exported_archive import (
    CONSTANTS,
    INPUTS,
    LEAF,
    META,
    MODEL,
    WEIGHTS,
    archive,
    node,
    payload,
    records,
    saved,
    tree,
    value,
)
from fixtures.hostile_samples.sample import NUMBERS
from tests.support.pt2_archives import NAMES, corpus_files, fixture
from tsarchive.formats.pt2.program_checks import expression_fault, guard_fault
from tsarchive.pickler import Global, MarkedTuple, Object, Reduce, dumps

SYMBOL = "Symbol('s7', positive=True, integer=True)"
# Those that torch wrote with objects that only a pickle describes, or cannot load itself.
OTHERS = {
    "nested": "unusual",
    "nested-2.4": "unusual",
    "pt2_containers": "unusual",
    "pt2_subclass": "unusual",
    "pt2_opaque": "broken",
}


def verify(**changes):
    return tsarchive.verify(io.BytesIO(archive(**changes)))


def rules(report) -> set[str]:
    return {finding.rule for finding in report.findings}


def edited(record, change):
    """The report of the sound archive after a change to the JSON of a record."""
    values = json.loads(records()[record])
    change(values)
    return verify(**{record: json.dumps(values).encode()})


def program(change):
    return edited(MODEL, change)


def graph(change):
    return program(lambda values: change(values["graph_module"]["graph"]))


def signature(change):
    return program(lambda values: change(values["graph_module"]["signature"]))


def convention(**fields):
    def change(values):
        values["graph_module"]["module_call_graph"][0]["signature"].update(fields)

    return program(change)


def weight(**fields):
    return edited(WEIGHTS, lambda values: values["config"]["weight"].update(fields))


def constant(path, data, **fields):
    config = {"config": {"c": payload(path, **{"is_param": False, **fields})}}
    return verify(**{f"data/constants/{path}": data, CONSTANTS: json.dumps(config).encode()})


def spec(*children):
    return json.dumps([1, tree("builtins.tuple", None, *children)])


def test_the_sound_archive():
    report = verify()
    assert (report.verdict, report.kind, report.findings) == ("sound", "pt2", ())
    assert (report.code_records, report.format_version) == (1, 0)
    assert report.tensors is not None
    assert (report.tensors.count, report.tensors.storages) == (1, 1)


@pytest.mark.parametrize("name", NAMES)
def test_fixtures(name):
    report = tsarchive.verify(fixture(name))
    assert report.verdict == OTHERS.get(name, "sound"), report.findings


@pytest.mark.parametrize("path", corpus_files(), ids=lambda path: path.stem)
def test_files_of_torch_and_of_others(path):
    assert tsarchive.verify(path).verdict == OTHERS.get(path.stem, "sound")


@pytest.mark.parametrize(
    "step", [("container", "records", "code", "tensors", "pickles")], ids=["steps"]
)
def test_each_step_is_told(step):
    told = []
    tsarchive.verify(io.BytesIO(archive()), step=told.append)
    assert tuple(name for name in told if not name.startswith("container: ")) == step


# Broken: one rule and one nature each

BROKEN = {
    "no format": (lambda: verify(archive_format=None), "record-missing"),
    "another format": (lambda: verify(archive_format=b"pt3"), "record-version"),
    "another version": (lambda: verify(archive_version=b"1"), "record-version"),
    "another container": (lambda: verify(**{".data/version": b"99\n"}), "record-version"),
    "no weights": (lambda: verify(**{WEIGHTS: None}), "record-missing"),
    "no constants": (lambda: verify(**{CONSTANTS: None}), "record-missing"),
    "no inputs": (lambda: verify(**{INPUTS: None}), "record-missing"),
    "no program": (lambda: verify(**{MODEL: b"{"}), "program-malformed"),
    "a field of another type": (
        lambda: program(lambda p: p.update(torch_version=2)), "program-malformed",
    ),
    "a field missing": (lambda: program(lambda p: p.pop("opset_version")), "program-malformed"),
    "a tag unknown": (
        lambda: graph(lambda g: g["inputs"].append({"as_magic": 1})), "program-malformed",
    ),
    "a version of old": (
        lambda: program(lambda p: p.update(schema_version={"major": 2, "minor": 0})),
        "program-version",
    ),
    "an empty range": (
        lambda: program(lambda p: p.update(range_constraints={"s7": {"min_val": 2, "max_val": 1}})),
        "program-range",
    ),
    "an expression cut short": (
        lambda: graph(
            lambda g: g["sym_int_values"].update(
                s={"as_expr": {"expr_str": "Add(Symbol('s7'", "hint": None}}
            )
        ),
        "program-expression",
    ),
    "a guard cut short": (
        lambda: program(lambda p: p.update(guards_code=["L['x'].size()[0] =="])), "program-guard",
    ),
    "a value undefined": (
        lambda: graph(lambda g: g.update(outputs=[value("y")])), "program-value",
    ),
    "a value used before": (
        lambda: graph(
            lambda g: g["nodes"].insert(0, node("torch.ops.aten.neg.default", value("result"),
                                                output="x2"))
        ),
        "program-value",
    ),
    "a value twice": (lambda: graph(lambda g: g.update(nodes=g["nodes"] * 2)), "program-value"),
    "a value without description": (
        lambda: graph(lambda g: g["tensor_values"].pop("result")), "program-value",
    ),
    "a value of a graph inside": (
        lambda: graph(lambda g: g["nodes"].append(_cond(value("x")))), "program-value",
    ),
    "an input too many": (
        lambda: signature(lambda s: s["input_specs"].append({"user_input": {"arg": value("x")}})),
        "program-signature",
    ),
    "another input": (
        lambda: signature(lambda s: s["input_specs"].reverse()), "program-signature",
    ),
    "another output": (
        lambda: signature(lambda s: s.update(output_specs=[{"user_output": {"arg": value("x")}}])),
        "program-signature",
    ),
    "a mutation of nothing": (
        lambda: signature(
            lambda s: s.update(output_specs=[
                {"buffer_mutation": {"arg": {"name": "result"}, "buffer_name": "none"}}
            ])
        ),
        "program-signature",
    ),
    "no convention": (
        lambda: program(lambda p: p["graph_module"].update(module_call_graph=[])),
        "program-convention",
    ),
    "a tree that is none": (lambda: convention(out_spec="[1"), "program-convention"),
    "too many leaves": (lambda: convention(out_spec=spec(LEAF, LEAF)), "program-convention"),
    "arguments that are no pair": (lambda: convention(in_spec=spec(LEAF)), "program-convention"),
    "names for other arguments": (
        lambda: convention(forward_arg_names=["x", "y"]), "program-convention",
    ),
    "a parameter missing": (
        lambda: edited(WEIGHTS, lambda c: c["config"].clear()), "program-state",
    ),
    "a parameter of another shape": (
        lambda: weight(tensor_meta={**META, "sizes": [{"as_int": 7}]}), "program-state",
    ),
    "a parameter of another type": (
        lambda: weight(tensor_meta={**META, "dtype": 8, "sizes": [{"as_int": 4}]}),
        "program-state",
    ),
    "an object for a parameter": (
        lambda: verify(**{
            WEIGHTS: json.dumps({"config": {"weight": payload("custom_obj_0", use_pickle=True)}})
            .encode(),
            "data/weights/custom_obj_0": saved(dumps(1)),
        }),
        "program-state",
    ),
    "a configuration without fields": (
        lambda: edited(WEIGHTS, lambda c: c["config"]["weight"].pop("is_param")),
        "payload-config",
    ),
    "a record that is not there": (lambda: weight(path_name="weight_9"), "record-missing"),
    "too few bytes": (
        lambda: weight(tensor_meta={**META, "sizes": [{"as_int": 9}]}), "payload",
    ),
    "no description": (lambda: weight(tensor_meta=None), "payload"),
    "a size of a symbol": (
        lambda: weight(
            tensor_meta={**META, "sizes": [{"as_expr": {"expr_str": SYMBOL, "hint": None}}]}
        ),
        "program-expression",
    ),
    "inputs that are no zip": (lambda: verify(**{INPUTS: b"abc"}), "record-saved"),
    "inputs without pickle": (
        lambda: verify(**{INPUTS: saved(b"").replace(b"data.pkl", b"dada.pkl")}), "record-missing",
    ),
    "inputs that break off": (lambda: verify(**{INPUTS: saved(b"\x80\x02(")}), "pickle-malformed"),
    "metadata of compiled code": (
        lambda: verify(**{"data/aotinductor/m/a_metadata.json": b"["}), "record-compiled",
    ),
}  # fmt: skip


def _cond(inner):
    """A node with a graph that uses a value of the graph around it."""
    held = {
        "inputs": [], "outputs": [inner], "nodes": [], "tensor_values": {}, "sym_int_values": {},
        "sym_bool_values": {},
    }  # fmt: skip
    made = node("torch.ops.higher_order.wrap", output="wrapped")
    made["inputs"] = [{"name": "", "arg": {"as_graph": {"name": "g", "graph": held}}}]
    return made


@pytest.mark.parametrize("name", BROKEN)
def test_broken(name):
    make, rule = BROKEN[name]
    report = make()
    assert report.verdict in ("broken", "another kind"), report.findings
    assert rule in rules(report)
    assert all(f.message and (f.record or f.rule.startswith("zip-")) for f in report.findings)


# Unusual: nothing is refused

PAIR = Object(Global("lib", "Pair"), {})
UNUSUAL = {
    "a record unknown": (lambda: verify(**{"data/notes": b""}), "record-unknown"),
    "a weight of nothing": (lambda: verify(**{"data/weights/weight_7": b"1"}),
                            "record-unreferenced"),
    "a configuration of no model": (
        lambda: verify(**{"data/weights/other_weights_config.json": b'{"config": {}}'}),
        "record-unreferenced",
    ),
    "inputs of no model": (
        lambda: verify(**{"data/sample_inputs/other.pt": b""}), "record-unreferenced",
    ),
    "a newer schema": (
        lambda: program(lambda p: p.update(schema_version={"major": 8, "minor": 99})),
        "program-version",
    ),
    "newer operators": (
        lambda: program(lambda p: p.update(opset_version={"aten": 11})), "program-version",
    ),
    "a factory of a module": (
        lambda: convention(out_spec=json.dumps([1, tree("collections.defaultdict", {
            "default_factory_module": "lib", "default_factory_name": "f", "dict_context": [],
        })])),
        "program-convention",
    ),
    "a guard of another form": (
        lambda: program(lambda p: p.update(guards_code=["L['x'] in (1, 2)"])), "program-guard",
    ),
    "inputs of a class": (
        lambda: verify(**{INPUTS: saved(dumps(MarkedTuple((MarkedTuple((PAIR,)), {}))))}),
        "pickle-global",
    ),
    "an odd number of bytes": (lambda: verify(**{"data/weights/weight_0": NUMBERS + b"1"}),
                               "payload"),
    "a constant for nothing": (lambda: constant("tensor_0", NUMBERS), "program-state"),
    "an object for nothing": (
        lambda: constant("opaque_obj_0", dumps(1), use_pickle=True, tensor_meta=None),
        "program-state",
    ),
    "an object without flag": (
        lambda: constant("opaque_obj_0", dumps(1), tensor_meta=None), "payload",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNUSUAL)
def test_unusual(name):
    make, rule = UNUSUAL[name]
    report = make()
    assert report.verdict == "unusual", report.findings
    assert rule in rules(report)


# Sound: what is near to breaking a rule

SOUND = {
    "no inputs were kept": lambda: verify(**{INPUTS: b""}),
    "no fingerprint of the container": lambda: verify(**{".data/version": None}),
    "an extra file": lambda: verify(**{"extra/a/b.txt": b"text"}),
    "a program of ExecuTorch": lambda: verify(**{"data/executorch/m.pte": b"1234ET12"}),
    "a range of one": lambda: program(
        lambda p: p.update(range_constraints={"s7 + 1": {"min_val": 2, "max_val": 2}})
    ),
    "a range without end": lambda: program(
        lambda p: p.update(range_constraints={"s7": {"min_val": None, "max_val": None}})
    ),
    "a size that is a symbol": lambda: graph(
        lambda g: g["tensor_values"]["x"].update(
            sizes=[{"as_expr": {"expr_str": SYMBOL, "hint": {"as_int": 8}}}]
        )
    ),
    "a guard": lambda: program(lambda p: p.update(guards_code=["L['x'].size()[0] == 8"])),
    "a graph inside": lambda: graph(_with_graph),
    "fields unknown": lambda: program(lambda p: p.update(something={"new": 1})),
    "a weight without data": lambda: verify(**{"data/weights/weight_0": b""}),
    "a weight in torch.save": lambda: verify(
        **{
            WEIGHTS: json.dumps({"config": {"weight": payload("weight_0", use_pickle=True)}})
            .encode(),
            "data/weights/weight_0": saved(records_of_one_tensor()),
        }
    ),
    "metadata of compiled code": lambda: verify(
        **{"data/aotinductor/m/a_metadata.json": b'{"AOTI_DEVICE_KEY": "cpu"}'}
    ),
}  # fmt: skip


def records_of_one_tensor() -> bytes:
    from fixtures.hostile_samples.sample import tensor

    return dumps(tensor())


def _with_graph(values) -> None:
    values["nodes"].append(_cond({"as_int": 1}))
    values["tensor_values"]["wrapped"] = META


@pytest.mark.parametrize("name", SOUND)
def test_sound(name):
    report = SOUND[name]()
    assert report.verdict == "sound", report.findings
    assert report.ok


def test_all_faults_are_told_not_the_first():
    config = {"config": {f"w{n}": payload(f"weight_{n}") for n in range(5)}}
    config["config"]["weight"] = payload("weight_0", tensor_meta={**META, "dtype": 0})
    report = verify(**{WEIGHTS: json.dumps(config).encode()})
    missing = [f.record for f in report.findings if f.rule == "record-missing"]
    assert missing == [f"data/weights/weight_{n}" for n in range(1, 5)]
    assert "payload" in rules(report)


def test_findings_inside_of_records_name_both():
    report = verify(**{INPUTS: saved(dumps(Reduce(Global("os", "getcwd"), MarkedTuple(()))))})
    (finding,) = [f for f in report.findings if f.rule == "pickle-global"]
    assert finding.record == f"{INPUTS}/data.pkl"
    assert finding.offset is not None


HOSTILE = [name for name, sample in SAMPLES.items() if name.startswith(("expression-", "guard-"))]


@pytest.mark.parametrize("name", [*HOSTILE, "range-key", "json-deep", "json-graphs", "path-parent"])
def test_hostile(name):
    assert tsarchive.verify(io.BytesIO(SAMPLES[name].make())).verdict == "hostile"


@pytest.mark.parametrize(
    ("text", "nature"),
    [
        (SYMBOL, None),
        (f"Add({SYMBOL}, Integer(1))", None),
        ("s7 + 1", None),
        ("2*s7//3", None),
        ("", "broken"),
        ("s7 +", "broken"),
        ("Add(Symbol('s7", "broken"),
        ("OpaqueUnaryFn_sqrt(Integer(2)", "broken"),
        ("BitwiseFn_bitwise_and(Integer(2)", "broken"),
        ("s7 s8", "broken"),
        ("Symbol('a b')", "hostile"),
        ("print(1)", "hostile"),
        ("s7.real", "hostile"),
        ("(s7)(1)", "hostile"),
        ("[s7 for s7 in x]", "hostile"),
        ("Integer('__import__(1)')", "hostile"),
        ("f'{s7}'", "hostile"),
        ("Add(\uff45val(1))", "hostile"),
        ("s7 and (lambda: 1)", "hostile"),
        ("Add(" * 200 + "1" + ")" * 200, "hostile"),
    ],
)
def test_expressions(text, nature):
    found = expression_fault(text)
    assert (found and found.nature.value) == nature


@pytest.mark.parametrize(
    ("text", "nature"),
    [
        ("L['x'].size()[0] == 8", None),
        ("max(2, L['a']['b'].size()[1]) <= 16", None),
        ("L['x'].size()[0] ==", "broken"),
        ("L['x'] in (1, 2)", "unusual"),
        ("open('f') is None", "hostile"),
        ("L['x'].tolist() == 1", "hostile"),
        ("True #", "hostile"),
        ("L['x'].__class__ == 1", "hostile"),
        ("L['x'].size()[0] == 1, exec('1')", "hostile"),
        ('L["\'"].size()[0] == 1', None),
        ("L['it\\'s'].size()[0] == 1", "hostile"),
    ],
)
def test_guards(text, nature):
    found = guard_fault(text)
    assert (found and found.nature.value) == nature
