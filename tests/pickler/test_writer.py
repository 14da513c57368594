"""The bytes of every kind of value, and when a value is memoised."""

import io
import pickletools

import pytest

from tests.support.suite import is_long
from tsarchive.errors import SaveError
from tsarchive.pickler import (
    Global,
    MarkedTuple,
    Memo,
    Memoised,
    Object,
    PersistentId,
    Reduce,
    dumps,
)
from tsarchive.pickler.writer import _str_header

TAG = Global("torch.jit._pickle", "restore_type_tag")
INTLIST = Global("torch.jit._pickle", "build_intlist")
NET = Global("__torch__", "Net")
COLOR = Global("__torch__", "Color")
EMPTY_HOOKS = Reduce(Global("collections", "OrderedDict"), (), Memo.NEVER)


def body(value):
    """The pickle between PROTO and STOP; pickletools accepts all of it."""
    data = dumps(value)
    pickletools.dis(data, out=io.StringIO())
    assert (data[:2], data[-1:]) == (b"\x80\x02", b".")
    return data[2:-1]


SCALARS = [
    (None, b"N"),
    (True, b"\x88"),
    (False, b"\x89"),
    (0, b"K\x00"),
    (255, b"K\xff"),
    (256, b"M\x00\x01"),
    (65535, b"M\xff\xff"),
    (65536, b"J\x00\x00\x01\x00"),
    (-1, b"J\xff\xff\xff\xff"),
    (2**31 - 1, b"J\xff\xff\xff\x7f"),
    (-(2**31), b"J\x00\x00\x00\x80"),
    (2**31, b"\x8a\x08\x00\x00\x00\x80\x00\x00\x00\x00"),
    (-(2**31) - 1, b"\x8a\x08\xff\xff\xff\x7f\xff\xff\xff\xff"),
    (2**63 - 1, b"\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f"),
    (-(2**63), b"\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80"),
    (1.5, b"G\x3f\xf8\x00\x00\x00\x00\x00\x00"),
    (-0.0, b"G\x80\x00\x00\x00\x00\x00\x00\x00"),
    (float("inf"), b"G\x7f\xf0\x00\x00\x00\x00\x00\x00"),
    (float("nan"), b"G\x7f\xf8\x00\x00\x00\x00\x00\x00"),
    (
        complex(0, 1),
        b"cbuiltins\ncomplex\nq\x00" + b"G" + bytes(8) + b"G\x3f\xf0" + bytes(6) + b"\x86R",
    ),
    ("", b"X\x00\x00\x00\x00q\x00"),
    ("aé", b"X\x03\x00\x00\x00a\xc3\xa9q\x00"),
    ("\0\n", b"X\x02\x00\x00\x00\0\nq\x00"),
    (Global("torch", "FloatStorage"), b"ctorch\nFloatStorage\nq\x00"),
]

CONTAINERS = [
    ((), b")"),
    ((1,), b"K\x01\x85"),
    ((1, 2), b"K\x01K\x02\x86"),
    ((1, 2, 3), b"K\x01K\x02K\x03\x87"),
    ((1, 2, 3, 4), b"(K\x01K\x02K\x03K\x04t"),
    (MarkedTuple(()), b"(t"),
    (MarkedTuple((1,)), b"(K\x01t"),
    ([], b"](e"),
    ([1, 2], b"](K\x01K\x02e"),
    ({}, b"}(u"),
    ({1: 2, 3: None}, b"}(K\x01K\x02K\x03Nu"),
    (Object(NET, {}), b"c__torch__\nNet\nq\x00)\x81}(ub"),
    (
        Object(NET, {"a": 1}, Memo.ALWAYS),
        b"c__torch__\nNet\nq\x00)\x81}(X\x01\x00\x00\x00aq\x01K\x01ubq\x02",
    ),
    (Object(NET, None), b"c__torch__\nNet\nq\x00)\x81Nb"),
    (Object(NET, Memoised((1, 2))), b"c__torch__\nNet\nq\x00)\x81K\x01K\x02\x86q\x01b"),
    (
        Reduce(INTLIST, MarkedTuple(([1],))),
        b"ctorch.jit._pickle\nbuild_intlist\nq\x00(](K\x01etR",
    ),
    (
        Reduce(INTLIST, MarkedTuple(([],))),
        b"ctorch.jit._pickle\nbuild_intlist\nq\x00(](etR",
    ),
    (
        Reduce(TAG, ([None], "List[Any]")),
        b"ctorch.jit._pickle\nrestore_type_tag\nq\x00](NeX\x09\x00\x00\x00List[Any]q\x01\x86R",
    ),
    (
        Reduce(TAG, ({1: 2}, "Dict[int, int]")),
        b"ctorch.jit._pickle\nrestore_type_tag\nq\x00}(K\x01K\x02u"
        b"X\x0e\x00\x00\x00Dict[int, int]q\x01\x86R",
    ),
    (
        Reduce(Global("torch", "device"), ("cpu",), Memo.ALWAYS),
        b"ctorch\ndevice\nq\x00X\x03\x00\x00\x00cpuq\x01\x85Rq\x02",
    ),
    (EMPTY_HOOKS, b"ccollections\nOrderedDict\nq\x00)R"),
    (Reduce(COLOR, 3), b"c__torch__\nColor\nq\x00K\x03R"),
    (
        PersistentId(("storage", Global("torch", "FloatStorage"), "0", "cpu", 4)),
        b"(X\x07\x00\x00\x00storageq\x00ctorch\nFloatStorage\nq\x01"
        b"X\x01\x00\x00\x000q\x02X\x03\x00\x00\x00cpuq\x03K\x04tQq\x04",
    ),
    (Memoised(()), b")q\x00"),
    (Memoised([1]), b"](K\x01eq\x00"),
    (Memoised({}), b"}(uq\x00"),
    (Memoised(MarkedTuple((1,))), b"(K\x01tq\x00"),
]


