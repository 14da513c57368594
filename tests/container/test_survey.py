"""The survey of zip archives as a whole, and archives packed again by hand."""

from __future__ import annotations

import io
import zipfile
import zlib

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.container.checking import (
    HARMLESS,
    is_accepted,
    read_all,
    surveyed,
)
from tests.container.forging import forge, member, pack
from tsarchive.container import Container, NewRecord, survey, write_container
from tsarchive.errors import ArchiveError, FormatError
from tsarchive.findings import Nature, Severity

# Archives packed again by hand.


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(64, 64))

    def forward(self, x):
        return x @ self.weight


def archive_records():
    target = io.BytesIO()
    torch.jit.save(torch.jit.script(Scaled()), target)
    return read_all(target.getvalue())


def rezipped(names, method=zipfile.ZIP_STORED, comment=b""):
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", method) as archive:
        for name, data in names:
            archive.writestr(zipfile.ZipInfo(name), data, method)
        archive.comment = comment
    return target.getvalue()


RECORDS = archive_records()
ITEMS = [(f"any name/{name}", data) for name, data in RECORDS.items()]
FOLDERS = [("any name/", b""), ("any name/data/", b"")]
MACOS = [("__MACOSX/", b""), ("__MACOSX/any name/._data.pkl", b"x"), (".DS_Store", b"x")]

# The entries, what the survey finds, and whether torch reads it.
REZIPPED = {
    "any root": (rezipped(ITEMS), set(), True),
    "no root": (rezipped(RECORDS.items()), {"zip-no-root"}, False),
    "other order": (rezipped(ITEMS[::-1]), set(), True),
    "deflate": (rezipped(ITEMS, zipfile.ZIP_DEFLATED), {"zip-compression"}, True),
    "bzip2": (rezipped(ITEMS, zipfile.ZIP_BZIP2), {"zip-compression"}, False),
    "lzma": (rezipped(ITEMS, zipfile.ZIP_LZMA), {"zip-compression"}, False),
    "folder entries": (rezipped(FOLDERS + ITEMS), {"zip-folders"}, True),
    "macOS": (rezipped(ITEMS + MACOS), {"zip-macos", "zip-folders"}, True),
    "macOS first": (rezipped(MACOS + ITEMS), {"zip-macos", "zip-folders"}, False),
    "DS_Store inside": (rezipped([*ITEMS, ("any name/.DS_Store", b"x")]), set(), True),
    "comment": (rezipped(ITEMS, comment=b"by hand"), {"zip-comment"}, True),
}


@pytest.mark.parametrize("kind", REZIPPED)
def test_archives_packed_again_are_read(kind):
    data, rules, torch_takes_it = REZIPPED[kind]
    read = is_accepted(data, *rules)
    assert RECORDS.items() <= read.items()
    assert all(finding.nature is Nature.UNUSUAL for finding in surveyed(data))
    try:
        torch.jit.load(io.BytesIO(data))
        loads = True
    except RuntimeError:
        loads = False
    assert loads == torch_takes_it


def test_deflate64_is_read():
    data = zlib.compressobj(9, zlib.DEFLATED, -15, 8, zlib.Z_HUFFMAN_ONLY)
    payload = data.compress(b"x" * 90) + data.flush()
    crc = zlib.crc32(b"x" * 90)
    whole = forge(member("root/data/0", payload, method=9, size=90, crc=crc))
    assert is_accepted(whole, "zip-compression") == {"data/0": b"x" * 90}


def test_entries_in_another_order_than_their_directory():
    one, other = member("root/a"), member("root/b")
    swapped = forge(
        {**one, "central": {**other["central"], "offset": 41}, "local": one["local"]},
        {**other, "central": {**one["central"], "offset": 0}, "local": other["local"]},
    )
    is_accepted(swapped, "zip-order")


@pytest.mark.parametrize(("length", "is_noted"), [(33, True), (34, False), (35, True)])
def test_stored_records_that_no_map_of_aligned_tensors_can_use_are_noted(length, is_noted):
    # The header before the name has 30 bytes.
    found = surveyed(forge(member("root/".ljust(length, "a"))))
    assert ("zip-alignment" in {finding.rule for finding in found}) == is_noted
    assert is_accepted(forge(member("root/".ljust(length, "a"))))


# The survey as a whole.


def test_the_survey_lists_what_opening_stops_at():
    data = forge(
        member("root/a", crc=1),
        member("root/../b"),
        member("root/A"),
        member("root/c", flags=1),
        member("root/d", local={"size": 3}),
        comment=b"note",
    )
    rules = {finding.rule for finding in surveyed(data)} - HARMLESS
    assert rules == {
        "zip-crc", "zip-bad-name", "zip-alike-names", "zip-encrypted", "zip-local-header",
        "zip-comment",
    }  # fmt: skip


def test_the_container_of_a_survey_is_open_when_strict_opening_takes_the_file():
    with survey(io.BytesIO(forge(member(), member("root/b", crc=1)))) as found:
        assert found.container.read("a") == b"hello"
        with pytest.raises(FormatError):
            found.container.read("b")
    with pytest.raises(ArchiveError, match="closed"):
        found.container.buffer()
    with survey(io.BytesIO(forge(member("root/../b")))) as found:
        assert found.container is None


def torch_layout():
    target = io.BytesIO()
    new = [NewRecord("data/0", bytes(range(48))), NewRecord("code/a.py", b"x = 1\n" * 50, True)]
    write_container(target, [*new, NewRecord("empty", b"")], root="m")
    return target.getvalue()


LAYOUTS = [torch_layout(), rezipped([("m/a", b"abc"), ("m/b/", b""), ("m/c", b"")], 8, b"note")]
PATCHES = st.lists(st.tuples(st.integers(0, 1500), st.binary(min_size=1, max_size=8)), max_size=4)


def opened_and_read(data):
    try:
        read_all(data)
    except ArchiveError:
        return False
    return True


@given(st.sampled_from(LAYOUTS), PATCHES, st.integers(0, 3), st.binary(max_size=4))
def test_the_survey_and_strict_reading_agree(data, patches, cut, tail):
    damaged = bytearray(data)
    for position, patch in patches:
        start = position % len(damaged)
        damaged[start : start + len(patch)] = patch
    damaged = bytes(damaged[: len(damaged) - cut]) + tail
    with survey(io.BytesIO(damaged)) as found:
        errors = [finding for finding in found.findings if finding.severity is Severity.ERROR]
        sound = opened_and_read(damaged)
        assert sound or errors
        if found.container is None:
            with pytest.raises(ArchiveError):
                Container.open(io.BytesIO(damaged))
        # Reading passes over the entries of folders; the survey does not.
        unread = [finding for finding in errors if finding.record != "b/"]
        assert bool(unread) == (not sound)


@given(
    st.binary(max_size=200), st.sampled_from([b"", LAYOUTS[0][-98:], pack("end", sig=b"PK\5\6")])
)
def test_noise_is_surveyed(noise, tail):
    found = survey(io.BytesIO(noise + tail))
    assert found.container is None
    assert any(finding.severity is Severity.ERROR for finding in found.findings)
