"""Operators as syntax in generated source: each form against the native that it stands for."""

from __future__ import annotations

import itertools
import math
import re
import string

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.support.running import Graph, check_same, constant, operator, ours, scripted, source
from tsarchive.adopt.torch_jit import adopt_function
from tsarchive.errors import ScriptError
from tsarchive.ir.graph import Value
from tsarchive.ir.types import INT, annotation
from tsarchive.operators.python_forms import (
    EXACT_FORMS,
    EXACT_STATEMENTS,
    RANGED,
    RANGES,
    exact_form,
)
from tsarchive.policy import NO_LIMITS, Guard, Limits, Policy
from tsarchive.run.classes import Classes
from tsarchive.run.expressions import HELPERS
from tsarchive.run.linkage import source_of
from tsarchive.run.natives import NATIVES
from tsarchive.run.natives.conversions import INT64_MAX, INT64_MIN
from tsarchive.run.operators import operator_schemas

INTS = [0, 1, -1, 2, 7, -7, 63, 64, 2**31, 2**53 + 1, -(2**62), 2**62, INT64_MAX, INT64_MIN]
FLOATS = [0.0, -0.0, 1.5, -2.5, 1e308, 5e-324, 2.0**53, 2.0**63, math.inf, -math.inf, math.nan]
EDGES = {
    "int": INTS,
    "float": FLOATS,
    "bool": [True, False],
    "str": ["", "a", "ab", "é", "\udcc3"],
    "List[t]": [[], [1], [1, 2, 3]],
    "List[int]": [[], [1], [7, 0, INT64_MIN]],
    "List[str]": [[], ["a"], ["", "é", "\udcc3"]],
    "t": [5],
    "Dict[str, t]": [{}, {"a": 1, "é": 2}],
    "Dict[int, t]": [{}, {0: 1, -7: 2}],
    "Dict[bool, t]": [{}, {True: 1}],
    # ``unchecked_cast`` brings others than the schema says.
    "Tensor": [torch.ones(2), torch.nn.Parameter(torch.ones(2)), torch.nn.Buffer(), 1, None],
    "Device": [torch.device("cpu"), "cpu", 1],
}
TABLES = {**EXACT_FORMS, **EXACT_STATEMENTS}
KEYS = sorted({*TABLES, *RANGED})
UNTESTED = {"aten::eq.device", "aten::ne.device", "aten::eq.enum", "aten::ne.enum"}


def schema_of(key):
    (found,) = (s for s in operator_schemas(key.partition(".")[0]) if s.full_name == key)
    return found


def form_for(key):
    """The form of operands about which nothing is known."""
    count = len(schema_of(key).arguments)
    return TABLES.get(key) or exact_form(key, [(INT64_MIN, INT64_MAX)] * count, "wide")


def edges_of(key):
    types = [annotation(argument.type) for argument in schema_of(key).arguments]
    return itertools.product(*(EDGES[type_] for type_ in types))


def by_form(form, key, arguments):
    names = {name: HELPERS.get(name, NATIVES[key]) for name in form.names}
    operands = {f"a{position}": value for position, value in enumerate(arguments)}
    text = form.text.format(*operands, **{name: name for name in names})
    scope = {**names, **operands}
    if key in EXACT_STATEMENTS:
        exec(text, scope)
        return None
    return eval(text, scope)


def outcome(run, *arguments):
    given = [value.copy() if isinstance(value, (list, dict)) else value for value in arguments]
    try:
        result = run(*given)
    except Exception as error:
        shown = str(error).replace("assignment ", "")
        return type(error).__mro__[-4:], shown
    return repr(result), given


def check(form, key, arguments):
    def native(*given):
        result = NATIVES[key](*given)
        return None if key in EXACT_STATEMENTS else result

    kind, expected = outcome(native, *arguments)
    found_kind, found = outcome(lambda *given: by_form(form, key, given), *arguments)
    assert found == expected, (key, arguments)
    if isinstance(kind, str):
        assert found_kind == kind, (key, arguments)