@pytest.mark.parametrize(("value", "expected"), SCALARS, ids=lambda item: repr(item)[:40])
def test_scalar(value, expected):
    assert body(value) == expected


@pytest.mark.parametrize(("value", "expected"), CONTAINERS, ids=lambda item: repr(item)[:40])
def test_container(value, expected):
    assert body(value) == expected


# Sharing: the same value twice in one list. The items stand between "](" and "e".

PAIR = (1, 2)
STORAGE = PersistentId(("0",))


@pytest.mark.parametrize(
    ("item", "first", "second"),
    [
        pytest.param("a", b"X\x01\x00\x00\x00aq\x00", b"h\x00", id="str"),
        pytest.param(NET, b"c__torch__\nNet\nq\x00", b"h\x00", id="global"),
        pytest.param((), b")q\x00", b"h\x00", id="empty tuple"),
        pytest.param(PAIR, b"K\x01K\x02\x86q\x00", b"h\x00", id="tuple"),
        pytest.param([], b"](eq\x00", b"h\x00", id="list"),
        pytest.param({}, b"}(uq\x00", b"h\x00", id="dict"),
        pytest.param(STORAGE, b"(X\x01\x00\x00\x000q\x00tQq\x01", b"h\x01", id="storage"),
        pytest.param(Memoised(()), b")q\x00", b"h\x00", id="memoised"),
        pytest.param(Reduce(COLOR, 3), b"c__torch__\nColor\nq\x00K\x03Rq\x01", b"h\x01", id="enum"),
        pytest.param(Object(NET), b"c__torch__\nNet\nq\x00)\x81Nbq\x01", b"h\x01", id="object"),
        pytest.param(MarkedTuple((1,)), b"(K\x01t", b"(K\x01t", id="marked tuple"),
        pytest.param(1, b"K\x01", b"K\x01", id="int"),
        pytest.param(
            1j,
            b"cbuiltins\ncomplex\nq\x00" + b"G" + bytes(8) + b"G\x3f\xf0" + bytes(6) + b"\x86R",
            b"h\x00" + b"G" + bytes(8) + b"G\x3f\xf0" + bytes(6) + b"\x86R",
            id="complex",
        ),
        pytest.param(
            EMPTY_HOOKS, b"ccollections\nOrderedDict\nq\x00)R", b"h\x00)R", id="never memoised"
        ),
    ],
)
def test_second_reference(item, first, second):
    assert body([item, item]) == b"](" + first + second + b"e"


def test_equal_values_are_not_shared():
    assert body([[1], [1], {}, {}]) == b"](](K\x01e](K\x01e}(u}(ue"


def test_strings_are_shared_wherever_they_stand():
    value = Reduce(TAG, ({"a": "List[Any]"}, "List[Any]"))
    assert body(value) == (
        b"ctorch.jit._pickle\nrestore_type_tag\nq\x00}("
        b"X\x01\x00\x00\x00aq\x01X\x09\x00\x00\x00List[Any]q\x02uh\x02\x86R"
    )


def test_one_empty_tuple_is_plain_beside_those_of_objects_and_calls():
    value = [(), Object(NET), EMPTY_HOOKS, Reduce(COLOR, ())]
    assert body(value) == (
        b"](" + b")"
        b"c__torch__\nNet\nq\x00)\x81Nb"
        b"ccollections\nOrderedDict\nq\x01)R"
        b"c__torch__\nColor\nq\x02)R" + b"e"
    )


