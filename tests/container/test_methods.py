"""Compression methods: what each inflates to, how damage shows, and that bombs stay small."""

from __future__ import annotations

import bz2
import io
import lzma
import random
import struct
import sys
import tracemalloc
import zipfile
import zlib

import pytest

from tests.support.suite import sampled
from tsarchive.container import Container
from tsarchive.container.contents import inflated_pieces
from tsarchive.container.faults import NOWHERE, STRICT, Collected, Place, Stopped
from tsarchive.container.layout import METHOD_NAMES, VERSION_NEEDED
from tsarchive.errors import FormatError, UnsupportedError

CONTENTS = {
    "empty": b"",
    "byte": b"x",
    "text": b"graph(%self : __torch__.M, %x : Tensor):\n" * 500,
    "noise": random.Random(5).randbytes(70_000),
}


def deflate(data, strategy=zlib.Z_DEFAULT_STRATEGY):
    encoder = zlib.compressobj(9, zlib.DEFLATED, -15, 8, strategy)
    return encoder.compress(data) + encoder.flush()


def deflate64(data):
    # Without matches, deflated data is Deflate64 data too.
    return deflate(data, zlib.Z_HUFFMAN_ONLY)


WINDOW = 1 << 16
LZMA_FILTERS = [{"id": lzma.FILTER_LZMA1, "dict_size": WINDOW, "lc": 3, "lp": 0, "pb": 2}]


def lzma_data(data):
    properties = b"\x09\x04\x05\x00" + b"\x5d" + struct.pack("<L", WINDOW)
    return properties + lzma.compress(data, lzma.FORMAT_RAW, filters=LZMA_FILTERS)


ENCODERS = {0: bytes, 8: deflate, 9: deflate64, 12: bz2.compress, 14: lzma_data}
PACKED = [method for method in ENCODERS if method]


def inflate(method, payload, size, record):
    """All of the data as one piece."""
    return b"".join(inflated_pieces(method, payload, size, Place(record), STRICT, size + 1))


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("method", ENCODERS)
def test_inflate_undoes_the_encoder(method, content):
    data = CONTENTS[content]
    assert inflate(method, memoryview(ENCODERS[method](data)), len(data), "r") == data


@pytest.mark.parametrize("method", [8, 12, 14])
def test_archives_of_zipfile(method):
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", method) as archive:
        for name, data in CONTENTS.items():
            archive.writestr(f"root/{name}", data)
    target.seek(0)
    with Container.open(target) as container:
        for name, data in CONTENTS.items():
            assert container.records[name].method == method
            assert container.read(name) == data
            assert container.view(name) == data


class Bits:
    """Bits in deflate's order: numbers from their lowest bit, codes from their highest."""

    def __init__(self):
        self.value = self.count = 0

    def number(self, value, width):
        self.value |= value << self.count
        self.count += width

    def code(self, value, width):
        self.number(int(f"{value:0{width}b}"[::-1], 2), width)

    def bytes(self):
        return self.value.to_bytes((self.count + 7) // 8, "little")


def long_matches(lengths):
    """Deflate64 data: the letter "a", then matches of these lengths (3 to 65,538) of it."""
    bits = Bits()
    bits.number(1, 1)  # last block
    bits.number(1, 2)  # fixed codes
    bits.code(0x30 + ord("a"), 8)
    for length in lengths:
        bits.code(0b11000000 + 285 - 280, 8)
        bits.number(length - 3, 16)
        bits.code(0, 5)  # distance 1
    bits.code(0, 7)  # end of block
    return bits.bytes()


def test_deflate64_has_longer_matches_than_deflate():
    lengths = [65538, 3, 70, 65538, 1000]
    payload = long_matches(lengths)
    expected = b"a" * (1 + sum(lengths))
    assert inflate(9, memoryview(payload), len(expected), "r") == expected
    with pytest.raises(FormatError):
        inflate(8, memoryview(payload), len(expected), "r")


def lzma_prefix(payload):
    return lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=LZMA_FILTERS).decompress(payload[9:])


def test_lzma_without_an_end_marker():
    data = CONTENTS["text"]
    marked = lzma_data(data)
    # The encoder always writes a marker: leave out as many bytes as the data can do without.
    cut = 0
    while len(lzma_prefix(marked[: -cut - 1])) == len(data):
        cut += 1
    assert cut
    unmarked = marked[:-cut]
    assert inflate(14, memoryview(unmarked), len(data), "r") == data


@pytest.mark.parametrize("method", PACKED)
@pytest.mark.parametrize("surplus", [-1, 1])
def test_a_wrong_size_is_an_error(method, surplus):
    data = CONTENTS["text"]
    payload = memoryview(ENCODERS[method](data))
    if method == 14 and surplus < 0:
        # The data may go on after its size: then only the CRC-32 tells.
        assert inflate(method, payload, len(data) - 1, "r") == data[:-1]
        return
    with pytest.raises(FormatError) as caught:
        inflate(method, payload, len(data) + surplus, "root/r")
    assert caught.value.record == "root/r"