@pytest.mark.parametrize("key", sorted(TABLES.keys() - UNTESTED))
def test_forms_do_what_the_native_does(key):
    for arguments in edges_of(key):
        check(TABLES[key], key, arguments)


@pytest.mark.parametrize("key", sorted(RANGED))
@pytest.mark.parametrize("is_known", [True, False])
def test_forms_of_ints_by_ranges(key, is_known):
    """With the operands known exactly, and with nothing known about them."""
    for arguments in edges_of(key):
        ranges = [(a, a) if is_known else (INT64_MIN, INT64_MAX) for a in arguments]
        form = exact_form(key, ranges, "wide")
        check(form, key, arguments)
        if is_known and form.text != EXACT_FORMS.get(key, form).text:
            low, high = form.range
            assert low <= NATIVES[key](*arguments) <= high


bounds = st.sampled_from(INTS) | st.integers(INT64_MIN, INT64_MAX) | st.integers(-9, 9)


@given(st.sampled_from(sorted(RANGED)), st.data())
def test_ranges_hold_the_results(key, data):
    arguments, ranges = [], []
    for _ in schema_of(key).arguments:
        low, value, high = sorted(data.draw(st.tuples(bounds, bounds, bounds)))
        arguments.append(value)
        ranges.append((low, high))
    form = exact_form(key, ranges, "wide")
    check(form, key, arguments)
    if key not in EXACT_FORMS or form is not EXACT_FORMS[key]:
        assert form.range[0] <= NATIVES[key](*arguments) <= form.range[1]


@pytest.mark.parametrize("key", KEYS)
def test_rows_name_natives_and_their_operands(key):
    count = len(schema_of(key).arguments)
    form = form_for(key)
    fields = {name for _, name, _, _ in string.Formatter().parse(form.text) if name}
    assert key in NATIVES
    assert {name for name in fields if name.isdigit()} <= {str(i) for i in range(count)}
    assert {name for name in fields if not name.isdigit()} == set(form.names)


@pytest.mark.parametrize("key", sorted(RANGES))
def test_ranges_are_of_operators_that_give_ints(key):
    assert schema_of(key).return_type == INT


def test_no_form_names_an_attribute():
    """Values may be of other types than the code says: nothing asks these for a member."""
    tested = r"\(\{0\}\.\w+ if \{type\}\(\{0\}\) (in \{tensors\}|is \{device\}) else "
    for key in KEYS:
        assert "}." not in re.sub(tested, "", form_for(key).text), key


def compiled(text, limits=NO_LIMITS):
    """The generated function for TorchScript source."""
    classes = Classes(guard=Guard(Policy.trusted(), limits))
    return classes.compiler.function(adopt_function(scripted(text + "\n"))).compile()


FUNCTIONS = [
    "def f(n: int):\n    s = 0\n    for i in range(n):\n        s = s * 31 + i\n    return s",
    "def f(n: int):\n    s = n\n    while s > 1 and s < 1000:\n"
    "        s = s // 2 if s % 2 == 0 else 3 * s + 1\n    return s",
    "def f(n: int):\n    a, b = 0, 1\n    for i in range(n):\n        a, b = b, a + b\n"
    "    return a",
    "def f(n: int):\n    x = [1, 2, 3]\n    x[n] = 5\n    return x",
    "def f(n: int):\n    x = [1, 2, 3]\n    return x[n] + x[-n]",
    "def f(n: int):\n    d = {1: 2}\n    d[n] = 4\n"
    "    return d[3] if n in d and 3 in d else d[n + 1]",
    "def f(n: int):\n    return (n / 3, n % 5, divmod(7, n), float(n) / 0.0)",
    "def f(n: int):\n    return (n > 1 and n < 5) or (not n == 7 and n != 3)",
    "def f(n: int):\n    return min(n, 3) + max(n * n, 2) - abs(n - 4) + (n >> 3)",
    "def f(n: int):\n    t = 0\n    for i in range(n, 9, 2):\n        for j in range(i):\n"
    "            t += i * j\n            if t > 50:\n                break\n    return t",
    "def f(n: int):\n    s = ''\n    for i in range(n):\n"
    "        s += 'a' if i % 2 == 0 else '{}-{}'.format(i, s)\n    return s",
    "def f(n: int):\n    a = n + 1\n    n = n * 2\n    return a - n, a == n, n",
]


