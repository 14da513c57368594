"""Damaged archives: every damage is a typed error or does no harm; no wrong data is read."""

from __future__ import annotations

import io
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsarchive.container import Container, NewRecord, write_container
from tsarchive.errors import FormatError, MissingRecordError, UnsupportedError

REFUSALS = (FormatError, UnsupportedError, MissingRecordError)

RECORDS = {
    "data/0": bytes(range(48)),
    "empty": b"",
    "code/a.py": b"def f(x: int) -> int:\n" * 12,
    "version": b"3\n",
}


def torch_layout():
    """Descriptors, padding and a ZIP64 end."""
    target = io.BytesIO()
    new = [NewRecord(name, data, deflate=name.endswith(".py")) for name, data in RECORDS.items()]
    write_container(target, new, root="m")
    return target.getvalue()


def zipfile_layout():
    """Sizes in the local headers, other methods, a comment."""
    target = io.BytesIO()
    methods = [zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2]
    with zipfile.ZipFile(target, "w") as archive:
        for (name, data), method in zip(RECORDS.items(), methods, strict=True):
            archive.writestr(zipfile.ZipInfo(f"m/{name}"), data, method)
        archive.comment = b"note"
    return target.getvalue()


def read_all(data):
    with Container.open(io.BytesIO(data)) as container:
        return {name: container.read(name) for name in container.records}


ARCHIVES = {"torch": torch_layout(), "zipfile": zipfile_layout()}
CONTENTS = {layout: read_all(data) for layout, data in ARCHIVES.items()}


def outcome(data, expected):
    """Read all of an archive; what is read under a name must be what was written."""
    try:
        container = Container.open(io.BytesIO(data))
    except REFUSALS:
        return "refused"
    read = {}
    for name in container.records:
        try:
            read[name] = container.read(name)
        except REFUSALS:
            continue
    assert read.items() <= expected.items()
    return "read" if read == expected else "partly read"


@pytest.mark.parametrize("layout", ARCHIVES)
def test_the_undamaged_archives_are_read(layout):
    expected = CONTENTS[layout]
    assert {name: expected[name] for name in RECORDS} == RECORDS
    assert outcome(ARCHIVES[layout], expected) == "read"


@pytest.mark.parametrize("layout", ARCHIVES)
def test_every_truncation_is_refused(layout):
    data = ARCHIVES[layout]
    for length in range(len(data)):
        assert outcome(data[:length], {}) == "refused", length


@pytest.mark.parametrize("layout", ARCHIVES)
def test_every_removed_byte_is_noticed(layout):
    data = ARCHIVES[layout]
    for position in range(len(data)):
        shorter = data[:position] + data[position + 1 :]
        assert outcome(shorter, CONTENTS[layout]) == "refused", position


@pytest.mark.parametrize("layout", ARCHIVES)
@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_no_flipped_byte_gives_wrong_data(layout, flip):
    outcomes = set()
    for position in range(len(ARCHIVES[layout])):
        damaged = bytearray(ARCHIVES[layout])
        damaged[position] ^= flip
        outcomes.add(outcome(bytes(damaged), CONTENTS[layout]))
    # Some bytes mean nothing: times, attributes, padding.
    assert outcomes == {"refused", "partly read", "read"}


PATCHES = st.lists(st.tuples(st.integers(0, 1500), st.binary(min_size=1, max_size=8)), max_size=4)


@given(st.sampled_from(sorted(ARCHIVES)), PATCHES)
def test_overwriting_raises_nothing_else(layout, patches):
    """Several places may come to agree on other contents, so only their length is compared."""
    damaged = bytearray(ARCHIVES[layout])
    for position, patch in patches:
        start = position % len(damaged)
        damaged[start : start + len(patch)] = patch
    try:
        with Container.open(io.BytesIO(damaged)) as container:
            for name, record in container.records.items():
                assert len(container.read(name)) == record.size
    except REFUSALS:
        return


@given(st.binary(max_size=200), st.sampled_from([b"", *(data[-98:] for data in ARCHIVES.values())]))
def test_noise_is_refused(noise, tail):
    with pytest.raises(REFUSALS):
        read_all(noise + tail)
