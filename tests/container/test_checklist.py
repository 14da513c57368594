"""The checklist for zip archives: each row a test of opening, reading and surveying.

Both sides of each boundary; and what torch and zipfile do where they differ. Here: where the parts
of an archive lie.
"""

from __future__ import annotations

import io
import re
import struct
from pathlib import Path

import pytest
import torch

from tests.container.checking import (
    PLAIN,
    is_accepted,
    is_refused,
    read_all,
    surveyed,
    torch_reads,
    with_comment,
    zipfile_reads,
)
from tests.container.forging import (
    FORMS,
    HELLO,
    MAX32,
    descriptor,
    field,
    forge,
    member,
    unknown_sizes,
)
from tsarchive.container import faults
from tsarchive.container.faults import RULES
from tsarchive.container.recognise import FILE_RULES
from tsarchive.errors import ArchiveError, FormatError
from tsarchive.findings import Nature

# More than one end record, junk after it, prefix.


def test_more_than_one_end_record():
    end = PLAIN[-22:]
    # Complete up to the end of the file, and one that only readers from the back would take.
    for comment in (end, end[:-2] + b"\1\0", end + b"x"):
        error = is_refused(with_comment(PLAIN, comment), "zip-several-ends")
        assert error.offset == len(PLAIN) - 22
    # A signature alone is no record: 21 bytes are one too few.
    is_accepted(with_comment(PLAIN, end[:-1]), "zip-comment")


def test_a_whole_archive_as_a_record_is_no_second_end():
    is_accepted(forge(member("root/inner", PLAIN)))


def test_junk_after_the_end_record():
    for junk in (b"\0", b"\n", b"junk", bytes(65_000)):
        error = is_refused(PLAIN + junk, "zip-appended")
        assert error.offset == len(PLAIN) - 22
    # Farther away than a comment can be long, the end record is not looked for.
    is_refused(PLAIN + bytes(65_536), "file-cut-short")
    is_refused(with_comment(PLAIN, b"note")[:-1], "zip-cut-comment")
    is_accepted(with_comment(PLAIN, b"note"), "zip-comment")


def test_torch_takes_a_file_with_junk_behind():
    assert torch_reads(PLAIN + b"junk", "version") == b"3\n"


def shifted(prefix, content=b"3\n"):
    """An archive behind other bytes, its offsets counted from the first of them."""
    ahead = len(prefix)
    data = forge(member("root/version", content, central={"offset": ahead}))
    place = data.index(b"PK\x01\x02") + ahead
    return prefix + data[:-6] + struct.pack("<L", place) + data[-2:]


def test_prefix_before_the_first_entry():
    is_accepted(shifted(b""))
    for prefix in (b"\0", b"#!/bin/sh\n", PLAIN):
        assert is_refused(shifted(prefix), "zip-prefix").offset == 0
    is_refused(b"#" + PLAIN, "zip-directory-place")


def test_torch_and_zipfile_take_a_file_with_a_prefix():
    data = shifted(b"#!/bin/sh\n")
    assert torch_reads(data, "version") == b"3\n"
    assert zipfile_reads(data, "root/version") == b"3\n"


def test_torch_and_zipfile_take_the_archive_in_the_comment():
    inner = shifted(PLAIN, b"4\n")[len(PLAIN) :]
    data = with_comment(PLAIN, inner)
    is_refused(data, "zip-several-ends")
    assert torch_reads(data, "version") == zipfile_reads(data, "root/version") == b"4\n"


# ZIP64.


def test_zip64_locator_or_end_record_inconsistent_with_the_end_record():
    where = forge(member(), wide=True).index(b"PK\x06\x06")
    is_accepted(forge(member(), wide=True, locator={"offset": where}))
    for lie in (where - 1, where + 1, 0, 2**63):
        is_refused(forge(member(), wide=True, locator={"offset": lie}), "zip-locator64")
    for length in (43, 45, 0, 2**63):
        is_refused(forge(member(), wide=True, end64={"n": length}), "zip-end64-length")
    for name in ("here", "entries", "dir_size", "dir_offset", "disk", "dir_disk"):
        is_refused(forge(member(), wide=True, end={name: 7}), "zip-end64-differs")


def test_wide_marks_without_the_zip64_field():
    fits = field(1, struct.pack("<2Q", 5, 5))
    is_accepted(forge(member(stored=MAX32, size=MAX32, extra=fits)))
    for extra in (b"", fits[:-8], fits + b"\0" * 8, field(1, fits[4:12]), field(2, fits[4:])):
        both = {"stored": MAX32, "size": MAX32}
        rules = {f.rule for f in surveyed(forge(member(central={**both, "extra": extra})))}
        assert rules & {"zip-field64", "zip-extra-field"}
        with pytest.raises(FormatError):
            read_all(forge(member(central={**both, "extra": extra})))


