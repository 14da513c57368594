"""``verify`` and ``audit`` of files of ExecuTorch."""

from __future__ import annotations

import csv
import io
from itertools import chain

import pytest

import tsarchive
from fixtures.executorch_samples import (
    ADD,
    ALIGN,
    BIAS,
    BYTE,
    DATA,
    FILES,
    INLINE,
    LINEAR,
    LINEAR_DATA,
    STATE,
    STATE_DATA,
    SUITES,
    VALUES,
    bundle,
    data_file,
    instructions,
    kernel,
    linear,
    number,
    plan,
    program,
    tensor,
)
from tests.support.executorch_files import CORPUS_KINDS, FIXTURES, edited, mutated, sound_files
from tsarchive.describing.contents import TensorTotals
from tsarchive.findings import Severity

OLD = {"data_06.ptd"}


def verified(data):
    return tsarchive.verify(io.BytesIO(data))


def rules(data):
    """The rules of findings above a note."""
    return [f.rule for f in verified(data).findings if f.severity > Severity.INFO]


@pytest.mark.parametrize("name", FILES)
def test_fixtures_are_sound(name):
    report = tsarchive.verify(FIXTURES / name)
    assert report.ok
    assert report.verdict == ("unusual" if name in OLD else "sound")
    assert (report.kind, report.format_version) == (name.rpartition(".")[2], 0)
    assert report.nbytes == (FIXTURES / name).stat().st_size


def test_what_was_checked_is_counted():
    report = tsarchive.verify(FIXTURES / "state.pte")
    assert (report.records, report.code_records) == (8, 2)
    assert report.tensors == TensorTotals(count=3, elements=18, storages=3, nbytes=24)


@pytest.mark.parametrize("kind", CORPUS_KINDS)
def test_every_sound_file_of_the_corpus_is_found_sound(corpus, kind):
    for path in sound_files(corpus, kind):
        assert (path.name, tsarchive.verify(path).findings) == (path.name, ())


# The runtime runs it, with bytes of the header for weights.
WRONGLY_RUN = {"eh_magic_eh01.pte"}
# Whether operators are there is not for verify: audit says that nobody knows this one.
FOR_AUDIT = {"op_missing.pte"}


def test_malformed_files_of_the_corpus_get_the_verdict_of_the_runtime_or_a_stricter_one(corpus):
    folder = corpus / "generated" / "bad"
    with (folder / "VERDICTS.tsv").open() as file:
        rows = list(csv.reader(file, delimiter="\t"))[1:]
    assert len(rows) > 20
    for name, verdict, _ in rows:
        is_refused = "0x" in verdict or "failed" in verdict
        assert is_refused or name in WRONGLY_RUN or name == "no_plans.pte"
        if name not in FOR_AUDIT:
            assert (name, tsarchive.verify(folder / name).ok) == (name, False)
        assert (name, tsarchive.audit(folder / name).ok) == (name, False)


def with_plan(described=ADD, **changes):
    """A program whose first method is changed."""
    first, *others = described["execution_plan"]
    return program({**described, "execution_plan": [{**first, **changes}, *others]})


def with_value(index, value):
    found = list(ADD["execution_plan"][0]["values"])
    found[index] = value
    return with_plan(values=found)


def with_instructions(*made):
    return with_plan(VALUES, chains=instructions(*made))


def jump(condition, destination):
    inner = {"cond_value_index": condition, "destination_instruction": destination}
    return {"instr_args": ("JumpFalseCall", inner)}


def move(source, target):
    return {"instr_args": ("MoveCall", {"move_from": source, "move_to": target})}


LISTS = [
    ("IntList", [0], "item-kind"),
    ("IntList", [99], "index"),
    ("IntList", [-1], "index"),
    ("TensorList", [1], "item-kind"),
    ("TensorList", [-1], "index"),
    ("OptionalTensorList", [-1, 1], "item-kind"),
    ("OptionalTensorList", [-2], "index"),
]
TENSORS = {
    "element type": (tensor([2], 99, at=(1, 0)), "tensor"),
    "negative size": (tensor([-2], at=(1, 0)), "tensor"),
    "order": (tensor([2, 2], at=(1, 0), dim_order=[0, 0]), "tensor"),
    "order too short": (tensor([2, 2], at=(1, 0), dim_order=[0]), "tensor"),
    "rank": (tensor([1] * 17, at=(1, 0)), "tensor"),
    "bytes": (tensor([1 << 30] * 4, at=(1, 16)), "tensor"),
    "bytes of nothing": (tensor([0, *[1 << 30] * 4], at=(1, 0)), "tensor"),
    "storage offset": (tensor([2], at=(1, 0), storage_offset=1), "tensor"),
    "not bound": (tensor([2], at=(1, 0), shape_dynamism=2), "tensor"),
    "unknown dynamism": (tensor([2], at=(1, 0), shape_dynamism=3), "tensor"),
    "behind the arena": (tensor([2], at=(1, 25)), "allocation"),
    "no arena": (tensor([2], at=(2, 0)), "allocation"),
    "arena of nothing": (tensor([2], at=(0, 0)), "allocation"),
    "far in the arena": (tensor([2], allocation_info={"memory_id": 1, "memory_offset_high": 1}),
                         "allocation"),
    "no such constant": (tensor([2], data=7), "constant"),
    "no initial values": (tensor([2], data=1, at=(1, 0)), "constant"),
    "no name": (tensor([2], extra_tensor_info={"location": 1}), "constant"),
}  # fmt: skip


