"""What the reader makes of pickles, and every fault that it reports."""

import pickle
import tracemalloc

import pytest

from tests.support.suite import is_long
from tsarchive.errors import PickleError
from tsarchive.pickler import (
    Global,
    Limits,
    Memo,
    Object,
    PersistentId,
    Reduce,
    dumps,
    loads,
)

HEADER = b"\x80\x02"
NAME = b"ca\nb\n"
ORDERED_DICT = b"ccollections\nOrderedDict\n)R"


def read(body, **options):
    return loads(HEADER + body + b".", **options)


def shape(value):
    """The value as nested tuples that compare by content."""
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, *map(shape, value))
    if isinstance(value, dict):
        return ("dict", *((shape(key), shape(item)) for key, item in value.items()))
    if isinstance(value, Object):
        return ("object", value.cls, shape(value.state))
    if isinstance(value, Reduce):
        items = None if value.items is None else shape(value.items)
        return ("reduce", value.function, shape(value.argument), items, shape(value.state))
    if isinstance(value, PersistentId):
        return ("storage", shape(value.value))
    return (type(value).__name__, value)


AB = Global("a", "b")
ORDERED = Global("collections", "OrderedDict")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"N", None),
        (b"\x88", True),
        (b"\x89", False),
        (b"K\xff", 255),
        (b"M\xff\xff", 65535),
        (b"J\xff\xff\xff\xff", -1),
        (b"\x8a\x08" + bytes(7) + b"\x80", -(2**63)),
        (b"G\x3f\xf8" + bytes(6), 1.5),
        (b"X\x02\x00\x00\x00\xc3\xa9", "é"),
        (b"\x8d\x02" + bytes(7) + b"\xc3\xa9", "é"),
        (b")", ()),
        (b"N\x85", (None,)),
        (b"NK\x01\x86", (None, 1)),
        (b"NK\x01K\x02\x87", (None, 1, 2)),
        (b"(t", ()),
        (b"(NNNNt", (None, None, None, None)),
        (b"]", []),
        (b"](e", []),
        (b"](K\x01Ne", [1, None]),
        (b"]NaK\x01a", [None, 1]),
        (b"(K\x01l", [1]),
        (b"}", {}),
        (b"}(u", {}),
        (b"}(K\x01K\x02NK\x03u", {1: 2, None: 3}),
        (b"}K\x01K\x02s", {1: 2}),
        (b"(K\x01K\x02d", {1: 2}),
        (b"}(K\x01N\x86K\x02u", {(1, None): 2}),
        (NAME, AB),
        (NAME + b")\x81Nb", Object(AB, None)),
        (NAME + b")\x81}b", Object(AB, {})),
        (NAME + b")R", Reduce(AB, ())),
        (NAME + b"K\x01R", Reduce(AB, 1)),
        (NAME + b")\x81K\x01bq\x00", Object(AB, 1)),
        (b"(K\x01tQ", PersistentId((1,))),
        (ORDERED_DICT, Reduce(ORDERED, ())),
        (ORDERED_DICT + b"(K\x01K\x02u", Reduce(ORDERED, (), items={1: 2})),
        (ORDERED_DICT + b"K\x01K\x02s", Reduce(ORDERED, (), items={1: 2})),
        (ORDERED_DICT + b"}b", Reduce(ORDERED, (), state={})),
    ],
    ids=ascii,
)
def test_value(body, expected):
    value = read(body)
    assert shape(value) == shape(expected)
    assert getattr(value, "memo", Memo.SHARED) is Memo.SHARED


def test_qualified_name():
    assert Global("__torch__.nn", "Linear").qualified_name == "__torch__.nn.Linear"


@pytest.mark.parametrize("short", [True, False])
def test_memo_gives_the_same_object(short):
    put, get = (b"q\x07", b"h\x07") if short else (b"r\x07\0\0\0", b"j\x07\0\0\0")
    first, second = read(b"](](K\x01e" + put + get + b"e")
    assert first is second


@pytest.mark.parametrize(
    "names", ["__torch__.my-model\nNet", "__torch__\nMódulo", "torch\nFloat8_e4m3fn", "1.2\n3"]
)
def test_names_that_torch_writes(names):
    value = read(f"c{names}\n".encode())
    assert value == Global(*names.split("\n"))


def test_any_buffer_is_read():
    data = dumps(["a", 1])
    assert loads(memoryview(data)) == loads(memoryview(bytearray(data))) == ["a", 1]


