"""The checklist for zip archives: compressed data and caps."""

from __future__ import annotations

import io
import lzma
import random
import struct
import sys
import tracemalloc
import zlib

import pytest

from tests.container.checking import (
    HARMLESS,
    deflate,
    is_accepted,
    is_refused,
    packed,
    surveyed,
)
from tests.container.forging import MAX32, field, forge, member, unknown_sizes
from tsarchive.container import Container, caps, survey
from tsarchive.errors import UnsupportedError

# Compression.


def test_inflated_size_as_declared():
    is_accepted(forge(packed("root/a.py", b"x" * 900)))
    is_refused(forge(packed("root/a.py", b"x" * 900, size=899)), "zip-inflates-to-more")
    is_refused(forge(packed("root/a.py", b"x" * 900, size=901)), "zip-inflates-to-less")


def test_bytes_after_the_compressed_data():
    data = deflate(b"x" * 900)
    sound = {"method": 8, "size": 900, "crc": zlib.crc32(b"x" * 900)}
    is_accepted(forge(member("root/a.py", data, **sound)))
    is_refused(forge(member("root/a.py", data + b"\0", **sound)), "zip-after-data")
    is_refused(forge(member("root/a.py", data[:-1], **sound)), "zip-after-data")
    is_refused(forge(member("root/a.py", data[:-3], **sound)), "zip-inflates-to-less")
    is_refused(forge(member("root/a.py", b"\xff" + data[1:], **sound)), "zip-damaged-data")


def test_stored_data_has_one_size():
    is_accepted(forge(member(size=5)))
    for size in (4, 6):
        is_refused(forge(member(size=size)), "zip-stored-sizes")
    # Encryption puts twelve bytes in front of the data.
    encrypted = surveyed(forge(member(data=b"x" * 17, size=5, flags=1)))
    assert {finding.rule for finding in encrypted} - HARMLESS == {"zip-encrypted"}


def test_sizes_beyond_any_memory(monkeypatch):
    monkeypatch.setattr(caps, "FREE_INFLATED_BYTES", 2**64)
    wide = {"size": MAX32, "extra": field(1, struct.pack("<Q", 2**64 - 1))}
    is_refused(forge(member(**unknown_sizes(), method=8, central=wide)), "zip-no-descriptor")
    both = {"stored": 5, **wide}
    data = forge(member(method=8, central=both, local={**both, **sizes64(2**64 - 1, 5)}))
    is_refused(data, "zip-impossible-size")


def sizes64(size, stored):
    return {"stored": MAX32, "extra": field(1, struct.pack("<2Q", size, stored))}


def test_a_decoder_that_this_python_lacks(monkeypatch):
    monkeypatch.setitem(sys.modules, "bz2", None)
    data = forge(member("root/data/0", b"BZh9", method=12))
    is_refused(data, "zip-no-decoder", UnsupportedError)


def test_the_window_of_lzma_has_a_cap(monkeypatch):
    content = b"x" * 9000
    filters = [{"id": lzma.FILTER_LZMA1, "dict_size": 8192, "lc": 3, "lp": 0, "pb": 2}]
    payload = b"\x09\x04\x05\0]" + struct.pack("<L", 8192)
    payload += lzma.compress(content, lzma.FORMAT_RAW, filters=filters)
    data = forge(member("root/a", payload, method=14, size=9000, crc=zlib.crc32(content)))
    monkeypatch.setattr(caps, "MAX_LZMA_WINDOW", 8192)
    is_accepted(data, "zip-compression")
    monkeypatch.setattr(caps, "MAX_LZMA_WINDOW", 8191)
    is_refused(data, "zip-damaged-data")


def test_crc_of_code_and_pickles_always_and_of_tensors_on_request():
    wrong = {"crc": zlib.crc32(b"other")}
    for name in ("root/code/a.py", "root/data.pkl"):
        is_refused(forge(member(name, **wrong)), "zip-crc")
    data = forge(member("root/data/0", **wrong))
    with Container.open(io.BytesIO(data)) as container:
        assert container.view("data/0") == b"hello"
    is_refused(data, "zip-crc")


# Caps.


def test_cap_on_the_entry_count(monkeypatch):
    data = forge(member("root/a"), member("root/b"), member("root/c"))
    for cap in (4, 3):
        monkeypatch.setattr(caps, "MAX_ENTRIES", cap)
        is_accepted(data)
    monkeypatch.setattr(caps, "MAX_ENTRIES", 2)
    assert is_refused(data, "zip-too-many-entries").limit == 2