def test_memo_ids_of_children_are_smaller():
    shared = ["a"]
    assert body([shared, shared]) == b"](](X\x01\x00\x00\x00aq\x00eq\x01h\x01e"


def test_children_of_a_shared_value_are_counted_once():
    inner = [1]
    outer = [inner]
    assert body([outer, outer]) == b"](](](K\x01eeq\x00h\x00e"


def test_children_of_a_repeated_value_are_counted_each_time():
    inner = [1]
    repeated = Reduce(COLOR, (inner, (inner,)), Memo.NEVER)
    # The list in the arguments belongs to the call; the tuple is a value, referenced twice.
    assert body([repeated, repeated]) == (
        b"](c__torch__\nColor\nq\x00](K\x01e](K\x01e\x85q\x01\x86Rh\x00](K\x01eh\x01\x86Re"
    )


def test_list_in_two_calls_is_written_twice():
    owned = [1]
    calls = [Reduce(INTLIST, MarkedTuple((owned,))) for _ in range(2)]
    assert body(calls) == (
        b"](ctorch.jit._pickle\nbuild_intlist\nq\x00(](K\x01etRh\x00(](K\x01etRe"
    )


def test_state_of_two_objects_is_written_twice():
    state = {1: 2}
    assert body([Object(NET, state), Object(NET, state)]) == (
        b"](c__torch__\nNet\nq\x00)\x81}(K\x01K\x02ubh\x00)\x81}(K\x01K\x02ube"
    )


def test_a_key_is_a_reference_too():
    color = Reduce(COLOR, 1)
    assert body({color: color}) == b"}(c__torch__\nColor\nq\x00K\x01Rq\x01h\x01u"


def test_memo_ids_above_255_take_four_bytes():
    words = [f"{i:03}" for i in range(257)]
    data = body([*words, words[255], words[256]])
    assert b"255q\xff" in data
    assert b"256r\x00\x01\x00\x00" in data
    assert data.endswith(b"h\xffj\x00\x01\x00\x00e")


def test_string_header_counts_four_bytes_up_to_4_gib():
    assert _str_header((1 << 32) - 1) == b"X\xff\xff\xff\xff"
    assert _str_header(1 << 32) == b"\x8d\x00\x00\x00\x00\x01\x00\x00\x00"


class Enumeration(int):
    """Exact types only: what a subclass means is known to the caller alone."""


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (2**63, "64 bits"),
        (-(2**63) - 1, "64 bits"),
        ("\ud800", "UTF-8"),
        (b"bytes", "bytes"),
        ({1}, "set"),
        (Enumeration(1), "Enumeration"),
        (object(), "object"),
        (Memoised("text"), "Memoised"),
        (Global("a b", "c"), "a b"),
        (Global("a", "b\nc"), "name"),
        (Global("", "c"), "name"),
        (Global("a..b", "c"), "a..b"),
        (Global("a", "\ud800"), "name"),
        (Reduce(NET, (), items={}), "__torch__.Net"),
        (Reduce(NET, (), state=1), "__torch__.Net"),
    ],
    ids=lambda item: type(item).__name__ if type(item) is object else ascii(item)[:30],
)
def test_refused(value, named):
    with pytest.raises(SaveError, match=named):
        dumps([value])


def loop_in_list():
    value = []
    value.append(value)
    return value


def loop_in_state():
    value = Object(NET, {})
    value.state["self"] = [value]
    return value


def loop_in_arguments():
    value = Reduce(COLOR, None, Memo.NEVER)
    value.argument = ([value],)
    return value


def loop_in_dict():
    value = {}
    value["a"] = Memoised((MarkedTuple((value,)),))
    return value


@pytest.mark.parametrize("make", [loop_in_list, loop_in_state, loop_in_arguments, loop_in_dict])
def test_cycle_is_refused(make):
    with pytest.raises(SaveError, match="contains itself"):
        dumps([make()])


@pytest.mark.parametrize(
    "wrap",
    [
        pytest.param(lambda value: [value], id="list"),
        pytest.param(lambda value: (value,), id="tuple"),
        pytest.param(lambda value: MarkedTuple((value,)), id="marked tuple"),
        pytest.param(lambda value: {"a": value}, id="dict"),
        pytest.param(lambda value: Object(NET, {"a": value}), id="object"),
        pytest.param(lambda value: Object(NET, value), id="state"),
        pytest.param(lambda value: Reduce(COLOR, (value,)), id="arguments"),
        pytest.param(lambda value: Reduce(COLOR, value), id="raw argument"),
        pytest.param(lambda value: Memoised([value]), id="memoised"),
    ],
)
def test_depth_is_unbounded(wrap):
    value = "innermost"
    for _ in range(100_000 if is_long() else 20_000):
        value = wrap(value)
    assert dumps(value).count(b"innermost") == 1