def test_short_or_duplicated_extra_fields():
    once = field(7, b"abc")
    is_accepted(forge(member(central={"extra": once})))
    is_accepted(forge(member(central={"extra": once + field(8, b"abc")})))
    for extra in (once + once, once[:-1], once + b"\0", once[:3]):
        is_refused(forge(member(central={"extra": extra})), "zip-extra-field")


# The directory.


def test_directory_outside_of_the_file():
    place = forge(member()).index(b"PK\x01\x02")
    is_accepted(forge(member(), end={"dir_offset": place}))
    for lie in (place - 1, place + 1, 0, 2**32 - 2):
        is_refused(forge(member(), end={"dir_offset": lie}), "zip-directory-place")


def test_count_or_size_of_the_directory_not_as_declared():
    two = [member(), member("root/b")]
    is_accepted(forge(*two, end={"here": 2, "entries": 2}))
    for count in (1, 3):
        is_refused(forge(*two, end={"here": count, "entries": count}), "zip-entry-count")
    size = 2 * (46 + 6)
    is_accepted(forge(*two, end={"dir_size": size}))
    for lie in (size - 1, size + 1):
        is_refused(forge(*two, end={"dir_size": lie}), "zip-directory-place")
    is_refused(forge(), "zip-no-records")


def test_gaps_that_padding_does_not_explain_are_reported():
    is_accepted(forge(member(), gap=b""))
    is_accepted(forge(member(), gap=b"x"), "zip-gap")
    is_accepted(forge(member(), gap=bytes(5)), "zip-padding")
    hidden = member("root/hidden", b"unseen")
    whole = forge(hidden)
    data = forge(member(), gap=whole[: whole.index(b"PK\x01\x02")])
    is_accepted(data, "zip-hidden-entry")
    (found,) = (finding for finding in surveyed(data) if finding.rule == "zip-hidden-entry")
    assert (found.nature, found.record, found.offset) == (Nature.HOSTILE, "a", 41)


def test_the_padding_of_torch_is_no_gap():
    target = io.BytesIO()
    torch.jit.save(torch.jit.trace(torch.nn.Linear(3, 2), torch.ones(1, 3)), target)
    assert surveyed(target.getvalue()) == ()


def test_entries_that_the_directory_cuts_short():
    entry = member("root/" + "a" * 60)
    is_accepted(forge(entry))
    is_refused(forge(entry, end={"here": 2, "entries": 2}), "zip-directory-entry")
    for wrong in ({"sig": b"PK\1\3"}, {"name_n": 66}, {"extra_n": 1}, {"comment_n": 1}):
        is_refused(forge(member(), member("root/b", central=wrong)), "zip-directory-entry")


def test_comments_of_entries_are_reported():
    data = forge(member())
    place = data.index(b"PK\1\2")
    end = data.index(b"PK\5\6")
    directory = data[place : place + 32] + b"\4\0" + data[place + 34 : end] + b"note"
    size = struct.pack("<L", len(directory))
    is_accepted(data[:place] + directory + data[end:-10] + size + data[-6:], "zip-entry-comment")


# Where entries lie.


def test_entries_overlapping_each_other_the_directory_or_the_end():
    first = member(data=b"x" * 50)
    is_accepted(forge(first, member("root/b", central={"offset": 86})))
    for offset in (85, 36, 1):
        data = forge(first, member("root/b", central={"offset": offset}))
        assert is_refused(data, "zip-overlap").offset == 0
    place = forge(member()).index(b"PK\x01\x02")
    for offset in (place, place + 10, 2**32 - 2):
        is_refused(forge(member(central={"offset": offset})), "zip-prefix")
    for size in (6, 2**32 - 2):
        is_refused(forge(member(stored=size, size=size)), "zip-overlap")


def test_local_extra_fields_that_reach_into_the_next_entry():
    second = member("root/b")
    is_accepted(forge(member(local={"extra": field(7, bytes(4))}), second))
    is_refused(forge(member(local={"extra_n": 1}), second), "zip-local-header")


def test_shared_local_header():
    data = forge(member(), member("root/b", central={"offset": 0}))
    is_refused(data, "zip-shared-header")