@pytest.mark.parametrize("method", [8, 9, 12])
@pytest.mark.parametrize("junk", [b"\0", b"0123456789" * 10])
def test_bytes_after_the_compressed_data_are_an_error(method, junk):
    for data in CONTENTS.values():
        payload = memoryview(ENCODERS[method](data) + junk)
        with pytest.raises(FormatError, match="does not end with the record"):
            inflate(method, payload, len(data), "r")


@pytest.mark.parametrize("method", PACKED)
def test_cut_data_is_an_error(method):
    data = CONTENTS["text"]
    payload = ENCODERS[method](data)
    for length in sampled(range(0, len(payload) - 8, 3)):
        with pytest.raises(FormatError):
            inflate(method, memoryview(payload[:length]), len(data), "r")


@pytest.mark.parametrize("method", PACKED)
def test_noise_is_an_error(method):
    source = random.Random(method)
    for size in range(200):
        with pytest.raises(FormatError):
            inflate(method, memoryview(b"\xff" + source.randbytes(size)), 10_000, "r")


ZEROS = bytes(30_000_000)
BOMBS = {
    8: lambda: deflate(ZEROS),
    9: lambda: long_matches([65538] * 500),
    12: lambda: bz2.compress(ZEROS),
}


@pytest.mark.parametrize("method", BOMBS)
def test_a_bomb_is_not_inflated(method):
    payload = memoryview(BOMBS[method]())
    assert len(payload) < 40_000
    inflate(method, memoryview(ENCODERS[method](b"x")), 1, "r")
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match="more than 1000 bytes"):
            inflate(method, payload, 1000, "r")
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_lzma_stops_at_the_size_and_ignores_a_huge_window():
    payload = bytearray(lzma_data(ZEROS))
    payload[5:9] = b"\xff\xff\xff\xff"
    tracemalloc.start()
    try:
        assert inflate(14, memoryview(payload), 1000, "r") == bytes(1000)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("start", [b"", b"\x09\x04\x05\0]\0\0\1", b"\x09\x04\x06\0]" + bytes(20)])
def test_lzma_data_needs_its_properties(start):
    with pytest.raises(FormatError, match="no LZMA properties"):
        inflate(14, memoryview(start), 5, "r")


def outcome(method, payload, size, most):
    """The data in pieces, and the rules that found fault with it."""
    faults, pieces = Collected(), []
    try:
        for piece in inflated_pieces(method, payload, size, NOWHERE, faults, most):
            assert len(piece) <= most or method == 9
            pieces.append(bytes(piece))
    except Stopped:
        pass
    return b"".join(pieces)[:size], [finding.rule for finding in faults.findings()]


@pytest.mark.parametrize("most", [1000, 70_000])
@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("method", ENCODERS)
def test_pieces_give_what_the_whole_gives(method, content, most):
    data = CONTENTS[content]
    sound = ENCODERS[method](data)
    assert outcome(method, memoryview(sound), len(data), most) == (data, [])
    for payload in (sound[:-1], sound[:-9], sound[: len(sound) // 2], sound + b"\0" * 70_000):
        for size in (len(data), len(data) + 1, max(0, len(data) - 1)):
            view = memoryview(payload)
            whole, rules = outcome(method, view, size, size + 1)
            apart, rules_apart = outcome(method, view, size, most)
            assert rules_apart == rules
            assert rules or apart == whole


@pytest.mark.parametrize("method", [8, 9, 12, 14])
def test_pieces_of_a_bomb_stay_small(method):
    payload = memoryview((BOMBS | {14: lambda: lzma_data(ZEROS)})[method]())
    tracemalloc.start()
    try:
        total = 0
        for piece in inflated_pieces(method, payload, 2**40, NOWHERE, Collected(), 1 << 16):
            total += len(piece)
            if total > len(ZEROS) // 2:
                break
        # The window of LZMA counts, which is as large as its header says.
        assert tracemalloc.get_traced_memory()[1] < 3_000_000
    finally:
        tracemalloc.stop()


def test_an_impossible_size_is_an_error():
    with pytest.raises(FormatError, match="larger than any memory"):
        inflate(8, memoryview(deflate(b"x")), 2**63, "r")


@pytest.mark.parametrize(
    ("method", "name"), [(1, "shrunk"), (93, "Zstandard"), (98, "PPMd"), (777, "unknown")]
)
def test_other_methods_are_named(method, name):
    with pytest.raises(UnsupportedError, match=rf"method {method} \({name}\)"):
        inflate(method, memoryview(b""), 0, "r")


@pytest.mark.parametrize(
    ("method", "module"), [(9, "zipfile_deflate64"), (12, "bz2"), (14, "lzma")]
)
def test_a_missing_decoder_module_is_named(monkeypatch, method, module):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UnsupportedError, match=module) as caught:
        inflate(method, memoryview(ENCODERS[method](b"x")), 1, "r")
    assert ("zipfile-deflate64" in caught.value.hint) == (method == 9)


def test_every_method_that_is_written_has_a_name_and_is_read():
    assert set(VERSION_NEEDED) == set(ENCODERS)
    assert set(VERSION_NEEDED) <= set(METHOD_NAMES)
