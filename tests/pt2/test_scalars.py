"""Functions of Python on sizes, as a program names them: what stands for them does the same."""

from __future__ import annotations

import itertools
import math
import operator

import pytest
import torch
from torch._export.serde import serialize

import tsarchive
from tests.support.pt2_running import argument, graph_of, module_of
from tsarchive.errors import FormatError
from tsarchive.formats.pt2.scalars import SCALARS

TAGS = {int: "as_sym_int", float: "as_sym_float", bool: "as_sym_bool"}
INTS = (-7, -2, -1, 0, 1, 3, 10)
FLOATS = (-2.5, -1.0, 0.5, 3.0)
BOOLS = (False, True)
PAIRS = [*itertools.product(INTS, INTS), *itertools.product(FLOATS, INTS + FLOATS)]
PAIRS += itertools.product(INTS, FLOATS)
INT_PAIRS = list(itertools.product(INTS, INTS))
ARITHMETIC = {
    "add": PAIRS, "sub": PAIRS, "mul": PAIRS, "truediv": PAIRS, "floordiv": PAIRS, "mod": PAIRS,
    "eq": PAIRS, "ne": PAIRS, "lt": PAIRS, "le": PAIRS, "gt": PAIRS, "ge": PAIRS,
    "and_": INT_PAIRS + list(itertools.product(BOOLS, BOOLS)),
    "or_": INT_PAIRS + list(itertools.product(BOOLS, BOOLS)),
    "lshift": list(itertools.product(INTS, (0, 1, 5))),
    "rshift": list(itertools.product(INTS, (0, 1, 5))),
    "pow": [*itertools.product(INTS, (0, 1, 2, 3, 5)), *itertools.product(FLOATS, (0, 1, 2, 3.0))],
    "neg": [(x,) for x in INTS + FLOATS], "pos": [(x,) for x in INTS + FLOATS],
}  # fmt: skip
ROWS = [(f"_operator.{name}", getattr(operator, name), rows) for name, rows in ARITHMETIC.items()]
ROWS += [
    ("math.ceil", math.ceil, [(x,) for x in INTS + FLOATS]),
    ("math.floor", math.floor, [(x,) for x in INTS + FLOATS]),
    ("math.trunc", math.trunc, [(x,) for x in INTS + FLOATS]),
    ("torch.sym_float", torch.sym_float, [(x,) for x in INTS + FLOATS]),
    ("torch.sym_int", torch.sym_int, [(x,) for x in INTS + FLOATS]),
    ("torch.sym_ite", torch.sym_ite, [(c, a, a + 1) for c in BOOLS for a in (3, 2.5)]),
    ("torch.sym_max", torch.sym_max, PAIRS),
    ("torch.sym_min", torch.sym_min, PAIRS),
    ("torch.sym_not", torch.sym_not, [(x,) for x in BOOLS]),
    ("torch.sym_sqrt", torch.sym_sqrt, [(x,) for x in (0, 2, 9, 0.25)]),
    ("torch._sym_sqrt", torch._sym_sqrt, [(x,) for x in (0, 2, 9, 0.25)]),
]


def outcome(call, *given):
    try:
        return call(*given)
    except ZeroDivisionError:
        return ZeroDivisionError


def kinds(rows):
    """Rows by the types of what they give and of the result."""
    found = {}
    for given, result in rows:
        key = (*map(type, given), type(result))
        found.setdefault(key, []).append((given, result))
    return found


def graph_for(target, types, result):
    names = {f"x{position}": TAGS[type_] for position, type_ in enumerate(types)}
    given = [argument(tag, name) for name, tag in names.items()]
    output = argument(TAGS[result], "made")
    return graph_of(names, [(target, given, [output])], [output])


@pytest.mark.parametrize(("target", "python", "rows"), ROWS, ids=[row[0] for row in ROWS])
def test_numbers_are_those_of_python(target, python, rows):
    results = [(given, outcome(python, *given)) for given in rows]
    usable = [(given, result) for given, result in results if type(result) in TAGS]
    assert usable
    for (*types, result), cases in kinds(usable).items():
        module = module_of(graph_for(target, types, result))
        for given, expected in cases:
            (found,) = module(*given)
            assert (type(found), found) == (type(expected), expected), given


@pytest.mark.parametrize("name", ["truediv", "floordiv", "mod"])
@pytest.mark.parametrize("types", [(int, int), (float, int), (int, float), (float, float)])
def test_nothing_is_divided_by_zero(name, types):
    result = float if name == "truediv" or float in types else int
    module = module_of(graph_for(f"_operator.{name}", types, result))
    with pytest.raises(tsarchive.ArchiveError, match="division by zero"):
        module(*(type_(number) for type_, number in zip(types, (3, 0), strict=True)))


@pytest.mark.parametrize("type_", [int, float])
def test_negative_numbers_have_no_square_root(type_):
    with pytest.raises(tsarchive.ArchiveError, match="square root"):
        module_of(graph_for("torch._sym_sqrt", (type_,), float))(type_(-1))


def test_an_int_has_no_negative_powers():
    module = module_of(graph_for("_operator.pow", (int, int), int))
    with pytest.raises(tsarchive.ArchiveError, match="negative power"):
        module(3, -1)


@pytest.mark.parametrize("exponent", [0, 1, 2, 7, 12, 39])
def test_powers_are_exact(exponent):
    output = argument("as_sym_int", "made")
    given = [argument("as_sym_int", "x"), {"as_int": exponent}]
    module = module_of(
        graph_of({"x": "as_sym_int"}, [("_operator.pow", given, [output])], [output])
    )
    assert module(3) == (3**exponent,)
    assert module(-3) == ((-3) ** exponent,)


def test_a_sum_is_that_of_all():
    output = argument("as_sym_int", "made")
    given = [{"as_sym_ints": [{"as_name": "x"}, {"as_int": 5}, {"as_name": "x"}]}]
    graph = graph_of({"x": "as_sym_int"}, [("torch.sym_sum", given, [output])], [output])
    assert module_of(graph)(4) == (13,)


@pytest.mark.skipif(
    not hasattr(serialize, "_SYM_OPS"), reason="torch 2.7 and older do not list what they write"
)
def test_every_function_that_torch_writes_has_a_row():
    written = {f"{call.__module__}.{call.__name__}" for call in serialize._SYM_OPS}
    assert written <= SCALARS.keys()


@pytest.mark.parametrize(
    ("target", "count", "message"),
    [
        ("_operator.add", 1, "takes 2 numbers, not 1"),
        ("_operator.neg", 2, "takes 1 numbers, not 2"),
        ("torch.sym_ite", 2, "takes 3 numbers, not 2"),
    ],
)
def test_other_counts_of_numbers_are_refused(target, count, message):
    with pytest.raises(FormatError, match=message):
        module_of(graph_for(target, [int] * count, int))


def test_tensors_are_no_numbers():
    output = argument("as_sym_int", "made")
    given = [argument("as_tensor", "x"), {"as_int": 1}]
    graph = graph_of({"x": "as_tensor"}, [("_operator.add", given, [output])], [output])
    with pytest.raises(FormatError, match="takes numbers, not a Tensor"):
        module_of(graph)


def test_the_result_is_a_number():
    output = argument("as_tensor", "made")
    graph = graph_of({}, [("_operator.add", [{"as_int": 1}, {"as_int": 1}], [output])], [output])
    with pytest.raises(FormatError, match="its result is one number"):
        module_of(graph)
