"""Every schema that torch had once: today's operators take its calls, a function stands for it, or
it is refused with a reason."""

from __future__ import annotations

import io
import re
import zipfile
from functools import cache

import pytest
import torch

from tests.support.archives import ROOT, torch_saved
from tests.support.frontend import importer_of, walk
from tsarchive.frontend.matching import Call
from tsarchive.frontend.references import Typed
from tsarchive.ir.graph import Node, Value
from tsarchive.operators.overloads import old_overloads_of, overloads_of
from tsarchive.operators.registry import listed_versions, operator_names, versions_of
from tsarchive.operators.removed import RECORD, TRIED_FIRST, last_torch_with, removed, text
from tsarchive.operators.risks import Bound, row_of
from tsarchive.operators.upgraders import candidates

NEWEST = listed_versions()[-1]
NAMES = list(operator_names())
FUNCTIONS = re.findall(r"^def (\w+)\(([^)]*)\) -> (.*):$", text(), re.MULTILINE)
QUALIFIER = "__torch__.removed_from_torch"
# Those of before torch 1.4, whose schemas the table has.
TABLE = (ROOT / "tsarchive" / "operators" / "removed.txt").read_text("ascii")
WRITTEN = dict.fromkeys(re.findall(r"^# \d\.\d (\w+::\w+)", TABLE, re.MULTILINE))

# Backends for phones have natives of their own.
ELSEWHERE = {"prepacked"}
# In archives of torch 1.4 and 1.5 packed weights were tensors; they are objects when they are read.
PACKED = {
    f"{namespace}::{name}"
    for namespace in ("quantized", "_quantized")
    for name in (
        "conv2d", "conv2d_relu", "conv2d_unpack", "conv3d", "conv3d_relu", "conv3d_unpack",
        "conv_unpack", "linear", "linear_dynamic", "linear_dynamic_fp16", "linear_relu",
        "linear_relu_dynamic",
    )
}  # fmt: skip
# The schema alone said that an element may be None.
OPTIONAL_ELEMENT = {"aten::append"}
# Today's overloads take the same arguments and give other results. No call tells which is meant,
# and no trace or script of these torches holds one.
WITH_OTHER_RESULTS = {
    "aten::_amp_update_scale", "aten::_assert_int_or_pair", "aten::_flash_attention_forward",
    "aten::_fused_moving_avg_obs_fq_helper.functional", "aten::_lstm_mps",
    "aten::_scaled_dot_product_flash_attention", "aten::_slow_conv2d_forward",
    "aten::choose_qparams_optimized", "aten::slow_conv3d_forward",
}  # fmt: skip


def call_of(schema):
    """A call that writes all arguments, of their own types."""

    def given(argument):
        return Typed(Value(Node("prim::Param"), argument.type), argument.type)

    positional = [given(argument) for argument in schema.arguments if not argument.kwarg_only]
    keywords = {a.name: given(a) for a in schema.arguments if a.kwarg_only}
    return Call(positional, keywords)


def is_taken(schema):
    """Whether an operator of the newest torch takes what the schema took, as it is."""
    newest = overloads_of(schema.name, NEWEST)
    for version in (None, 1):
        found = call_of(schema).select(candidates(newest, version))
        if isinstance(found, tuple):
            return schema.name in TRIED_FIRST or not _converts(found[1])
    return False


def _converts(match):
    return any(step.kind.startswith("aten::") for given in match.inputs for step in given.steps)


def entry_of(schema):
    return next((entry for entry in removed(schema.name) if entry.schema == schema), None)


@pytest.mark.parametrize("part", range(20))
def test_no_schema_of_any_torch_is_left_out(part):
    left = [
        schema.full_name
        for name in NAMES[part::20]
        for schema in old_overloads_of(name)
        if name.partition("::")[0] not in ELSEWHERE
        and name not in PACKED | OPTIONAL_ELEMENT
        and not is_taken(schema)
        and entry_of(schema) is None
    ]
    assert left == []


def test_each_entry_is_a_function_or_a_reason():
    entries = [entry for name in NAMES for entry in removed(name)]
    assert all((entry.upgrader is None) != (entry.refusal == "") for entry in entries)
    stands = [e.schema.full_name for e in entries if e.upgrader]
    assert len(set(stands)) > 250


@pytest.mark.parametrize("name", WRITTEN)
def test_schemas_of_before_torch_1_4_tell_their_last_torch(name):
    written = [entry.schema for entry in removed(name) if last_torch_with(entry.schema) < "1.4"]
    assert len(written) == len(re.findall(rf"^# \d\.\d {name}[.(]", TABLE, re.MULTILINE))


def test_results_are_of_the_number_that_they_were():
    others = {
        schema.full_name
        for name in NAMES
        for schema in old_overloads_of(name)
        if is_taken(schema) and entry_of(schema) is None and name not in PACKED
        if not schema.is_vararg and not _same_count(schema)
    }
    assert others <= WITH_OTHER_RESULTS


