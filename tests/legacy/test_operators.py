"""The tables of what operators were before torch 1.3 fit the operators of today."""

from __future__ import annotations

import pytest

from tests.support.frontend import importer_of
from tsarchive.formats.legacy.inspection import OLD_NAMES
from tsarchive.ir.types import BOOL, TENSOR
from tsarchive.operators.upgraders import (
    DTYPES,
    FLAGS,
    FUNCTIONS_OF_1_0,
    FUNCTIONS_OF_1_1,
    MASKS,
    RECORD,
    TEXT,
    UPGRADERS,
)
from tsarchive.run.operators import operator_schemas


@pytest.mark.parametrize("old", OLD_NAMES)
def test_renamed_operators_have_their_new_name_only(old):
    assert operator_schemas(OLD_NAMES[old])
    assert not operator_schemas(old)


@pytest.mark.parametrize("kind", DTYPES)
def test_operators_with_a_default_dtype_take_one(kind):
    assert any("dtype" in [a.name for a in s.arguments] for s in operator_schemas(kind))


@pytest.mark.parametrize("kind", MASKS)
def test_masks_are_tensors(kind):
    masks = {s.arguments[MASKS[kind]] for s in operator_schemas(kind)}
    assert {(mask.name, mask.type) for mask in masks} <= {("mask", TENSOR), ("condition", TENSOR)}


@pytest.mark.parametrize("kind", FLAGS)
def test_flags_stand_after_the_other_arguments(kind):
    schema = operator_schemas(kind)[0]
    flag = schema.arguments[FLAGS[kind]]
    assert (flag.name, flag.type) == ("align_corners", BOOL)
    assert len(schema.arguments) == FLAGS[kind] + 1


def test_functions_stand_for_old_operators():
    upgraders = {entry.upgrader for entry in UPGRADERS.values()}
    overloads = {
        s.full_name: s for n in ("pow", "ceil", "floor") for s in operator_schemas(f"aten::{n}")
    }
    assert set(FUNCTIONS_OF_1_1) - upgraders <= set(overloads)
    assert set(FUNCTIONS_OF_1_0) - set(FUNCTIONS_OF_1_1) == {"aten::cross"}
    importer = importer_of({RECORD.replace("libs/", "code/"): TEXT})
    for old, name in FUNCTIONS_OF_1_1.items():
        found = importer.find(name)
        assert found is not None
        returned = found.function.graph.returns[0].type
        assert (returned == TENSOR) == (old in upgraders)
        assert old in upgraders or returned != overloads[old].return_type
