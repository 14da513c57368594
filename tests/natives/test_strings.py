"""Natives of strings against torch, byte for byte, with strings that are not ASCII or not UTF-8."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.natives.oracle import argument_types, check_script, natives_of_torch, schemas
from tests.support.suite import examples
from tsarchive.errors import ScriptError
from tsarchive.run.natives import NATIVES
from tsarchive.run.natives.strings import decode, encode, normalized

TEXTS = (
    "",
    "a",
    "abcabc",
    "Hello wOrld 9",
    "12",
    " \t x\x0b\n",
    "ab\r\ncd\ne",
    "é",
    "aéb\u2028ç \udcff",
    "a_b-Z~",
)
PARTS = ("", "a", "bc", "é", "\udca9", " ", "abcabcabc")
POSITIONS = (0, 1, -1, -3, 4, 100)
POOLS = {"str": TEXTS, "int": POSITIONS, "bool": (False, True)}


def pools(key):
    """Values for the arguments: any text first, shorter ones to look for, positions."""
    kinds = argument_types(key)
    first = POOLS.get(kinds[0], ())
    return [first, *(PARTS if kind == "str" else POOLS.get(kind, ()) for kind in kinds[1:])]


OWN_CALLS = {
    "aten::join": [
        (separator, list(values))
        for separator in ("", "-", "\udcc3")
        for values in (("a",), ("", "b"), ("\udca9", "\udca9", "é"))
    ],
    "aten::slice.str": [
        *itertools.product(
            ("", "abcdé"), (None, 0, 2, -2, 9), (None, 0, 3, -1, 2**63 - 1), (1, 2, -1, -3, 0)
        ),
        ("abc", 0, 1, -(2**63)),
    ],
    "aten::split.str": [
        *itertools.product(TEXTS, (None, "", " ", "b", "bc", "é"), (-1, 0, 1, -5)),
    ],
    "aten::center": [*itertools.product(TEXTS, (0, 5, 8, 9), ("*", " ", "", "é"))],
    "aten::replace": [
        *itertools.product(TEXTS, ("a", "bc", "é"), ("", "X", "é"), (-1, 0, 1, -4)),
        *itertools.product(TEXTS, ("",), ("", "XY"), (0, 2)),
    ],
    "aten::rsplit": [*itertools.product(TEXTS, PARTS[1:], (-1, 0, 1, -5))],
    "aten::count": [*itertools.product(TEXTS, PARTS[1:], POSITIONS, POSITIONS), ("ab", "", 5, -1)],
    "aten::Float.str": [
        (text,)
        for text in (
            *("1", "-1.5e3", ".5", "5.", "1e", " 1", "1 ", "+2", "--2", "", "x", "1_0", "1x"),
            *("inf", "-Infinity", "infin", "nan", "-NAN", "nan(1_a)", "nan(", "1e400", "-1e400"),
            *("1e-400", "1e-310", "0e-999", "0.0", "-0", "0x1p3", "0X.8", "0x", "0x1p", "0x1.8p-1"),
            *("0x1p2000", "0x0p-5000", "1e5f", "\t\v\f\r\n7", "2.2250738585072014e-308"),
        )
    ],
    "aten::Int.str": [
        (text,)
        for text in (
            *("5", " 5", "+5", "-0", "5x", "5 ", "", "x", "0x10", "1_0", "\n7", "- 1", "007"),
            *("9223372036854775807", "9223372036854775808", "-9223372036854775808", "1.0", "é"),
        )
    ],
}
STRING_OPERATORS = sorted(
    key
    for key in natives_of_torch()
    if (kinds := argument_types(key))
    and kinds[0] == "str"
    and key
    not in (
        "aten::device",
        "aten::device.with_index",
        "aten::format",
        "aten::percentFormat",
        "aten::warn",
        "prim::RaiseException",
    )
)


def result_type(key):
    types = [str(result.type) for result in schemas()[key].returns]
    return types[0] if len(types) == 1 else f"Tuple[{', '.join(types)}]"


@pytest.mark.parametrize("key", STRING_OPERATORS)
def test_equals_torch(key):
    for call in OWN_CALLS.get(key) or itertools.product(*pools(key)):
        check_script(key, *call, result=result_type(key))


@given(st.binary())
def test_every_byte_string_has_one_text(data):
    text = decode(data)
    assert encode(text) == data
    assert normalized(text) == text


@given(st.binary(max_size=6), st.binary(max_size=6))
def test_joined_bytes_have_the_same_text_as_whole_ones(a, b):
    assert NATIVES["aten::add.str"](decode(a), decode(b)) == decode(a + b)
    assert NATIVES["aten::join"]("", [decode(a), decode(b)]) == decode(a + b)


BYTES = st.text(st.sampled_from("aAbé \t\n-9\udcff"), max_size=8)
POSITION = st.integers(-12, 12)
OF_TEXTS = sorted(set(STRING_OPERATORS) - set(OWN_CALLS))


@settings(max_examples=examples(300))
@given(st.sampled_from(OF_TEXTS), BYTES, BYTES, POSITION, POSITION)
def test_equals_torch_on_any_text(key, text, part, first, second):
    kinds = argument_types(key)
    texts, positions = iter((text, part)), iter((first, second))
    call = [next(texts if kind == "str" else positions) for kind in kinds]
    call = [bool(v) if kind == "bool" else v for v, kind in zip(call, kinds, strict=True)]
    check_script(key, *call, result=result_type(key))


@pytest.mark.parametrize(
    ("key", "arguments", "message"),
    [
        ("aten::count", ("ab", "", 0, -1), "the empty string cannot be counted"),
        ("aten::replace", ("ab", "", "x", -1), "needs a maximum count"),
        ("aten::rsplit", ("ab", "", -1), "ValueError: empty separator"),
    ],
)
def test_searches_that_torch_never_ends_raise(key, arguments, message):
    with pytest.raises(ScriptError, match=message):
        NATIVES[key](*arguments)


def test_padding_to_less_than_nothing():
    """torch asks for 2**64 bytes of memory here."""
    assert NATIVES["aten::center"]("ab", -1, " ") == "ab"