def test_cap_on_the_directory_bytes(monkeypatch):
    data = forge(member("root/a"), member("root/b"))
    size = 2 * (46 + 6)
    for cap in (size + 1, size):
        monkeypatch.setattr(caps, "MAX_DIRECTORY_BYTES", cap)
        is_accepted(data)
    monkeypatch.setattr(caps, "MAX_DIRECTORY_BYTES", size - 1)
    assert is_refused(data, "zip-large-directory").limit == size - 1


@pytest.mark.parametrize("name", ["data.pkl", "code/a.py", "a.debug_pkl", "model.json", "version"])
@pytest.mark.parametrize("pack_it", [packed, member])
def test_cap_on_the_bytes_of_pickles_and_code(monkeypatch, name, pack_it):
    end = next(end for end in caps.PARSED_CAPS if f"/{name}".endswith(end))
    monkeypatch.setattr(caps, "SMALLEST_CAP", 0)
    monkeypatch.setitem(caps.PARSED_CAPS, end, 900)
    for size in (899, 900):
        is_accepted(forge(pack_it(f"root/{name}", b"x" * size)), *unusual(name, pack_it))
    error = is_refused(forge(pack_it(f"root/{name}", b"x" * 901)), "zip-large-record")
    assert (error.limit, error.record) == (900, f"root/{name}")
    # Tensors have no cap of their own.
    is_accepted(forge(member("root/data/0", b"x" * 901)))


def unusual(name, pack_it):
    oddly = pack_it is packed and not name.endswith((".py", ".debug_pkl"))
    return ("zip-compression",) if oddly else ()


def test_cap_on_all_inflated_bytes(monkeypatch):
    """Zeros shrink a hundredfold and more: only what is large as well is refused."""
    content = bytes(40_000)
    data = forge(packed("root/data/0", content), packed("root/data/1", content))
    for free in (80_001, 80_000):
        monkeypatch.setattr(caps, "FREE_INFLATED_BYTES", free)
        assert is_accepted(data, "zip-compression") == {"data/0": content, "data/1": content}
    monkeypatch.setattr(caps, "FREE_INFLATED_BYTES", 79_999)
    assert is_refused(data, "zip-bomb").limit == 79_999
    stored = 2 * len(deflate(content))
    ratio = -(-80_000 // stored)
    monkeypatch.setattr(caps, "MAX_INFLATED_RATIO", ratio)
    is_accepted(data, "zip-compression")
    monkeypatch.setattr(caps, "MAX_INFLATED_RATIO", ratio - 1)
    assert is_refused(data, "zip-bomb").limit == max(79_999, (ratio - 1) * stored)


def test_cap_on_the_inflated_bytes_of_pickles_and_code(monkeypatch):
    data = forge(packed("root/data.pkl", bytes(9_000)), packed("root/a.py", bytes(1_000)))
    monkeypatch.setattr(caps, "FREE_PARSED_BYTES", 9_000)
    is_accepted(data, "zip-compression")
    monkeypatch.setattr(caps, "FREE_PARSED_BYTES", 8_999)
    assert is_refused(data, "zip-bomb").limit == 8_999
    noise = packed("root/noise.py", random.Random(0).randbytes(100_000))
    bomb = packed("root/data.pkl", bytes(9_000))
    assert is_refused(forge(noise, bomb), "zip-bomb").limit == 8_999
    is_accepted(forge(packed("root/data/0", bytes(90_000))), "zip-compression")


def test_stored_data_is_no_bomb(monkeypatch):
    monkeypatch.setattr(caps, "FREE_INFLATED_BYTES", 10)
    is_accepted(forge(member("root/data/0", bytes(40_000))))


def test_caps_hold_before_anything_is_allocated():
    wide = field(1, struct.pack("<Q", 2**62))
    data = forge(member(method=8, central={"size": MAX32, "extra": wide}))
    tracemalloc.start()
    try:
        is_refused(data, "zip-bomb")
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.sample(1)
@pytest.mark.parametrize("declared", [1000, 200_000_000])
def test_a_survey_keeps_no_more_than_a_piece_of_a_record(declared):
    content = bytes(100_000_000)
    data = forge(packed("root/data/0", content, size=declared))
    source = io.BytesIO(data)
    del content
    tracemalloc.start()
    try:
        with survey(source) as found:
            rules = {finding.rule for finding in found.findings}
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()
    assert rules & {"zip-inflates-to-more", "zip-inflates-to-less"}
