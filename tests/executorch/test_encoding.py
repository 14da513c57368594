"""The encoder of tables: what is encoded is read, and laid out as other writers lay it out."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import HealthCheck, given, settings

from tests.executorch.strategies import Packer, plain, values_of
from tests.support.suite import examples
from tsarchive.errors import SaveError, UnsupportedError
from tsarchive.formats.executorch import encoding
from tsarchive.formats.executorch.encoding import (
    Order,
    detect_encoding,
    encode,
    set_scalar,
    table_values,
)
from tsarchive.formats.executorch.flatbuffer import Buffer, check_all
from tsarchive.formats.executorch.schema import (
    BUNDLED_PROGRAM,
    FLAT_TENSOR,
    FLAT_TENSOR_06,
    PROGRAM,
    SCALARS,
    Field,
    Schema,
)

EVERY = Schema(
    identifier=b"TEST",
    root="Node",
    tables={
        "Node": (
            *(Field(name, name) for name in SCALARS),
            *(Field(f"{name}s", f"[{name}]") for name in SCALARS),
            Field("text", "text"),
            Field("blob", "[u8]", align=16),
            Field("one", "Leaf"),
            Field("many", "[Leaf]"),
            Field("either", "Either"),
        ),
        "Leaf": (Field("value", "i32"), Field("far", "i64"), Field("name", "text")),
        "Other": (Field("flag", "bool"),),
    },
    unions={"Either": ("Leaf", "Other")},
)
SCHEMAS = {
    "every kind of field": EVERY,
    "programs": PROGRAM,
    "data": FLAT_TENSOR,
    "data of 0.6": FLAT_TENSOR_06,
    "bundles": BUNDLED_PROGRAM,
}
ANY_SCHEMA = pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
UNHURRIED = settings(
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def joined(schema, values, order=Order.PYTHON, alignments=None):
    made = encode(schema, values, order, alignments)
    return made.head() + made.body.join()


def root_of(data, schema=EVERY):
    return Buffer(memoryview(data), schema, "tables").root()


@ANY_SCHEMA
@pytest.mark.parametrize("order", Order)
def test_what_is_encoded_is_read(schema, order):
    @UNHURRIED
    @given(values_of(schema))
    def check(values):
        root = root_of(joined(schema, values, order), schema)
        check_all(root)
        assert plain(table_values(root)) == values

    check()


@ANY_SCHEMA
@pytest.mark.parametrize("order", Order)
def test_what_was_encoded_is_encoded_the_same_again(schema, order):
    @UNHURRIED
    @given(values_of(schema))
    def check(values):
        data = joined(schema, values, order)
        root = root_of(data, schema)
        found = detect_encoding(root, table_values(root), None)
        assert (found.inserted, found.size) == (0, len(data))
        assert joined(schema, table_values(root), found.order, found.alignments) == data

    check()


@ANY_SCHEMA
def test_the_order_of_python_is_that_of_the_library(schema):
    pytest.importorskip("flatbuffers", reason="the library of FlatBuffers is not installed")

    @UNHURRIED
    @given(values_of(schema))
    def check(values):
        assert joined(schema, values) == Packer(schema).packed(values)

    check()


def test_absent_and_empty_stay_apart():
    absent, empty = joined(EVERY, {}), {"text": "", "i64s": (), "blob": b"", "many": [], "one": {}}
    assert table_values(root_of(absent)) == {}
    assert plain(table_values(root_of(joined(EVERY, empty)))) == empty


def test_numbers_at_their_default_stay_written_where_they_were():
    values = {"i32": 0, "f64": 0.0, "bool": False}
    assert table_values(root_of(joined(EVERY, values))) == values
    set_scalar(values, "i32", 0)
    assert values["i32"] == 0
    set_scalar(values, "i32", 5)
    set_scalar(values, "u8", 0)
    assert values == {"i32": 5, "f64": 0.0, "bool": False}
    set_scalar(values, "i32", 0)
    assert "i32" not in values


@pytest.mark.parametrize("width", [16, 32, 64, 4096])
@pytest.mark.parametrize("order", Order)
def test_blobs_are_aligned_as_asked(order, width):
    blob = ("Node", "blob")
    data = joined(EVERY, {"text": "x", "blob": b"12345"}, order, {blob: width})
    assert data.index(b"12345") % width == 0


def test_the_alignment_that_blobs_were_given_is_found():
    for width, sizes in product((16, 32, 64, 1024), ((1, 30, 70), (0, 5), (0,))):
        values = {"constant_buffer": [{"storage": b"x" * n} for n in sizes], "version": 3}
        alignments = {("Buffer", "storage"): width}
        data = joined(PROGRAM, values, Order.PYTHON, alignments)
        found = detect_encoding(root_of(data, PROGRAM), values, None)
        assert joined(PROGRAM, values, found.order, found.alignments) == data


def test_orders_differ():
    leaves = [{"name": "abc"[:size], "far": 1} for size in range(4)]
    plain_leaves = [{"far": 1}, {"value": 2, "far": 1}, {"far": 2}, {"value": 1}]
    shared = {"u8": 3, "f64": 2.0, "u8s": b"abc", "many": leaves + plain_leaves}
    empty = {"text": "abcd", "i64s": ()}
    found = {order: (joined(EVERY, shared, order), joined(EVERY, empty, order)) for order in Order}
    assert len(set(found.values())) == len(Order)


def test_large_blobs_are_not_copied():
    blob = memoryview(bytes(1 << 20))
    parts = list(encode(EVERY, {"blob": blob}, Order.FLATC).body)
    assert any(part is blob for part in parts)


def test_more_bytes_than_offsets_reach_are_refused(monkeypatch):
    monkeypatch.setattr(encoding, "_MAX_BYTES", 1000)
    with pytest.raises(SaveError, match="too large"):
        encode(EVERY, {"blob": bytes(1000)}, Order.PYTHON)


def test_numbers_that_their_type_cannot_hold_are_refused():
    with pytest.raises(SaveError, match="cannot hold"):
        encode(EVERY, {"u8": 256}, Order.PYTHON)


def test_fields_of_a_later_version_are_not_lost_in_silence():
    older = Schema(b"TEST", "Node", {**EVERY.tables, "Node": EVERY.tables["Node"][:3]}, {})
    data = joined(EVERY, {"u8": 1, "text": "new"})
    with pytest.raises(UnsupportedError, match="Node has a field of a later version") as raised:
        table_values(root_of(data, older))
    assert raised.value.record == "tables"
    assert table_values(root_of(joined(EVERY, {"u8": 1}), older)) == {"u8": 1}