@pytest.mark.parametrize("text", FUNCTIONS)
def test_functions_give_what_torch_gives(text):
    theirs = scripted(text + "\n")
    for n in (0, 1, 2, 3, 4, 7, 12, -1, -3, -4):
        check_same(theirs, ours(theirs), n)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def f(n: int):\n    return [1][n]", "list index out of range"),
        ("def f(n: int):\n    x = [1]\n    x[n] = 2\n    return x", "list index out of range"),
        ("def f(n: int):\n    return {1: 2}[n]", "KeyError: 3"),
        ("def f(n: int):\n    return 1 // (n - 3)", "division by 0"),
        ("def f(n: int):\n    return 1 % (n - 3)", "integer modulo by zero"),
    ],
)
def test_errors_are_those_of_the_natives(text, message):
    with pytest.raises(ScriptError) as caught:
        ours(scripted(text + "\n"))(3)
    assert str(caught.value) == message
    assert isinstance(caught.value, (IndexError, KeyError, ZeroDivisionError))


def added(count):
    """``x + 1 + 1 ...``, each sum used once."""
    graph = Graph()
    total: Value = graph.param(INT, "x")
    for _ in range(count):
        total = operator(graph.block, "aten::sub.int", total, constant(graph.block, 1, INT))
    return graph.function(total)


def test_ints_wrap_wherever_they_may_leave_64_bits():
    run = Classes().compiler.function(added(3)).compile()
    assert run(INT64_MIN + 2) == INT64_MAX
    assert run(0) == -3


def test_lengths_and_turns_need_no_wrapping():
    text = (
        "def f(x: List[int]):\n    s = 0\n    for i in range(len(x) - 1):\n        s = x[i + 1]\n"
    )
    assert "wrap" not in source_of(compiled(text + "    return s"))


def test_what_is_used_once_stands_where_it_is_used():
    graph = Graph()
    x, y = graph.param(INT, "x"), graph.param(INT, "y")
    one = operator(graph.block, "aten::eq.int", x, y)
    two = operator(graph.block, "aten::lt.int", x, y)
    text = source(graph.function(operator(graph.block, "aten::__or__.bool", one, two)))
    assert text == "def by_hand(x, y):\n    return (x == y) | (x < y)\n"


def test_code_with_limits_pays_for_what_it_makes():
    text = "def f(n: int):\n    x = [n]\n    x.append(n + 1)\n    return x[0] < 5"
    shown = source_of(compiled(text, Limits(nbytes=10**6, steps=1000)))
    assert "aten_append_t(" in shown
    assert "getitem < 5" in shown


@pytest.mark.parametrize("key", ["aten::len.str", "aten::ord", "aten::__getitem__.str"])
@pytest.mark.parametrize("value", [["a"], b"a", 1, None, {"a": 1}])
def test_forms_of_strings_leave_other_values_to_the_native(key, value):
    """``unchecked_cast`` calls anything a string."""
    count = len(schema_of(key).arguments)
    check(TABLES[key], key, (value, 0)[:count])


def test_text_methods_do_what_those_of_bytes_do():
    """torch counts letters of ASCII alone, and sees bytes."""
    every = [chr(code) for code in range(128)]
    texts = ["", *every, "".join(every), "Ab cD 1e", "éa", "\udcc3A", " é\t"]
    for name in ("lower", "upper", "title", "isalpha", "isalnum", "isdigit", "istitle"):
        of_bytes = getattr(bytes, name)
        for text in texts:
            expected = of_bytes(text.encode("utf-8", "surrogateescape"))
            if isinstance(expected, bytes):
                expected = expected.decode("utf-8", "surrogateescape")
            assert NATIVES[f"aten::{name}"](text) == expected, (name, text)
