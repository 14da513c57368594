"""Operators of ExecuTorch on numbers: they divide, round and overflow as the runtime does."""

from __future__ import annotations

import math

import pytest

import tsarchive.formats.executorch.modules.natives  # noqa: F401  # importing them enters them into the table
from tsarchive.errors import ScriptError
from tsarchive.run.natives import NATIVES

MOST = (1 << 63) - 1


def run(name, *operands):
    return NATIVES[f"executorch_prim::{name}"](*operands)


@pytest.mark.parametrize(
    ("name", "operands", "expected"),
    [
        ("add.Scalar", (2, 3), 5),
        ("add.Scalar", (2, 0.5), 2.5),
        ("add.Scalar", (MOST, 1), -MOST - 1),
        ("mul.Scalar", (MOST, 2), -2),
        ("neg.Scalar", (-MOST - 1,), -MOST - 1),
        ("floordiv.Scalar", (-7, 2), -4),
        ("floordiv.Scalar", (7, -2), -4),
        ("floordiv.Scalar", (-7.0, 2), -4.0),
        ("floordiv.int", (-7, 2), -3),
        ("floordiv.int", (7, -2), -3),
        ("floordiv.int", (-7, -2), 3),
        ("mod.Scalar", (-7, 3), -1),
        ("mod.int", (7, -3), 1),
        ("mod.int", (-7, -3), -1),
        ("truediv.Scalar", (1, 4), 0.25),
        ("truediv.Scalar", (1, 0), math.inf),
        ("truediv.Scalar", (-1, 0), -math.inf),
        ("truediv.Scalar", (1, -0.0), -math.inf),
        ("round.Scalar", (0.5,), 0),
        ("round.Scalar", (1.5,), 2),
        ("round.Scalar", (-2.5,), -2),
        ("ceil.Scalar", (1.2,), 2),
        ("ceil.Scalar", (-1.2,), -1),
        ("trunc.Scalar", (-1.9,), -1),
        ("sym_int.Scalar", (2.9,), 2),
        ("sym_int.Scalar", (3,), 3),
        ("sym_float.Scalar", (3,), 3.0),
        ("sym_max.Scalar", (2, 3), 3),
        ("sym_min.Scalar", (2, 3), 2),
        ("sym_not.Scalar", (False,), True),
        ("sym_ite.Scalar", (False, 1, 2), 2),
        ("ne.Scalar", (1, 1.0), False),
        ("le.Scalar", (1, 1.0), True),
    ],
)
def test_results(name, operands, expected):
    found = run(name, *operands)
    assert (found, type(found)) == (expected, type(expected))


def test_no_number():
    assert math.isnan(run("truediv.Scalar", 0, 0))


@pytest.mark.parametrize(
    ("name", "operands"),
    [
        ("floordiv.Scalar", (1, 0)),
        ("floordiv.int", (1, 0)),
        ("mod.int", (1, 0)),
        ("mod.Scalar", (1, 0)),
        ("ceil.Scalar", (math.inf,)),
        ("round.Scalar", (math.nan,)),
        ("trunc.Scalar", (1e30,)),
        ("sym_int.Scalar", (math.nan,)),
    ],
)
def test_what_has_no_result(name, operands):
    with pytest.raises(ScriptError):
        run(name, *operands)