FAULTS = [
    # framing
    (b"", 0, "PROTO"),
    (b"(lp0\n.", 0, "PROTO"),
    (b"\x80", 0, "no protocol number"),
    (b"\x80\x04N.", 0, "protocol 4"),
    (b"\x80\x02", 2, "without STOP"),
    (b"\x80\x02N", 3, "without STOP"),
    (b"\x80\x02.", 2, "0 values"),
    (b"\x80\x02NN.", 4, "2 values"),
    (b"\x80\x02N.N", 4, "bytes follow"),
    (b"\x80\x02N(.", 4, "MARK"),
    (b"\x80\x02N\x80\x02.", 3, "PROTO"),
    # stack
    (b"\x80\x02\x85.", 2, "TUPLE1 finds too few"),
    (b"\x80\x02N\x86.", 3, "TUPLE2 finds too few"),
    (b"\x80\x02NN\x87.", 4, "TUPLE3 finds too few"),
    (b"\x80\x02N(\x85.", 4, "TUPLE1 finds too few"),
    (b"\x80\x02Na.", 3, "APPEND finds too few"),
    (b"\x80\x02(e.", 3, "APPENDS finds too few"),
    (b"\x80\x02(u.", 3, "SETITEMS finds too few"),
    (b"\x80\x02NNs.", 4, "SETITEM finds too few"),
    (b"\x80\x02NR.", 3, "REDUCE finds too few"),
    (b"\x80\x02N\x81.", 3, "NEWOBJ finds too few"),
    (b"\x80\x02Nb.", 3, "BUILD finds too few"),
    (b"\x80\x02Q.", 2, "BINPERSID finds too few"),
    (b"\x80\x02q\x00.", 2, "BINPUT finds too few"),
    (b"\x80\x02t.", 2, "TUPLE without a MARK"),
    (b"\x80\x02]Ne.", 4, "APPENDS without a MARK"),
    (b"\x80\x02}u.", 3, "SETITEMS without a MARK"),
    (b"\x80\x02l.", 2, "LIST without a MARK"),
    (b"\x80\x02d.", 2, "DICT without a MARK"),
    # arguments cut off
    (b"\x80\x02K", 2, "argument of BININT1"),
    (b"\x80\x02M\x00", 2, "argument of BININT2"),
    (b"\x80\x02J\x00\x00\x00", 2, "argument of BININT"),
    (b"\x80\x02G" + bytes(7), 2, "argument of BINFLOAT"),
    (b"\x80\x02X\x00\x00\x00", 2, "argument of BINUNICODE"),
    (b"\x80\x02\x8d" + bytes(7), 2, "argument of BINUNICODE8"),
    (b"\x80\x02Nq", 3, "argument of BINPUT"),
    (b"\x80\x02Nr\x00\x00\x00", 3, "argument of LONG_BINPUT"),
    (b"\x80\x02h", 2, "argument of BINGET"),
    (b"\x80\x02j\x00\x00\x00", 2, "argument of LONG_BINGET"),
    (b"\x80\x02\x8a", 2, "argument of LONG1"),
    (b"\x80\x02\x8a\x08" + bytes(7), 2, "argument of LONG1"),
    (b"\x80\x02ca\n", 2, "inside a name"),
    (b"\x80\x02ca", 2, "inside a name"),
    # scalars
    (b"\x80\x02\x8a\x00.", 2, "LONG1 of 0 bytes"),
    (b"\x80\x02\x8a\x09" + bytes(9) + b".", 2, "LONG1 of 9 bytes"),
    (b"\x80\x02X\x03\x00\x00\x00a.", 2, "3 bytes"),
    (b"\x80\x02X\xff\xff\xff\xffa.", 2, "4294967295 bytes"),
    (b"\x80\x02\x8d" + b"\xff" * 8 + b"a.", 2, "18446744073709551615 bytes"),
    (b"\x80\x02X\x01\x00\x00\x00\xff.", 2, "not UTF-8"),
    (b"\x80\x02X\x03\x00\x00\x00\xed\xa0\x80.", 2, "not UTF-8"),
    # names
    (b"\x80\x02c\nb\n.", 2, "dotted name"),
    (b"\x80\x02ca\n\n.", 2, "dotted name"),
    (b"\x80\x02ca b\nc\n.", 2, "dotted name"),
    (b"\x80\x02ca\r\nc\n.", 2, "dotted name"),
    (b"\x80\x02ca\nb\x00\n.", 2, "dotted name"),
    (b"\x80\x02ca..b\nc\n.", 2, "dotted name"),
    (b"\x80\x02c.a\nc\n.", 2, "dotted name"),
    (b"\x80\x02c\xff\nc\n.", 2, "not UTF-8"),
    # containers
    (b"\x80\x02N(e.", 4, "put in a NoneType"),
    (b"\x80\x02}Na.", 4, "put in a dict"),
    (b"\x80\x02)(u.", 4, "put in a tuple"),
    (b"\x80\x02](u.", 4, "put in a list"),
    (b"\x80\x02]NNs.", 5, "put in a list"),
    (b"\x80\x02ca\nb\n)RNNs.", 11, "put in a Reduce"),
    (b"\x80\x02ccollections\nOrderedDict\nNRNNs.", 31, "put in a Reduce"),
    (b"\x80\x02}(Nu.", 5, "without a value"),
    (b"\x80\x02(Nd.", 4, "without a value"),
    (b"\x80\x02}(K\x01NK\x01Nu.", 10, "key twice"),
    (b"\x80\x02}K\x01NsK\x01Ns.", 10, "key twice"),
    (b"\x80\x02}(K\x01N\x88Nu.", 9, "key twice"),
    (b"\x80\x02(NNNNd.", 7, "key twice"),
    (b"\x80\x02}]Ns.", 5, "list is in the key"),
    (b"\x80\x02}(}Nu.", 6, "dict is in the key"),
    (b"\x80\x02}]\x85Ns.", 6, "list is in the key"),
    (b"\x80\x02})\x85Ns.", 6, "tuple is in the key"),
    # objects
    (b"\x80\x02N)\x81.", 4, "class is a NoneType"),
    (b"\x80\x02ca\nb\nN\x81.", 8, "given arguments"),
    (b"\x80\x02ca\nb\nN\x85\x81.", 9, "given arguments"),
    (b"\x80\x02ca\nb\n)\x81.", 9, "never given a state"),
    (b"\x80\x02ca\nb\nNb.", 8, "BUILD on a value of type Global"),
    (b"\x80\x02ca\nb\n)\x81NbNb.", 12, "BUILD on a value of type Object"),
    (b"\x80\x02ca\nb\n)RNb.", 10, "BUILD on a value of type Reduce"),
    (b"\x80\x02" + ORDERED_DICT + b"}b}b.", 32, "BUILD on a value of type Reduce"),
    (b"\x80\x02]Nb.", 4, "BUILD on a value of type list"),
    (b"\x80\x02NNR.", 4, "where a function is named"),
    (b"\x80\x02X\x01\0\0\0a)R.", 9, "where a function is named"),
    (b"\x80\x02NQ.", 3, "persistent id"),
    (b"\x80\x02X\x01\0\0\0aQ.", 8, "persistent id"),
    # memo
    (b"\x80\x02h\x00.", 2, "before it is set"),
    (b"\x80\x02Nq\x01h\x00\x86.", 5, "before it is set"),
    (b"\x80\x02Nj\x00\x00\x00\x01\x86.", 3, "before it is set"),
    (b"\x80\x02Nq\x00q\x00.", 5, "set twice"),
    (b"\x80\x02Nq\x00r\x00\x00\x00\x00.", 5, "set twice"),
    # values that contain themselves
    (b"\x80\x02]q\x00h\x00a.", 8, "contains itself"),
    (b"\x80\x02}q\x00Nh\x00s.", 9, "contains itself"),
    (b"\x80\x02ca\nb\n)\x81q\x00h\x00b.", 14, "contains itself"),
    (b"\x80\x02]q\x00(ca\nb\nh\x00Re.", 15, "contains itself"),
    (b"\x80\x02" + ORDERED_DICT + b"q\x00Nh\x00s.", 35, "contains itself"),
    (b"\x80\x02" + ORDERED_DICT + b"q\x00h\x00\x85b.", 35, "contains itself"),
]


