"""Expressions over symbols: the grammar, held against sympy, which made the texts."""

from __future__ import annotations

from fractions import Fraction

import hypothesis.strategies as st
import pytest
import sympy
from hypothesis import given, settings
from torch.utils._sympy import functions as torch_functions

from tests.support.suite import examples
from tests.support.symbols import MAX_BITS, evaluate
from tsarchive.errors import FormatError, LimitError
from tsarchive.formats.pt2.symbols import (
    MAX_DEPTH,
    MAX_TEXT,
    Number,
    Operation,
    Symbol,
    canonical,
    free_symbols,
    parse,
)

NAMES = ("s0", "s77", "u3")
SYMBOLS = {name: sympy.Symbol(name, positive=True, integer=True) for name in NAMES}

leaves = st.sampled_from(list(SYMBOLS.values())) | st.integers(1, 40).map(sympy.Integer)


def operations(inner):
    two = st.tuples(inner, inner)
    return st.one_of(
        two.map(lambda pair: pair[0] + pair[1]),
        two.map(lambda pair: pair[0] * pair[1]),
        two.map(lambda pair: pair[0] - 2 * pair[1]),
        inner.map(lambda one: one**2),
        inner.map(lambda one: one / 3),
        two.map(lambda pair: sympy.Max(*pair)),
        two.map(lambda pair: sympy.Min(*pair)),
        inner.map(sympy.Abs),
        inner.map(sympy.floor),
        inner.map(lambda one: sympy.ceiling(one / 2)),
    )


numbers = st.recursive(leaves, operations, max_leaves=8)
sizes = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: pair[0] + pair[1]),
        st.tuples(inner, inner).map(lambda pair: pair[0] * pair[1]),
        st.tuples(inner, st.integers(1, 9)).map(lambda pair: torch_functions.FloorDiv(*pair)),
        st.tuples(inner, st.integers(1, 9)).map(lambda pair: torch_functions.Mod(*pair)),
        st.tuples(inner, st.integers(1, 9)).map(lambda pair: torch_functions.PythonMod(*pair)),
        st.tuples(inner, st.integers(1, 9)).map(lambda pair: torch_functions.CeilDiv(*pair)),
        st.tuples(inner, inner).map(lambda pair: torch_functions.Max(*pair)),
    ),
    max_leaves=8,
)
values = st.fixed_dictionaries({name: st.integers(1, 50) for name in NAMES})


def substituted(expression, symbols):
    return expression.subs({SYMBOLS[name]: value for name, value in symbols.items()})


@settings(max_examples=examples(150))
@given(numbers | sizes, values)
def test_both_forms_of_a_text_mean_what_sympy_means(expression, symbols):
    found = substituted(expression, symbols)
    expected = Fraction(int(found.p), int(found.q))
    for text in (sympy.srepr(expression), str(expression)):
        assert evaluate(parse(text), symbols) == expected


@settings(max_examples=examples(150))
@given(numbers | sizes, values)
def test_an_expression_reads_back_as_it_is_shown(expression, symbols):
    found = parse(sympy.srepr(expression))
    assert canonical(parse(str(found))) == canonical(found)
    assert evaluate(canonical(found), symbols) == evaluate(found, symbols)
    assert free_symbols(found) == {symbol.name for symbol in expression.free_symbols}