def test_bytes_shared_by_many_entries_are_read_once():
    """A quoted overlap: each entry says that it reaches to the end of the last."""
    kernel = b"\0" * 4000
    entries = [member(f"root/{index:03}", kernel) for index in range(2)]
    many = [
        member(f"root/{index:03}", b"", stored=4000, size=4000, central={"offset": 30 * index})
        for index in range(200)
    ]
    found = surveyed(forge(*entries, *many))
    assert {"zip-overlap"} <= {finding.rule for finding in found}
    # A hundred findings of a rule are listed, the others are counted.
    overlaps = [finding.message for finding in found if finding.rule == "zip-overlap"]
    assert len(overlaps) == 101
    assert "more findings" in overlaps[-1]


# Local against central.

LOCAL_LIES = {
    "name": {"name": b"root/b"},
    "letter case of the name": {"name": b"root/A"},
    "length of the name": {"name": b"root/aa"},
    "method": {"method": 8},
    "encryption flag": {"flags": 1},
    "descriptor flag": {"flags": 8},
    "UTF-8 flag": {"flags": 0x800},
    "size": {"size": 4},
    "stored size": {"stored": 6},
    "CRC-32": {"crc": HELLO ^ 1},
}


@pytest.mark.parametrize("lie", LOCAL_LIES)
def test_local_against_central(lie):
    error = is_refused(forge(member(), member("root/z", local=LOCAL_LIES[lie])), "zip-local-header")
    assert (error.record, error.offset) == ("z", 41)


def test_local_header_without_signature():
    is_refused(forge(member(local={"sig": b"PK\x03\x05"})), "zip-no-local-header")


@pytest.mark.parametrize("form", FORMS)
def test_descriptor_forms(form):
    is_accepted(forge(member(**unknown_sizes(), descriptor=descriptor(form))))
    for lie in ({"crc": HELLO ^ 1}, {"stored": 4}, {"size": 6}):
        data = forge(member(**unknown_sizes(), descriptor=descriptor(form, **lie)))
        assert is_refused(data, "zip-descriptor").offset == 41
    overwritten = member(**unknown_sizes(), descriptor=bytes(len(descriptor(form))))
    assert is_refused(forge(overwritten), "zip-no-descriptor").offset == 41
    cut = descriptor(form)[:-1]
    assert {f.rule for f in surveyed(forge(member(**unknown_sizes(), descriptor=cut)))} & {
        "zip-descriptor",
        "zip-overlap",
    }


def test_the_descriptor_of_torch_is_accepted():
    """Zero sizes, a ZIP64 field of eight bytes, and a descriptor of 64 bit numbers."""
    extra = field(1, struct.pack("<Q", 0))
    is_accepted(forge(member(**unknown_sizes(extra=extra), descriptor=descriptor("64 bits"))))


@pytest.mark.parametrize("form", FORMS)
def test_a_descriptor_of_no_data_is_no_gap(form):
    empty = descriptor(form, crc=0, stored=0, size=0)
    is_accepted(forge(member(data=b"", flags=8, descriptor=empty)))
    is_accepted(forge(member(data=b"", flags=8)))


@pytest.mark.parametrize("form", FORMS)
def test_a_descriptor_that_counts_data_contradicts_an_empty_entry(form):
    empty = {"crc": 0, "stored": 0, "size": 0}
    data = forge(member(**unknown_sizes(), central=empty, descriptor=descriptor(form)))
    assert is_refused(data, "zip-descriptor").offset == 36


def test_a_checksum_may_be_the_signature_of_descriptors():
    signature = struct.unpack("<L", b"PK\x07\x08")[0]
    lying = member(flags=8, crc=signature, descriptor=descriptor("32 bits"))
    assert "zip-descriptor" in {finding.rule for finding in surveyed(forge(lying))}


def test_checksums_that_were_not_written_are_noted():
    is_accepted(forge(member(crc=0), member("root/b", crc=0)), "zip-no-crc")
    is_accepted(forge(member(), member("root/data/0", crc=0)), "zip-no-crc")
    is_refused(forge(member(), member("root/b", crc=0)), "zip-crc")


# The table of rules.

SOURCES = Path(faults.__file__).parent


def test_every_rule_of_the_table_is_held_and_no_other():
    named = re.compile(r'"((?:zip|file)-[a-z0-9-]+)"')
    code = [path.read_text() for path in SOURCES.glob("*.py") if path.name != "faults.py"]
    assert set(named.findall("".join(code))) == set(RULES)
    assert all(issubclass(rule.error, ArchiveError) for rule in RULES.values())


def test_every_rule_has_been_seen_by_these_tests():
    text = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    assert not {rule for rule in RULES if rule not in text and rule not in FILE_RULES}