@pytest.mark.parametrize(("data", "offset", "message"), FAULTS, ids=ascii)
def test_fault(data, offset, message):
    with pytest.raises(PickleError) as caught:
        loads(data, record="constants.pkl")
    assert message in caught.value.message
    assert (caught.value.record, caught.value.offset) == ("constants.pkl", offset)


def test_filling_a_memoised_value_is_no_cycle():
    """Python's pickler memoises first and fills later."""
    outer, inner = read(b"]q\x00]q\x01ah\x01K\x07a\x86")
    assert outer == [[7]]
    assert outer[0] is inner


def test_foreign_protocol_names_the_reason():
    with pytest.raises(PickleError, match="not a TorchScript one"):
        loads(b"\x80\x04\x95" + bytes(8) + b"N.")


def test_a_name_is_never_resolved():
    value = read(b"cposix\nsystem\nX\x04\x00\x00\x00true\x85R")
    assert shape(value) == shape(Reduce(Global("posix", "system"), ("true",)))


@pytest.mark.parametrize(
    ("body", "limit", "bound", "offset"),
    [
        (b"NNN\x87", "max_bytes", 7, None),
        (b"Nq\x00q\x01q\x02", "max_memo", 3, 7),
        (b"](NNNe", "max_items", 3, 7),
        (b"]NaNa", "max_items", 2, 6),
        (b"}NNs", "max_items", 2, 5),
        (b"NNN\x87", "max_items", 3, 5),
        (b"(((ttt", "max_items", 2, 7),
        (b"]]}\x87", "max_items", 3, 5),
        (b"(NNd", "max_items", 2, 5),
        (b"(NNN\x88t", "max_opcodes", 7, 8),
        (b"}NN\x86Ns", "max_items", 6, 7),
        (b"]]}\x87", "max_values", 4, 5),
        (b"(((ttt", "max_values", 3, 4),
        (NAME + b")\x81Nb", "max_values", 2, 8),
        (NAME + b")R", "max_values", 2, 8),
        (b"K\x01\x85Q", "max_values", 2, 5),
        (b"(" + NAME * 3 + b"t", "max_values", 4, 13),
        (b"]Naq\x00h\x00h\x00\x87", "max_repeats", 2, 12),
        (b"]q\x00h\x00\x86q\x01h\x01\x86", "max_repeats", 2, 13),
    ],
    ids=ascii,
)
def test_limit(body, limit, bound, offset):
    read(body, limits=Limits(**{limit: bound}))
    with pytest.raises(PickleError) as caught:
        read(body, record="data.pkl", limits=Limits(**{limit: bound - 1}))
    assert (caught.value.limit, caught.value.offset) == (bound - 1, offset)
    assert caught.value.record == "data.pkl"


