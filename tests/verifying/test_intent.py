"""What is called hostile: only what damage does not do to a sound file."""

from __future__ import annotations

import csv
import io
import random
import re
import struct
import zipfile
import zlib

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.container.forging import forge, member
from tests.support.archives import ARCHIVES, FIXTURES, records_of
from tests.support.suite import examples, sampled, thinned
from tests.support.verifying import packed, records, verified, zipped
from tsarchive.auditing.files import audit
from tsarchive.findings import Nature, Severity

SMALL = ARCHIVES / "trace_function.pt"
RECORDS = records(SMALL)
TENSORS = records(ARCHIVES / "pre_hook.pt")


def checkpoint() -> bytes:
    written = io.BytesIO()
    torch.save({"weight": torch.ones(3)}, written)
    return written.getvalue()


def nested() -> bytes:
    """An archive in an archive, and records whose names differ in a bit."""
    inner = zipped({"data.pkl": b"\x80\x02)."}, method=zipfile.ZIP_DEFLATED)
    return packed({**RECORDS, "extra/A": b"a", "extra/B": b"b", "extra/inner.zip": inner})


def with_own_classes() -> bytes:
    """Code whose class has a name as one of torch's own, which backends lower modules to."""
    renamed = {
        name.replace("__torch__", "torch/jit"): data.replace(b"__torch__", b"torch.jit")
        for name, data in RECORDS.items()
        if not name.endswith(".debug_pkl")
    }
    return zipped(renamed)


def without_checksums() -> bytes:
    return forge(*(member(f"m/{name}", data, crc=0) for name, data in RECORDS.items()))


# Sound files of every kind of container that is read, as small as they come.
SOUND = {
    "torch": SMALL.read_bytes(),
    "torch 1.5": (FIXTURES / "old/1.5.1/full_integers.pt").read_bytes(),
    "torch 1.0": (FIXTURES / "legacy/raising-1.0.1.pt").read_bytes(),
    "torch.export": (FIXTURES / "pt2/linear.pt2").read_bytes(),
    "torch.save": checkpoint(),
    "stored": zipped(RECORDS),
    "deflated": zipped(RECORDS, method=zipfile.ZIP_DEFLATED),
    "tensors": packed(TENSORS),
    "deflated tensors": zipped(TENSORS, method=zipfile.ZIP_DEFLATED),
    "no checksums": without_checksums(),
    "own classes": with_own_classes(),
    "nested": nested(),
    "program": (FIXTURES / "executorch/add.pte").read_bytes(),
    "bundle": (FIXTURES / "executorch/linear.bpte").read_bytes(),
    "data": (FIXTURES / "executorch/data.ptd").read_bytes(),
}
SLICES = 4
# In bits: a bit of every other byte, and of every thirteenth; odd, so that each has its turn.
STRIDE, LONG_STRIDE = 19, 105


def hostile(data: bytes) -> list[str]:
    return [f.message for f in verified(data).findings if f.nature is Nature.HOSTILE]


