"""Properties of the writer and the reader over unbounded inputs."""

import contextlib
import math
import pickle

from hypothesis import assume, given
from hypothesis import strategies as st

from tsarchive.errors import PickleError
from tsarchive.pickler import (
    Global,
    MarkedTuple,
    Memo,
    Memoised,
    Object,
    PersistentId,
    Reduce,
    dumps,
    loads,
)

TEXT = st.text(st.characters(codec="utf-8"))
INTS = st.integers(-(2**63), 2**63 - 1)
SCALARS = st.none() | st.booleans() | INTS | st.floats() | TEXT
KEYS = TEXT | INTS | st.tuples(TEXT, INTS)


def containers(values):
    return (
        st.lists(values) | st.dictionaries(KEYS, values) | st.lists(values, max_size=5).map(tuple)
    )


PLAIN = st.recursive(SCALARS, containers, max_leaves=30)

NAMES = st.builds(Global, st.sampled_from(["a", "__torch__.b"]), st.sampled_from(["C", "D"]))
MEMOS = st.sampled_from(Memo)


def nodes(values):
    return (
        containers(values)
        | st.builds(Object, NAMES, values, MEMOS)
        | st.builds(Object, NAMES, st.dictionaries(TEXT, values), MEMOS)
        | st.builds(Reduce, NAMES, st.lists(values, max_size=5).map(tuple), MEMOS)
        | st.builds(Reduce, NAMES, st.lists(values).map(MarkedTuple), MEMOS)
        | st.builds(Reduce, NAMES, values, MEMOS)
        | st.lists(values, max_size=5).map(lambda items: PersistentId(tuple(items)))
        | st.lists(values).map(Memoised)
        | st.lists(values, max_size=5).map(lambda items: [*items, *items])
    )


VALUES = st.recursive(SCALARS | NAMES | st.complex_numbers(), nodes, max_leaves=30)


def shape(value):
    """The value as nested tuples, as the reader gives it: complex numbers are Reduces."""
    if isinstance(value, Memoised):
        return shape(value.value)
    if isinstance(value, complex):
        return shape(Reduce(Global("builtins", "complex"), (value.real, value.imag)))
    if isinstance(value, float):
        return ("float", "nan") if math.isnan(value) else ("float", value.hex())
    if isinstance(value, tuple):
        return ("tuple", *map(shape, value))
    if isinstance(value, list):
        return ("list", *map(shape, value))
    if isinstance(value, dict):
        return ("dict", *((shape(key), shape(item)) for key, item in value.items()))
    if isinstance(value, Object):
        return ("object", value.cls, shape(value.state))
    if isinstance(value, Reduce):
        return ("reduce", value.function, shape(value.argument))
    if isinstance(value, PersistentId):
        return ("storage", shape(value.value))
    return (type(value).__name__, value)


@given(PLAIN)
def test_python_reads_plain_values_as_they_were(value):
    assert shape(pickle.loads(dumps(value))) == shape(value)


@given(PLAIN)
def test_what_python_writes_is_read_as_it_was(value):
    assume(not has_long(value))
    assert shape(loads(pickle.dumps(value, protocol=2))) == shape(value)


def has_long(value):
    """Python writes ints beyond 32 bits with as few bytes as they need; torch always with 8."""
    if isinstance(value, dict):
        return has_long([*value.keys(), *value.values()])
    if isinstance(value, (list, tuple)):
        return any(map(has_long, value))
    return isinstance(value, int) and not -(2**31) <= value < 2**31


@given(VALUES)
def test_round_trip(value):
    assert shape(loads(dumps(value))) == shape(value)


@given(VALUES)
def test_writing_what_was_read_says_the_same(value):
    once = loads(dumps(value))
    assert shape(loads(dumps(once))) == shape(once)


@given(VALUES)
def test_bytes_do_not_depend_on_who_holds_the_value(value):
    alone = dumps(value)
    holders = [value, [value], (value,)]
    assert dumps(holders[0]) == alone


@given(st.lists(st.sampled_from(range(4)), max_size=30))
def test_identity_survives(picks):
    """References to the same value come back as references to one value."""
    pool = [[1], {}, (1, 2), Object(Global("a", "b"), {})]
    read = loads(dumps([pool[pick] for pick in picks]))
    for left, first in enumerate(picks):
        for right, second in enumerate(picks):
            assert (read[left] is read[right]) == (first == second)


@given(st.binary())
def test_any_bytes_are_read_or_refused(data):
    for pickled in (data, b"\x80\x02" + data, b"\x80\x02" + data + b"."):
        with contextlib.suppress(PickleError):
            shape(loads(pickled))


OPCODE_BYTES = st.sampled_from([bytes((code,)) for code in b"()tNeua.]}lsdRQbq\x81\x85\x86\x87"])
MEMO_BYTES = st.sampled_from([b"h\x00", b"h\x01", b"q\x00", b"q\x01"])
ARGUED = st.sampled_from([b"ca\nb\n", b"K\x01", b"X\0\0\0\0"])


@given(st.lists(OPCODE_BYTES | MEMO_BYTES | ARGUED).map(b"".join))
def test_any_opcodes_are_read_or_refused(body):
    with contextlib.suppress(PickleError):
        shape(loads(b"\x80\x02" + body + b"."))