@pytest.mark.parametrize(
    "body",
    [
        b"X\xff\xff\xff\x7f",
        b"\x8d" + b"\xff" * 7 + b"\x7f",
        b"\x8a\xff",
        b"Nr\xff\xff\xff\xff",
        b"(" * 5000,
        b"]" * 5000,
        b")" + b"\x85" * 5000,
    ],
    ids=lambda body: ascii(body[:12]),
)
def test_lengths_and_ids_allocate_nothing(body):
    tracemalloc.start()
    try:
        with pytest.raises(PickleError):
            loads(HEADER + body, limits=Limits(max_items=1000))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


def test_references_without_end_are_refused():
    """Ten references at each of a hundred levels: 10 to the 100 paths, a hundred lists."""
    levels = [b"](" + b"h%c" % level * 10 + b"eq%c" % (level + 1) for level in range(100)]
    with pytest.raises(PickleError, match="referred to too often"):
        read(b"(]q\x00" + b"".join(levels) + b"t")


def test_checks_visit_each_value_once():
    """A long list in the arguments of many calls, with a refilled list that asks for the check."""
    count = 2_000
    owned = b"](" + b"N" * count + b"eq\x00"
    calls = b"](" + b"h\x01h\x00\x85R" * count + b"e"
    refilled = b"]q\x02Na"
    value = read(b"(" + owned + NAME + b"q\x01" + calls + refilled + b"t")
    assert value[2][-1].argument[0] is value[0]
    assert value[3] == [None]


@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        pytest.param(b"", b"\x85", id="tuples"),
        pytest.param(b"(", b"l", id="lists"),
        pytest.param(b"}N", b"s", id="dicts"),
        pytest.param(b"h\x00", b"R", id="calls"),
        pytest.param(b"h\x00)\x81", b"b", id="objects"),
        pytest.param(b"", b"\x85Q", id="storages"),
    ],
)
def test_depth_is_unbounded(opening, closing):
    levels = 100_000 if is_long() else 20_000
    name = NAME + b"q\x00"
    assert len(read(b"(" + name + opening * levels + b"N" + closing * levels + b"t")) == 2


@pytest.mark.long("test_depth_is_unbounded")
def test_deep_tuple_is_no_key():
    """Hashing it would overflow the C stack, and one of shared tuples would never end."""
    with pytest.raises(PickleError, match="tuple is in the key"):
        read(b"})" + b"\x85" * 1_000_000 + b"Ns")
    doubled = b"".join(b"h%c" % level + b"h%c\x86q%c" % (level, level + 1) for level in range(200))
    with pytest.raises(PickleError, match="tuple is in the key"):
        read(b"()q\x00" + doubled + b"l}h\xc8Ns\x86")


@pytest.mark.parametrize("number", [0, -1, 1 << 33, 2**64 - 1, -(1 << 100), 1 << 2030])
def test_integers_of_files_of_torch_save_have_any_length(number):
    """Python writes as few bytes as it takes."""
    pickled = pickle.dumps([number], 2)
    memoized = pickled.replace(b"q\x00", b"")
    assert loads(memoized, any_int=True) == [number]
    for end in range(len(memoized)):
        with pytest.raises(PickleError):
            loads(memoized[:end], any_int=True)