@pytest.mark.parametrize("what", TENSORS)
def test_tensors(what):
    value, rule = TENSORS[what]
    assert rules(with_value(0, value)) == [f"executorch-{rule}"]


@pytest.mark.parametrize(("kind", "items", "rule"), LISTS)
def test_lists(kind, items, rule):
    plan_values = [*ADD["execution_plan"][0]["values"], {"val": (kind, {"items": items})}]
    assert rules(with_plan(values=plan_values)) == [f"executorch-{rule}"]


def test_symbolic_sizes_may_be_unset():
    plan_values = [*ADD["execution_plan"][0]["values"], {"val": ("Null", {})},
                   {"val": ("IntList", {"items": [3, 1]})}]  # fmt: skip
    assert rules(with_plan(values=plan_values)) == []


INSTRUCTIONS = {
    "operator": ([kernel(1, 1, 2, 2)], "index"),
    "argument": ([kernel(0, 1, 2, 99)], "index"),
    "negative argument": ([kernel(0, -1, 2, 2)], "index"),
    "delegate": ([{"instr_args": ("DelegateCall", {"delegate_index": 0, "args": []})}], "index"),
    "move": ([move(0, 99)], "index"),
    "condition": ([jump(4, 1)], "kind"),
    "condition of another type": ([jump(1, 1)], "kind"),
    "jump behind the end": ([jump(0, 2)], "jump"),
    "jump before the beginning": ([jump(0, -1)], "jump"),
    "free of a number": ([{"instr_args": ("FreeCall", {"value_index": 4})}], "kind"),
    "a loop of its own": ([jump(3, 0)], "endless"),
    "a loop over others": ([move(1, 2), kernel(0, 1, 2, 2), jump(3, 0)], "endless"),
    "a loop behind a branch": ([jump(0, 2), jump(3, 1)], "endless"),
}


@pytest.mark.parametrize("what", INSTRUCTIONS)
def test_instructions(what):
    made, rule = INSTRUCTIONS[what]
    assert rules(with_instructions(*made)) == [f"executorch-{rule}"]


@pytest.mark.parametrize(
    "made",
    [
        [jump(0, 1)],
        [jump(3, 2), move(1, 2)],
        [move(1, 2), jump(0, 0)],
        [move(1, 3), jump(3, 0)],
        [kernel(0, 1, 3), jump(3, 0)],
        [kernel(0, 1, 4), jump(4, 0)],
    ],
    ids=[
        "to the end",
        "over another",
        "back by a tensor",
        "by what is moved",
        "by what is set",
        "by a number that becomes a bool",
    ],
)
def test_loops_that_may_end_are_sound(made):
    assert rules(with_instructions(*made)) == []


def test_an_endless_loop_that_need_not_be_reached_is_a_warning():
    made = [jump(0, 2), jump(3, 1)]
    (finding,) = verified(with_instructions(*made)).findings
    assert (finding.rule, finding.severity) == ("executorch-endless", "warning")
    assert "instruction 1 " in finding.message


def test_outputs_in_the_memory_of_inputs():
    def moved(offset):
        return with_value(2, tensor([2], at=(1, offset)))

    assert rules(moved(4)) == ["executorch-overlap"]
    assert rules(moved(0)) == rules(moved(8)) == []


