"""The opcode table against CPython's own table of pickle opcodes."""

import pickletools

import pytest

from tsarchive.errors import PickleError
from tsarchive.pickler import loads, opcodes

CPYTHON = {ord(row.code): row for row in pickletools.opcodes}
VARIABLE = {"long1", "unicodestring4", "unicodestring8", "stringnl_noescape_pair"}


@pytest.mark.parametrize("opcode", opcodes.READ, ids=lambda opcode: opcode.name)
def test_row_agrees_with_cpython(opcode):
    row = CPYTHON[opcode.code]
    assert opcode.name == row.name
    assert opcode.byte == row.code.encode("latin-1")


@pytest.mark.parametrize("opcode", opcodes.READ, ids=lambda opcode: opcode.name)
def test_argument_agrees_with_cpython(opcode):
    name, size = opcode.argument.value
    argument = CPYTHON[opcode.code].arg
    assert name == (argument.name if argument else "none")
    if argument and name not in VARIABLE:
        assert size == argument.n


def test_every_cpython_opcode_is_read_or_foreign_and_none_is_both():
    assert not opcodes.BY_CODE.keys() & opcodes.FOREIGN.keys()
    names = {code: opcode.name for code, opcode in opcodes.BY_CODE.items()} | opcodes.FOREIGN
    assert names == {code: row.name for code, row in CPYTHON.items()}


def test_read_is_written_and_four_more():
    assert set(opcodes.WRITTEN) <= set(opcodes.READ)
    more = {opcode.name for opcode in set(opcodes.READ) - set(opcodes.WRITTEN)}
    assert more == {"APPEND", "LIST", "SETITEM", "DICT"}
    assert len(opcodes.BY_CODE) == len(opcodes.READ)


@pytest.mark.parametrize("code", sorted(set(range(256)) - opcodes.BY_CODE.keys()))
def test_reader_refuses_every_other_byte_by_name(code):
    with pytest.raises(PickleError) as caught:
        loads(b"\x80\x02N" + bytes((code,)) + b".", record="data.pkl")
    name = opcodes.FOREIGN.get(code)
    assert (name or f"0x{code:02x}") in caught.value.message
    assert (caught.value.record, caught.value.offset) == ("data.pkl", 3)
    assert bool(caught.value.hint) == (name is not None)