@settings(max_examples=examples(100))
@given(sizes, sizes, st.sampled_from([sympy.Eq, sympy.Ne, sympy.Lt, sympy.Le, sympy.Gt]), values)
def test_conditions(one, other, relation, symbols):
    condition = sympy.And(relation(one, other), sympy.Not(relation(other, one)))
    expected = bool(substituted(condition, symbols))
    for text in (sympy.srepr(condition), str(condition)):
        assert evaluate(parse(text), symbols) is expected


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Add(Symbol('s77', positive=True, integer=True), Integer(1))", "s77 + 1"),
        ("2*s0", "2*s0"),
        ("Mul(Integer(-1), Symbol('s0'))", "-s0"),
        ("-(s0 + 1)", "-(s0 + 1)"),
        ("(s0//2)", "s0//2"),
        ("s0 - (s1 - 1)", "s0 - (s1 - 1)"),
        ("Eq(Mod(s0, 2), 0)", "Mod(s0, 2) == 0"),
        ("GreaterThan(Symbol('u0', integer=True), Integer(0))", "u0 >= 0"),
        ("(s0 > 1) & ~(s1 == 2)", "s0 > 1 and not s1 == 2"),
        ("Mul(Rational(1, 2), Symbol('s0'))", "1/2*s0"),
        ("Float('0.5', precision=53)", "0.5"),
        ("-int_oo", "-oo"),
        ("OpaqueUnaryFn_sqrt(Symbol('s0'))", "sqrt(s0)"),
        ("Symbol('zuf0')", "zuf0"),
    ],
)
def test_shown_as_people_write(text, shown):
    found = parse(text)
    assert str(found) == shown
    assert canonical(parse(str(found))) == canonical(found)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Where(3 > 2, 5, 6)", 5),
        ("CeilToInt(IntTrueDiv(7, 2))", 4),
        ("TruncToInt(-2.5)", -2),
        ("RoundToInt(2.5)", 2),
        ("RoundDecimal(ToFloat(1), 2)", 1.0),
        ("ModularIndexing(17, 3, 4)", 1),
        ("CleanDiv(12, 4)", 3),
        ("LShift(1, 4)", 16),
        ("RShift(17, 2)", 4),
        ("PowByNatural(2, 10)", 1024),
        ("FloatPow(2, 0.5)", 2**0.5),
        ("TruncToFloat(2.5)", 2.0),
        ("BitwiseFn_bitwise_and(6, 3)", 2),
        ("IsNonOverlappingAndDenseIndicator(2, 3, 3, 1)", 1),
        ("IsNonOverlappingAndDenseIndicator(2, 3, 4, 1)", 0),
        ("2**-1", Fraction(1, 2)),
        ("-2**2", -4),
        ("Identity(7) % 4", 3),
    ],
)
def test_values_of_functions(text, value):
    found = evaluate(parse(text), {})
    assert found == value
    assert type(found) is type(value)


HOSTILE = [
    "__import__('os').system('true')",
    "().__class__",
    "lambda: 1",
    "s0; s1",
    "s0 s1",
    "exec('1')",
    "Symbol('s0').subs(1)",
    'Symbol("s0")',
    "Symbol('a b')",
    "Symbol(7)",
    "Symbol('s0', 1)",
    "Symbol('s0', integer=exec('1'))",
    "Integer('7')",
    "Integer(s0)",
    "Rational(1, 0)",
    "1/0",
    "Mod(1)",
    "Not()",
    "1 < 2 < 3",
    "",
    "(",
    "1 +",
    "'text'",
    "[1]",
    "s0\x00",
    "\u00e9",
    "s0[0]",
    "sympify('1')",
    "(" * (MAX_DEPTH + 2) + "s0" + ")" * (MAX_DEPTH + 2),
    "-" * 5000 + "s0",
    "~" * 5000 + "s0",
    "s0" + "//s0" * 5000,
    "2**" * 5000 + "2",
    "Abs(" * 5000,
    "9" * 5000,
    "s0+" * MAX_TEXT + "s0",
    "Float('nan')",
    f"Float('{'9' * 4000}')",
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_texts_are_refused(text):
    with pytest.raises(FormatError):
        parse(text)


def test_refusals_name_the_function():
    with pytest.raises(FormatError, match="names 'evil'"):
        parse("evil(1)")


@pytest.mark.parametrize(
    "text", ["9**9**9**9", f"2**{MAX_BITS + 1}", "LShift(1, 99999999)", "(7**5000)*(7**5000)"]
)
def test_huge_numbers_are_refused_before_they_are_made(text):
    with pytest.raises(LimitError):
        evaluate(parse(text), {})


@pytest.mark.parametrize(
    "text", ["Mod(1, 0)", "s9", "sqrt(-1)", "exp(10**9)", "(-1)**0.5", "oo//1"]
)
def test_what_has_no_value(text):
    with pytest.raises(FormatError):
        evaluate(parse(text), {})


def test_a_long_sum_is_one_level():
    found = parse(" + ".join(["s0"] * 2000))
    assert isinstance(found, Operation)
    assert found.depth == 2
    assert evaluate(found, {"s0": 2}) == 4000


def test_kinds_of_numbers_differ():
    assert Number(1) != Number(True) != Number(1.0)
    assert parse("Symbol('s0', integer=True)") == parse("s0") == Symbol("s0")