def test_plans():
    assert rules(with_plan(inputs=[9])) == rules(with_plan(outputs=[-1])) == ["executorch-index"]
    assert rules(with_plan(chains=[])) == ["executorch-chain"]
    assert "executorch-arena" in rules(with_plan(non_const_buffer_sizes=[0, -5]))
    device = [{"buffer_idx": 2, "device_type": 1}]
    assert rules(with_plan(non_const_buffer_device=device)) == ["executorch-arena"]
    long = [{"name": "aten::" + "x" * 90, "overload": "out"}]
    assert rules(with_plan(operators=long)) == ["executorch-operator"]
    assert rules(program({"execution_plan": []})) == ["executorch-method"]
    assert rules(program({})) == ["executorch-method"]


def test_a_value_of_no_kind():
    assert rules(with_value(1, {})) == ["executorch-method"]


def test_methods_of_one_name_are_inconsistent():
    report = verified(program({"execution_plan": [plan("forward"), plan("forward")]}))
    assert [f.rule for f in report.findings] == ["executorch-method"]
    assert report.verdict == "inconsistent"


def test_a_newer_version():
    assert rules(program({**ADD, "version": 1})) == ["executorch-version"]
    assert rules(data_file({**DATA, "version": 1}, bytes(133))) == ["executorch-version"]


def test_constants():
    short = LINEAR_DATA[:-1]
    cut = {**LINEAR, "segments": [{"offset": 0, "size": len(short)}]}
    assert rules(program(cut, short)) == ["executorch-constant"]
    elsewhere = {**LINEAR, "constant_segment": {"segment_index": 4, "offsets": [0, 0, 16]}}
    assert set(rules(program(elsewhere, LINEAR_DATA))) == {"executorch-constant"}
    far = {**LINEAR, "constant_segment": {"segment_index": 0, "offsets": [0, 0, 1 << 63]}}
    assert rules(program(far, LINEAR_DATA)) == ["executorch-constant"]
    both = {**LINEAR, "constant_buffer": INLINE["constant_buffer"]}
    assert verified(program(both, LINEAR_DATA)).verdict == "inconsistent"
    cut_inline = [{"storage": b""}, {"storage": BIAS}, {"storage": b"1234"}]
    assert rules(program({**INLINE, "constant_buffer": cut_inline})) == ["executorch-constant"]


def test_segments():
    overlapping = [{"offset": 0, "size": 12}, {"offset": 8, "size": 12}, {"offset": 256, "size": 9}]
    assert "executorch-segment" in rules(program({**STATE, "segments": overlapping}, STATE_DATA))
    beyond = {**LINEAR, "segments": [{"offset": 1 << 40, "size": 60}]}
    assert "executorch-segment" in rules(program(beyond, LINEAR_DATA))
    assert rules(program(LINEAR, LINEAR_DATA) + b"more") == ["executorch-rest"]
    assert rules(program(LINEAR, LINEAR_DATA) + bytes(8)) == []


def test_delegates_and_names():
    first = {"id": "B", "processed": {"location": 0, "index": 3}}
    assert rules(with_plan(delegates=[first])) == ["executorch-delegate"]
    assert rules(with_plan(delegates=[{"id": "B"}])) == ["executorch-method"]
    twice = [{"key": "a", "segment_index": 0}] * 2
    assert rules(program({**LINEAR, "named_data": twice}, LINEAR_DATA)) == ["executorch-named-data"]
    lost = [{"key": "a", "segment_index": 9}]
    assert rules(program({**LINEAR, "named_data": lost}, LINEAR_DATA)) == ["executorch-named-data"]


def test_data_files():
    def changed(index, **changes):
        entries = [*DATA["named_data"]]
        entries[index] = {**entries[index], **changes}
        return rules(data_file({**DATA, "named_data": entries}, bytes(ALIGN + 5)))

    layout = DATA["named_data"][0]["tensor_layout"]
    assert changed(0) == []
    assert changed(0, segment_index=9) == ["executorch-named-data"]
    assert changed(1, key="net.weight") == ["executorch-named-data"]
    assert changed(0, tensor_layout={**layout, "sizes": [5, 3]}) == ["executorch-named-data"]
    assert changed(0, tensor_layout={**layout, "scalar_type": 21}) == ["executorch-tensor"]
    assert changed(0, tensor_layout={**layout, "dim_order": [1, 1]}) == ["executorch-tensor"]
    assert rules(data_file({"segments": []}, b"")) == ["executorch-table"]