@pytest.mark.parametrize("part", range(SLICES))
@pytest.mark.parametrize("name", SOUND)
def test_no_flipped_bit_is_called_hostile(name, part):
    data = bytearray(SOUND[name])
    for bit in range(part, 8 * len(data), STRIDE * thinned(SLICES)):
        data[bit // 8] ^= 1 << bit % 8
        assert not hostile(bytes(data)), bit
        data[bit // 8] ^= 1 << bit % 8


@pytest.mark.parametrize("name", sorted(SOUND.keys() - {"no checksums", "own classes"}))
def test_audit_calls_no_flipped_bit_hostile(name):
    """Damage shows in checksums; without them names in pickles are judged as they stand."""
    data = bytearray(SOUND[name])
    for bit in range(0, 8 * len(data), LONG_STRIDE * thinned(1)):
        data[bit // 8] ^= 1 << bit % 8
        found = audit(io.BytesIO(bytes(data))).findings
        assert not [f for f in found if f.nature is Nature.HOSTILE], bit
        data[bit // 8] ^= 1 << bit % 8


def test_audit_of_damaged_pickles_still_says_what_they_call():
    pickle = b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00ls\x85R."
    data = bytearray(packed({**RECORDS, "data.pkl": pickle}))
    assert audited(data, "pickle-call") == [("error", "hostile")]
    data[data.index(b"ls\x85R")] ^= 1
    assert audited(data, "pickle-call") == [("error", "inconsistent")]


def audited(data: bytearray, rule: str) -> list[tuple[str, str]]:
    found = audit(io.BytesIO(bytes(data))).findings
    return [(f.severity.value, f.nature.value) for f in found if f.rule == rule]


def overwritten(data: bytearray, start: int, end: int, rng: random.Random) -> None:
    data[start:end] = rng.randbytes(len(data[start:end]))


def zeroed(data: bytearray, start: int, end: int, _rng: random.Random) -> None:
    data[start:end] = bytes(len(data[start:end]))


def lost(data: bytearray, start: int, end: int, _rng: random.Random) -> None:
    del data[start:end]


def inserted(data: bytearray, start: int, end: int, rng: random.Random) -> None:
    data[start:start] = rng.randbytes(end - start)


def misplaced(data: bytearray, start: int, end: int, rng: random.Random) -> None:
    """Bytes of another place of the file."""
    length = len(data[start:end])
    source = rng.randrange(len(data) - length + 1)
    data[start:end] = data[source : source + length]


# Fields of directory entries and local headers: flags, CRC-32, sizes, lengths and the place.
FIELDS = {b"PK\x01\x02": (8, 16, 20, 24, 28, 42), b"PK\x03\x04": (6, 14, 18, 22, 26)}
# What these are in bytes: CRC-32 and sizes, a descriptor, one of 64 bits, and a sector.
LENGTHS = (4, 8, 12, 20, 24, 512)


def places(data: bytes) -> list[int]:
    """Where fields of headers begin."""
    return [
        found.start() + offset
        for signature, offsets in FIELDS.items()
        for found in re.finditer(re.escape(signature), data)
        for offset in offsets
    ]


@pytest.mark.whole
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", [name for name, data in SOUND.items() if data[:2] == b"PK"])
def test_no_damage_to_fields_of_a_header_is_called_hostile(name, length):
    sound, rng = SOUND[name], random.Random(length)
    for start in sampled(places(sound), 12):
        for damage in (zeroed, overwritten, misplaced):
            data = bytearray(sound)
            damage(data, start, start + length, rng)
            assert not hostile(bytes(data)), (damage, start)


def test_the_member_of_zeroed_numbers_is_in_doubt():
    """Without its sizes a member is empty, and what was its data looks like a hidden one."""
    data = bytearray(nested())
    start = data.rindex(b"PK\x01\x02", 0, data.rindex(b"extra/inner.zip")) + 16
    data[start : start + 12] = bytes(12)
    assert natures(bytes(data), "zip-hidden-entry") == {Nature.INCONSISTENT}
    assert natures(bytes(data), "zip-descriptor") == {Nature.INCONSISTENT}


def test_a_class_may_be_that_of_code_that_is_damaged():
    data = bytearray(with_own_classes())
    data[data.index(b"class PlaceholderModule")] ^= 1
    assert natures(bytes(data), "pickle-global") == {Nature.INCONSISTENT}
    lacking = zipped({**records_of(with_own_classes()), "code/torch/jit.py": b""})
    assert natures(lacking, "pickle-global") == {Nature.HOSTILE}


def test_a_name_that_is_computed_is_of_no_lost_class():
    pickle = b"\x80\x02X\x02\x00\x00\x00osq\x00)X\x06\x00\x00\x00system\x93)R."
    data = bytearray(zipped({**RECORDS, "data.pkl": pickle}))
    data[data.index(b"class PlaceholderModule")] ^= 1
    assert natures(bytes(data), "pickle-global") == {Nature.HOSTILE}


def test_damage_to_a_record_excuses_its_size():
    """The size of a deflated record in the directory alone, which storages are held against."""
    data = bytearray(SOUND["deflated tensors"])
    at = data.rindex(b"PK\x01\x02", 0, data.rindex(b"data/0")) + 24
    data[at] ^= 1 << 3
    assert natures(bytes(data), "tensor-storage-size") == {Nature.INCONSISTENT}
    longer = {**TENSORS, "data/0": TENSORS["data/0"] + bytes(8)}
    assert natures(packed(longer), "tensor-storage-size") == {Nature.HOSTILE}


@settings(max_examples=examples(2000), suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(sorted(SOUND)),
    st.sampled_from([overwritten, zeroed, lost, inserted, misplaced]),
    st.sampled_from([1, 2, 4, 8, 12, 16, 20, 24, 64, 512]),
    st.randoms(use_true_random=False),
)
def test_no_burst_of_damage_is_called_hostile(name, damage, length, rng):
    data = bytearray(SOUND[name])
    start = rng.randrange(len(data))
    damage(data, start, start + length, random.Random(rng.getrandbits(64)))
    assert not hostile(bytes(data))


# Samples that were forged and contradict themselves, which damage does as well: the places that
# differ, or are not there.
LIKE_DAMAGE = {
    "zip-overlap": "the local header at that place is of another member",
    "zip-local-name": "the local header and the directory",
    "zip-local-method": "the local header and the directory",
    "zip-local-size": "the local header and the directory",
    "zip-encrypted": "the sizes in the local header and the directory",
    "zip-size-64-missing": "the descriptor and the directory",
    "zip-size-lie": "the descriptor and the directory",
    "zip-end-entries": "the two forms of the end record",
    "zip-end-offset": "the two forms of the end record",
    "zip-end-64": "the two forms of the end record",
    "zip-volumes": "the two forms of the end record",
    "zip-second-end-in-comment": "the ZIP64 locator and what it points at",
    "zip-bomb-lying": "the end of the compressed data and its size",
}
OTHERS = {
    **dict.fromkeys(
        ["zip-crc", "zip-locator", "zip-second-archive-behind", "zip-junk-behind"], "broken"
    ),
    **dict.fromkeys(["zip-re-zipped", "zip-unknown-method", "zip-two-roots"], "unusual"),
    "zip-nested-bombs": "sound",  # zips in records that nobody unpacks
    **dict.fromkeys(LIKE_DAMAGE, "inconsistent"),
}

with (FIXTURES / "hostile" / "MANIFEST.tsv").open(encoding="utf-8", newline="") as file:
    FORGED = [
        row["name"]
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        if row["layer"] == "container"
    ]


@pytest.mark.whole
@pytest.mark.parametrize("name", FORGED)
def test_forged_containers_are_hostile_where_damage_does_not_explain_them(name):
    found = verified((FIXTURES / "hostile" / f"{name}.pt").read_bytes()).verdict
    assert found == OTHERS.get(name, "hostile")


def test_the_tables_name_samples_that_there_are():
    assert OTHERS.keys() <= set(FORGED)


def natures(data: bytes, rule: str) -> set[Nature]:
    return {finding.nature for finding in verified(data).findings if finding.rule == rule}


BAD = b"root/../x"


def test_a_bad_name_is_meant_where_both_headers_tell_it():
    assert natures(forge(member(), member(BAD)), "zip-bad-name") == {Nature.HOSTILE}
    once = forge(member(), member("root/b", central={"name": BAD}))
    assert natures(once, "zip-bad-name") == {Nature.INCONSISTENT}


def test_damage_elsewhere_does_not_excuse_a_bad_name():
    damaged = member("root/b", crc=1)
    report = verified(forge(damaged, member(BAD)))
    assert {"zip-crc", "zip-bad-name"} <= {finding.rule for finding in report.findings}
    assert report.verdict == "hostile"


def test_damage_elsewhere_excuses_where_members_lie():
    hidden = forge(member("root/hidden"))
    gap = hidden[: hidden.index(b"PK\x01\x02")]
    assert natures(forge(member(), gap=gap), "zip-hidden-entry") == {Nature.HOSTILE}
    damaged = forge(member("root/b", crc=1), member(), gap=gap)
    assert natures(damaged, "zip-hidden-entry") == {Nature.INCONSISTENT}


def test_a_second_record_of_a_name_is_meant_where_its_own_header_tells_it():
    twice = forge(member(), member())
    assert natures(twice, "zip-duplicate-name") == {Nature.HOSTILE}
    renamed = forge(member("root/b", central={"name": b"root/a"}), member())
    assert natures(renamed, "zip-duplicate-name") == {Nature.INCONSISTENT}


def test_a_size_is_meant_where_headers_and_data_bear_it_out():
    """Two megabytes of zeros in the record of the version, and a directory that says so."""
    encoder = zlib.compressobj(9, zlib.DEFLATED, -15)
    content = bytes(2 << 20)
    truth = {"method": 8, "size": len(content), "crc": zlib.crc32(content)}
    data = encoder.compress(content) + encoder.flush()
    rule = "zip-large-record"
    assert natures(forge(member("root/version", data, **truth)), rule) == {Nature.HOSTILE}
    once = member("root/version", data, **truth, local={"size": 3})
    assert natures(forge(once), rule) == {Nature.INCONSISTENT}


def test_contradictions_of_damaged_data_are_broken():
    data = forge(member(crc=1, local={"crc": 2}))
    assert {f.nature for f in verified(data).findings if f.severity is Severity.ERROR} == {
        Nature.BROKEN
    }


def test_findings_that_are_left_out_count():
    """A contradiction that is not kept excuses the names of the directory all the same."""
    names = [f"root/{number:03}" for number in range(120)]
    members = [member(name, local={"crc": 1}) for name in names[:-1]]
    members.append(member(names[-1], local={"crc": 1}, central={"name": BAD}))
    report = verified(forge(*members))
    assert natures(forge(*members), "zip-bad-name") == {Nature.INCONSISTENT}
    assert report.verdict == "inconsistent"
    assert any("left out" in f.message for f in report.findings if f.rule == "zip-local-header")


def with_second_directory(data: bytes, offset: int) -> bytes:
    """A second directory and end in the comment, which tell of the same records."""
    end = data.rindex(b"PK\x05\x06")
    size, start = struct.unpack_from("<2L", data, end + 12)
    second = bytearray(data[start:])
    struct.pack_into("<L", second, size + 16, offset)
    return data[:-2] + struct.pack("<H", len(second)) + bytes(second)


def test_a_second_end_is_meant_where_it_has_a_directory_of_its_own():
    data = zipped(RECORDS)
    rule = "zip-several-ends"
    assert natures(with_second_directory(data, len(data)), rule) == {Nature.HOSTILE}
    assert natures(with_second_directory(data, 7), rule) == {Nature.INCONSISTENT}