def _same_count(schema):
    counts = {len(new.returns) for new in overloads_of(schema.name, NEWEST)}
    return len(schema.returns) in counts


@cache
def importer():
    return importer_of({RECORD: text()})


def function_named(name):
    return importer().find(name).function


@pytest.mark.parametrize("name", [name for name, _, _ in FUNCTIONS])
def test_functions_are_read(name):
    assert function_named(f"{QUALIFIER}.{name}").graph.nodes is not None


UPGRADED = [name for name in (*NAMES, *WRITTEN) if any(e.upgrader for e in removed(name))]


@pytest.mark.parametrize("name", UPGRADED)
def test_functions_take_the_arguments_of_their_schemas(name):
    for entry in removed(name):
        if entry.upgrader is not None:
            given, taken = entry.schema, function_named(entry.upgrader).schema
            assert [a.name for a in taken.arguments] == [a.name for a in given.arguments]
            assert [a.type for a in taken.arguments] == [a.type for a in given.arguments]
            assert len(taken.returns) == 1
            assert taken.return_type == given.return_type


# Those of packed layers take classes that archives define: `converting/test_packed_layers.py`.
OF_TORCH = [
    (name, *types)
    for name, *types in FUNCTIONS
    if "prepacked" not in name and not any("torch.classes" in text for text in types)
]


def test_torch_jit_reads_the_functions():
    """Each is called by a method, so torch compiles it when it loads the archive."""
    data = torch_saved(torch.jit.script(torch.nn.Identity()))
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        root = old.namelist()[0].partition("/")[0]
        for name in old.namelist():
            if name.endswith("identity.py") or name.endswith("linear.py"):
                code = old.read(name).decode()
                new.writestr(name, code.rstrip() + "\n" + "".join(map(_method, OF_TORCH)))
            elif not name.endswith(".debug_pkl"):
                new.writestr(name, old.read(name))
        new.writestr(f"{root}/{RECORD}", text())
    module = torch.jit.load(io.BytesIO(out.getvalue()))
    assert {name for name, _, _ in OF_TORCH} <= set(module._c._method_names())


def _method(function):
    name, parameters, result = function
    given = ", ".join(f"p_{p}" for p in re.findall(r"(\w+): ", parameters))
    typed = re.sub(r"(\w+): ", r"p_\1: ", " ".join(parameters.split()))
    owner = "__torch__.torch.nn.modules.linear.Identity"
    head = f"  def {name}(self: {owner}{', ' if typed else ''}{typed}) -> {result}:\n"
    return f"{head}    return {QUALIFIER}.{name}({given})\n"


@cache
def reached(name):
    """The operators that a function calls, through others, too."""
    found = set()
    for node in walk(function_named(name).graph):
        if node.kind == "prim::CallFunction":
            found |= reached(node.inputs[0].type.function.qualified_name)
        elif node.schema is not None:
            found.add(node.schema.full_name)
    return found


GONE = [name for name in UPGRADED if NEWEST not in versions_of(name)]


@pytest.mark.parametrize("name", GONE)
def test_rows_allow_what_is_made_of_allowed_operators(name):
    functions = [entry.upgrader for entry in removed(name) if entry.upgrader]
    called = [row_of(operator) for function in functions for operator in reached(function)]
    is_refused = any(row.is_refused for row in called)
    row = row_of(name)
    assert row.is_refused == is_refused
    if not is_refused and name not in ("aten::cholesky", "aten::qr"):  # which torch 2.13 has
        assert row.bound is Bound.COMPOSITE
        worst = {r.risk for r in called} - {row_of("aten::add").risk}
        assert row.risk in (worst or {row_of("aten::add").risk})


def test_none_is_told_to_be_newer_than_the_table():
    newer = [name for name in NAMES if "newer than this table" in row_of(name).reason]
    assert newer == []


def test_operators_that_are_tried_first_are_those_that_today_s_refuse_to_run():
    converted = {
        schema.name
        for name in NAMES
        for schema in old_overloads_of(name)
        if (entry := entry_of(schema)) is not None and entry.upgrader and _is_converted(schema)
    }
    assert converted | {"aten::istft", "aten::stft"} == TRIED_FIRST


def _is_converted(schema):
    if NEWEST not in versions_of(schema.name):
        return False
    found = call_of(schema).select(candidates(overloads_of(schema.name, NEWEST), None))
    return isinstance(found, tuple) and _converts(found[1])


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("aten::align_to", "by its name"),
        ("aten::sum", "by its name"),
        ("aten::set_quantizer_", "code of archives cannot hold"),
        ("prim::profile_optional", "optimizer"),
        ("_caffe2::RoIAlign", "Caffe2"),
    ],
)
def test_reasons(name, reason):
    assert any(reason in entry.refusal for entry in removed(name))