def test_bundles():
    def changed(method="forward", **changes):
        case = SUITES["method_test_suites"][0]["test_cases"][0]
        suite = {"method_name": method, "test_cases": [{**case, **changes}]}
        inner = program(LINEAR, LINEAR_DATA)
        return rules(bundle({"method_test_suites": [suite]}, inner))

    def bundled(sizes, data, scalar_type=6):
        made = {"scalar_type": scalar_type, "sizes": sizes, "dim_order": [0], "data": data}
        return [{"val": ("Tensor", made)}]

    assert changed() == changed(expected_outputs=[]) == []
    assert changed("other") == ["executorch-test-suite"]
    assert changed(inputs=[]) == ["executorch-test-suite"]
    assert changed(inputs=bundled([2], bytes(7))) == ["executorch-tensor"]
    assert changed(inputs=bundled([2], bytes(2), 9)) == ["executorch-tensor"]
    assert changed(inputs=bundled([2], bytes(2), BYTE)) == []


def test_what_is_wrong_with_the_program_of_a_bundle_is_told():
    inner = program({**LINEAR, "execution_plan": [linear(chains=[])]}, LINEAR_DATA)
    (finding,) = verified(bundle(SUITES, inner)).findings
    assert (finding.rule, finding.record) == ("executorch-chain", "program/program")
    assert rules(bundle(SUITES, edited(inner, 8, b"eh01"))) == ["executorch-content"]
    assert rules(bundle(SUITES, b"short")) == ["executorch-content"]


def test_the_error_of_opening_is_the_finding():
    data = edited(FILES["linear.pte"](), 8, b"eh01")
    (finding,) = verified(data).findings
    assert (finding.rule, finding.offset) == ("executorch-head", 8)
    assert "Never run" in finding.hint


@pytest.mark.parametrize("seed", range(40, 60))
def test_damaged_files_are_verified_and_audited_without_a_crash(seed):
    for data in mutated(seed, 25):
        report = verified(data)
        assert report.verdict != "sound" or tsarchive.open(io.BytesIO(data)).tree()
        tsarchive.audit(io.BytesIO(data))


def audited(data):
    return tsarchive.audit(io.BytesIO(data))


def test_audit_lists_operators_by_what_they_can_do():
    operators = ["aten::add", "aten::save", "mylib::op", "executorch_prim::add", "aten::no_such"]
    made = with_plan(
        operators=[{"name": name, "overload": "out"} for name in operators],
        chains=instructions(*(kernel(i, 0, 2, 2) for i in range(len(operators)))),
    )
    report = audited(made)
    assert {use.operator: use.risk.value for use in report.operators} == {
        "aten::add": "compute", "aten::save": "files", "mylib::op": "foreign",
        "executorch_prim::add": "compute", "aten::no_such": "unknown",
    }  # fmt: skip
    assert {f.rule: f.severity for f in report.findings} == {
        "operator-files": "error", "operator-foreign": "info", "operator-unknown": "warning",
    }  # fmt: skip
    assert (report.kind, [e.function for e in report.entry_points]) == ("pte", ["forward"])


def test_audit_tells_of_delegates_data_files_and_paths():
    report = audited(FILES["state.pte"]())
    found = {(f.rule, f.severity.value, f.message) for f in report.findings}
    assert found == {
        ("program-delegate", "info", "step hands 32 bytes to the backend 'XnnpackBackend'"),
        ("program-delegate", "warning", "step hands 32 bytes to the backend 'MyBackend'"),
        ("program-data", "info", "it reads net.weight from a data file"),
        ("program-paths", "info", "it tells lines and paths of 1 source files of who exported it"),
    }


def test_audit_tells_of_programs_in_segments():
    elf = b"\x7fELF\2\1\1" + bytes(57)
    values = {**LINEAR, "segments": [*LINEAR["segments"], {"offset": 128, "size": len(elf)}]}
    report = audited(program(values, LINEAR_DATA.ljust(128, b"\0") + elf))
    (finding,) = [f for f in report.findings if f.rule == "record-native"]
    assert finding.record == "segments/1"
    assert [(p.record, p.format) for p in report.payloads] == [("segments/1", "ELF")]


def test_audit_of_what_cannot_be_opened_says_so():
    report = audited(edited(FILES["linear.pte"](), 8, b"eh01"))
    assert report.kind == "ExecuTorch program"
    assert not report.ok
    assert {f.rule for f in report.findings} == {"executorch-head", "file-kind"}


def test_audits_of_sound_fixtures():
    fine = {name for name in FILES if audited(FILES[name]()).ok}
    assert fine == set(FILES) - {"state.pte"}


def test_every_rule_of_an_audit_is_described():
    from tsarchive.auditing.sarif import RULES

    found = chain.from_iterable(audited(make()).findings for make in FILES.values())
    assert {f.rule for f in found if not f.rule.startswith("executorch-")} <= RULES.keys()


def test_numbers_are_no_bools():
    assert rules(with_value(0, number(1))) == []
