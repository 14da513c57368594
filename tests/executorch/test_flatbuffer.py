"""The reader of FlatBuffers: whatever is encoded comes back, whatever is damaged is told."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.flatbuffer_encoder import Encoder
from tests.support.suite import examples
from tsarchive.errors import ArchiveError, FormatError, LimitError
from tsarchive.formats.executorch import flatbuffer
from tsarchive.formats.executorch.flatbuffer import Buffer, check_all
from tsarchive.formats.executorch.schema import SCALARS, Field, Schema

SCHEMA = Schema(
    identifier=b"TEST",
    root="Node",
    tables={
        "Node": (
            *(Field(name, name) for name in SCALARS),
            Field("text", "text"),
            Field("numbers", "[i64]"),
            Field("bytes", "[u8]", align=16),
            Field("one", "Leaf"),
            Field("many", "[Leaf]"),
            Field("either", "Either"),
            Field("preset", "i32", default=-1),
        ),
        "Leaf": (Field("value", "i32"), Field("name", "text")),
        "Other": (Field("flag", "bool"),),
    },
    unions={"Either": ("Leaf", "Other")},
)

_BITS = {"i8": 8, "i16": 16, "i32": 32, "i64": 64}
LEAVES = st.fixed_dictionaries(
    {}, optional={"value": st.integers(-(1 << 31), (1 << 31) - 1), "name": st.text(max_size=9)}
)
SCALAR_VALUES = {
    "bool": st.booleans(),
    "f64": st.floats(allow_nan=False),
    **{
        name: st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1) for name, bits in _BITS.items()
    },
    **{f"u{bits}": st.integers(0, (1 << bits) - 1) for bits in (8, 16, 32, 64)},
}
NODES = st.fixed_dictionaries(
    {},
    optional={
        **SCALAR_VALUES,
        "text": st.text(max_size=20),
        "numbers": st.lists(SCALAR_VALUES["i64"], max_size=6),
        "bytes": st.binary(max_size=40),
        "one": LEAVES,
        "many": st.lists(LEAVES, max_size=4),
        "either": st.one_of(
            st.tuples(st.just("Leaf"), LEAVES),
            st.tuples(st.just("Other"), st.fixed_dictionaries({"flag": st.booleans()})),
        ),
        "preset": SCALAR_VALUES["i32"],
    },
)


def root_of(data, schema=SCHEMA):
    return Buffer(memoryview(data), schema, "tables", 1000).root()


def leaf(table):
    found = {"value": table.scalar("value"), "name": table.text("name")}
    return {name: value for name, value in found.items() if table.has(name)}


def read(root):
    """All that is there, as it was given to the encoder."""
    found = {name: root.scalar(name) for name in (*SCALARS, "preset") if root.has(name)}
    numbers, data, member = root.numbers("numbers"), root.data("bytes"), root.member("either")
    one, many = root.table("one"), root.tables("many")
    parts = {
        "text": root.text("text"),
        "numbers": None if numbers is None else list(numbers),
        "bytes": None if data is None else bytes(data),
        "one": None if one is None else leaf(one),
        "many": None if many is None else list(map(leaf, many)),
        "either": member and (
            member.name,
            leaf(member) if member.name == "Leaf" else {"flag": member.scalar("flag")},
        ),
    }  # fmt: skip
    return found | {name: part for name, part in parts.items() if part is not None}


@given(NODES)
def test_what_is_encoded_is_read(values):
    data = Encoder(SCHEMA).encode(values)
    root = root_of(data)
    assert read(root) == values
    check_all(root)


def test_what_is_absent_has_its_default():
    root = root_of(Encoder(SCHEMA).encode({}))
    assert [root.scalar(name) for name in SCALARS] == [0] * len(SCALARS)
    assert root.scalar("preset") == -1
    assert (root.text("text"), root.numbers("numbers"), root.data("bytes")) == (None,) * 3
    assert (root.table("one"), root.tables("many"), root.member("either")) == (None,) * 3


def test_nothing_and_absent_differ():
    root = root_of(Encoder(SCHEMA).encode({"text": "", "numbers": [], "bytes": b"", "many": []}))
    assert (root.text("text"), root.numbers("numbers"), root.tables("many")) == ("", (), ())
    assert root.data("bytes") is not None


@given(NODES)
def test_fields_that_the_schema_does_not_know_are_passed_over(values):
    older = {**SCHEMA.tables, "Node": SCHEMA.tables["Node"][:3]}
    root = root_of(
        Encoder(SCHEMA).encode(values),
        Schema(SCHEMA.identifier, SCHEMA.root, older, SCHEMA.unions),
    )
    check_all(root)
    assert {name: root.scalar(name) for name in ("bool", "i8", "u8") if root.has(name)} == {
        name: value for name, value in values.items() if name in ("bool", "i8", "u8")
    }


@settings(max_examples=examples(400))
@given(NODES, st.data())
def test_damage_gives_a_value_or_an_error_of_the_family(values, data):
    buffer = bytearray(Encoder(SCHEMA).encode(values))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(buffer) - 4))
        word = data.draw(
            st.one_of(st.integers(0, 64), st.integers(0, (1 << 32) - 1), st.just(len(buffer)))
        )
        struct.pack_into("<I", buffer, at, word)
    told = problem(buffer)
    assert told is None or (told.record == "tables" and {told.limit, told.offset} != {None})


@given(NODES, st.integers(0, 200))
def test_cut_buffers_are_never_read_behind_their_end(values, cut):
    data = Encoder(SCHEMA).encode(values)
    try:
        check_all(root_of(data[: max(len(data) - cut, 0)]))
    except FormatError:
        assert cut


def problem(buffer):
    try:
        check_all(root_of(buffer))
    except ArchiveError as error:
        return error
    return None


FULL = {
    "u32": 5, "f64": 0.5, "text": "abc", "numbers": [1, 2], "bytes": b"xyz", "one": {"value": 3},
    "many": [{"name": "n"}, {}], "either": ("Leaf", {"value": 4}),
}  # fmt: skip
FAR = (0, 1, 2, 3, 1 << 20, (1 << 31) - 1, 1 << 31, (1 << 32) - 4, (1 << 32) - 1)


@pytest.mark.parametrize("field", ["text", "numbers", "bytes", "one", "many", "either"])
@pytest.mark.parametrize("offset", FAR)
def test_offsets_out_of_the_buffer_are_told_with_their_place(field, offset):
    encoder = Encoder(SCHEMA)
    data = bytearray(encoder.encode(FULL))
    at = encoder.places["Node", 0, field]
    struct.pack_into("<I", data, at, offset)
    with pytest.raises(FormatError, match=f"^Node: {field} ") as raised:
        check_all(root_of(data))
    assert (raised.value.offset, raised.value.limit) == (1000 + at, len(data))


@pytest.mark.parametrize("field", ["text", "numbers", "bytes", "many"])
@pytest.mark.parametrize("count", [1 << 10, (1 << 29) + 1, 1 << 31, (1 << 32) - 1])
def test_more_elements_than_there_are_bytes_are_told(field, count):
    encoder = Encoder(SCHEMA)
    data = bytearray(encoder.encode(FULL))
    at = encoder.places["Node", 0, field]
    (offset,) = struct.unpack_from("<I", data, at)
    struct.pack_into("<I", data, at + offset, count)
    with pytest.raises(FormatError, match=f"{field} would have {count:,} elements"):
        check_all(root_of(data))


def test_tags_that_the_schema_does_not_know_are_told():
    encoder = Encoder(SCHEMA)
    data = bytearray(encoder.encode({"either": ("Leaf", {})}))
    (tag_at,) = [at for at, byte in enumerate(data) if byte == 1 and at >= 12][:1]
    data[tag_at] = 3
    with pytest.raises(FormatError, match="unknown tag 3"):
        check_all(root_of(data))


@pytest.mark.parametrize("root", [0, 4, 7, 9, 1 << 20, (1 << 32) - 1])
def test_a_root_that_is_nowhere_is_told(root):
    data = bytearray(Encoder(SCHEMA).encode(FULL))
    struct.pack_into("<I", data, 0, root)
    with pytest.raises(FormatError, match=r"^Node"):
        root_of(data)


@pytest.mark.parametrize("size", [0, 2, 5, 0xFFFE])
def test_vtables_that_cannot_be_are_told(size):
    data = bytearray(Encoder(SCHEMA).encode(FULL))
    (root,) = struct.unpack_from("<I", data)
    (back,) = struct.unpack_from("<i", data, root)
    struct.pack_into("<H", data, root - back, size)
    with pytest.raises(FormatError, match="its vtable has"):
        root_of(data)


@pytest.mark.parametrize("back", [-(1 << 31), (1 << 31) - 1, 1 << 20, -(1 << 20), 1])
def test_vtables_out_of_the_buffer_are_told(back):
    data = bytearray(Encoder(SCHEMA).encode(FULL))
    (root,) = struct.unpack_from("<I", data)
    struct.pack_into("<i", data, root, back)
    with pytest.raises(FormatError, match="its vtable would be at"):
        root_of(data)


def test_texts_end_with_a_zero_and_are_utf_8():
    data = Encoder(SCHEMA).encode({"text": "needle"})
    with pytest.raises(FormatError, match="does not end with a zero"):
        check_all(root_of(data.replace(b"needle\0", b"needle!")))
    with pytest.raises(FormatError, match="not UTF-8"):
        check_all(root_of(data.replace(b"needle", b"need\xffe")))


def test_the_path_of_fields_is_told():
    encoder = Encoder(SCHEMA)
    data = bytearray(encoder.encode({"many": [{}, {"name": "n"}]}))
    struct.pack_into("<I", data, encoder.places["Leaf", 1, "name"], 1 << 20)
    with pytest.raises(FormatError, match=r"^Node\.many\[1\]: name would be at"):
        check_all(root_of(data))


def test_what_many_share_is_not_read_without_end():
    """A vector of offsets to one table, whose text is long: each would be a text of its own."""
    data = bytearray(Encoder(SCHEMA).encode({"many": [{"name": "x" * 50_000}] * 1000}))
    shared = share(data, 1000)
    with pytest.raises(LimitError, match="shared"):
        check_all(root_of(shared))


def test_tables_are_counted(monkeypatch):
    data = Encoder(SCHEMA).encode({"many": [{}] * 50})
    monkeypatch.setattr(flatbuffer, "MAX_TABLES", 40)
    with pytest.raises(LimitError, match="too many tables"):
        check_all(root_of(data))


def share(data, count):
    """The buffer with all elements of its one vector of tables the same, cut behind the first."""
    (root,) = struct.unpack_from("<I", data)
    (back,) = struct.unpack_from("<i", data, root)
    place = [*SCALARS, "text", "numbers", "bytes", "one", "many"].index("many")
    (entry,) = struct.unpack_from("<H", data, root - back + 4 + 2 * place)
    (offset,) = struct.unpack_from("<I", data, root + entry)
    first = root + entry + offset + 4
    (to_first,) = struct.unpack_from("<I", data, first)
    for index in range(count):
        struct.pack_into("<I", data, first + 4 * index, to_first - 4 * index)
    return data[: first + to_first + 60_000]
