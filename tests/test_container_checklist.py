"""The checklist for zip archives: each row a test of opening, reading and surveying.

Both sides of each boundary; and what torch and zipfile do where they differ.
"""

from __future__ import annotations

import io
import lzma
import random
import re
import struct
import sys
import tracemalloc
import zipfile
import zlib
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from zip_forging import FORMS, HELLO, MAX32, descriptor, field, forge, member, pack, unknown_sizes

from tsarchive.container import Container, NewRecord, caps, rules, survey, write_container
from tsarchive.container.names import MAX_NAME_BYTES, alike, is_plain, name_problem
from tsarchive.container.recognise import FILE_RULES
from tsarchive.container.rules import RULES
from tsarchive.errors import ArchiveError, FormatError, UnsupportedError
from tsarchive.findings import Nature, Severity


def read_all(data):
    with Container.open(io.BytesIO(data)) as container:
        return {name: container.read(name) for name in container.records}


def surveyed(data):
    with survey(io.BytesIO(data)) as found:
        return found.findings


def is_refused(data, rule, kind=FormatError):
    """Opening or reading raises; the survey has the finding of this rule, which says where."""
    with pytest.raises(kind) as caught:
        read_all(data)
    assert RULES[rule].error is kind
    found = [finding for finding in surveyed(data) if finding.rule == rule]
    assert found
    assert all(finding.severity is Severity.ERROR for finding in found)
    if caught.value.message in {finding.message for finding in found}:
        place = {(finding.record, finding.offset) for finding in found}
        assert (caught.value.record, caught.value.offset) in place or caught.value.record
    return caught.value


def is_accepted(data, *rules):
    """Everything reads, and the survey finds no more than these rules, none of them an error."""
    records = read_all(data)
    found = [finding for finding in surveyed(data) if finding.rule not in HARMLESS]
    assert {finding.rule for finding in found} == set(rules)
    assert all(finding.severity is not Severity.ERROR for finding in found)
    return records


# What forged archives have because they are small: nothing in them is aligned.
HARMLESS = {"zip-alignment"}


def torch_reads(data, name):
    return torch._C.PyTorchFileReader(io.BytesIO(data)).get_record(name)


def zipfile_reads(data, name):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return archive.read(name)


# More than one end record, junk after it, prefix.


def with_comment(data, comment):
    return data[:-2] + struct.pack("<H", len(comment)) + comment


PLAIN = forge(member("root/version", b"3\n"), member())


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
    is_refused(forge(member(local={"extra_n": 1}), second), "zip-overlap")


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


# Names.

SAME_FOR_SOME = {
    "letter case": "root/DATA.PKL",
    "letter case of the root": "root/Data.pkl",
    "empty component": "root//data.pkl",
    "dot component": "root/./data.pkl",
    "dot at the front": "./root/data.pkl",
    "backslash": "root\\data.pkl",
    "folder": "root/data.pkl/",
}


@pytest.mark.parametrize("variant", SAME_FOR_SOME)
def test_duplicate_names_after_normalising(variant):
    name = SAME_FOR_SOME[variant]
    data = forge(member("root/data.pkl"), member(name, b"" if name.endswith("/") else b"hello"))
    with pytest.raises(FormatError):
        read_all(data)
    (found,) = (finding for finding in surveyed(data) if finding.rule == "zip-alike-names")
    assert (found.nature, found.offset) == (Nature.HOSTILE, 48)


def test_duplicate_names_after_composing_accents():
    composed, apart = "root/\u00e9", "root/e\u0301"
    data = forge(member(composed, flags=0x800), member(apart, flags=0x800))
    is_refused(data, "zip-alike-names")
    is_refused(
        forge(member("root/ß", flags=0x800), member("root/SS", flags=0x800)), "zip-alike-names"
    )
    # Compatibility forms stay different names.
    is_accepted(forge(member("root/ﬁ", flags=0x800), member("root/f.i", flags=0x800)))


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_alike_forms_of_a_name_stay_as_they_are(name):
    assert alike(alike(name)) == alike(name)
    assert alike(name.upper().lower()) == alike(name.upper())


_NAMES = st.text(st.sampled_from("aZ./\\:\0~ é"), max_size=8) | st.text(max_size=8)


@given(_NAMES, st.sampled_from([0, MAX_NAME_BYTES]))
def test_a_plain_name_breaks_no_rule(name, padding):
    name += "x" * padding
    if is_plain(name):
        assert name_problem(name) is None
        assert alike(name) == name.lower()


@pytest.mark.parametrize("name", ["root/data.pkl", "r/code/__torch__/a b.py", "x" * MAX_NAME_BYTES])
def test_names_that_writers_give_are_plain(name):
    assert is_plain(name)


def test_duplicate_names():
    data = forge(member("root/a", b"first"), member("root/a", b"second"))
    assert is_refused(data, "zip-duplicate-name").offset == 41
    is_accepted(forge(member("root/a", b"first"), member("root/b", b"second")))


def test_zipfile_takes_the_second_of_two_entries_of_a_name():
    data = forge(member("root/version", b"3"), member("root/version", b"4"))
    is_refused(data, "zip-duplicate-name")
    assert zipfile_reads(data, "root/version") == b"4"


def test_torch_takes_names_that_differ_in_case_for_one():
    data = forge(
        member("root/version", b"3\n"), member("root/Foo.py"), member("root/foo.py", b"other")
    )
    assert torch_reads(data, "Foo.py") == torch_reads(data, "foo.py")


BAD_NAMES = {
    "absolute": ("/root/a", "root/a"),
    "absolute with a backslash": ("\\root", "root\\a"),
    "parent": ("root/../a", "root/..a"),
    "parent at the end": ("root/..", "root/a.."),
    "parent behind a backslash": ("root\\..\\a", "root\\...\\a"),
    "drive letter": ("C:/a", "root/C/a"),
    "drive letter below the root": ("root/c:a", "root/cc:a"),
    "absolute below the root": ("root//a", "root/b//a"),
    "NUL": ("root/a\0b", "root/a b"),
    "last control character": ("root/a\x1f", "root/a\x20"),
    "delete": ("root/a\x7f", "root/a\x7e"),
    "C1 control": ("root/a\x9f", "root/a\u00a1"),
    "reversed text": ("root/a\u202eyp.", "root/a\u202f"),
    "length": ("root/" + "a" * (MAX_NAME_BYTES - 4), "root/" + "a" * (MAX_NAME_BYTES - 5)),
    "length in UTF-8": (
        "root/" + "é" * (MAX_NAME_BYTES // 2 - 2),
        "root/" + "é" * (MAX_NAME_BYTES // 2 - 3) + "a",
    ),
}


@pytest.mark.parametrize("kind", BAD_NAMES)
def test_bad_names(kind):
    bad, good = BAD_NAMES[kind]
    is_refused(forge(member("root/first"), member(bad, flags=0x800)), "zip-bad-name")
    is_accepted(forge(member(good, flags=0x800)), *(() if "/" in good else ("zip-no-root",)))


def test_findings_show_no_control_characters():
    for finding in surveyed(forge(member("root/\x1b[2Ja\u202e"), member(b"root/\xff\xfe"))):
        assert finding.record is None or finding.record.isprintable()
        assert finding.message.isprintable()


def test_invalid_utf8_and_bit_11():
    encoded = "root/é".encode()
    is_accepted(forge(member(encoded, flags=0x800)))
    is_refused(forge(member(encoded)), "zip-name-encoding")
    is_accepted(forge(member(b"root/e", flags=0x800)))
    for bad in (b"root/\xff", b"root/\xed\xa0\x80", b"root/\xc0\xaf", encoded[:-1]):
        is_refused(forge(member(bad, flags=0x800)), "zip-name-encoding")
        is_refused(forge(member(bad)), "zip-name-encoding")


def test_a_second_name_in_an_extra_field():
    same = {"extra": field(0x7075, b"\1crc.root/a")}
    other = {"extra": field(0x7075, b"\1crc.root/b")}
    is_accepted(forge(member(central=same)))
    is_refused(forge(member(central=other)), "zip-second-name")


def test_more_than_one_root_folder():
    is_accepted(forge(member("root/a"), member("root/b")))
    for other in ("other/b", "b", "rootb", "root2/b"):
        data = forge(member("root/a"), member(other))
        assert is_refused(data, "zip-several-roots").record == other


def test_a_folder_named_like_that_of_torch_is_no_root_beside_records_without_one():
    tops = [member("data.pkl"), member("version")]
    assert set(is_accepted(forge(member("data/0"), *tops), "zip-no-root")) == {
        "data/0", "data.pkl", "version",
    }  # fmt: skip
    # Where torch would read the folder as the root, the records beside it are of another.
    for name in ("data/version", "data/VERSION", "data/Data.pkl"):
        is_refused(forge(member("data/0"), *tops, member(name)), "zip-several-roots")
    below = forge(member("data/VERSION", b"3\n"))
    assert torch_reads(below, "version") == b"3\n"


def test_torch_passes_over_other_root_folders():
    data = forge(member("root/version", b"3\n"), member("other/b"))
    assert torch_reads(data, "version") == b"3\n"


def test_folders_hold_no_data():
    is_accepted(forge(member("root/a"), member("root/b/", b"")), "zip-folders")
    is_refused(forge(member("root/a"), member("root/b/", b"x")), "zip-folder-data")


# Encryption, patches, volumes, methods.

UNREAD = {
    "encrypted": ({"flags": 1}, "zip-encrypted", "encrypted"),
    "strongly encrypted": ({"flags": 0x40}, "zip-encrypted", "encrypted"),
    "masked": ({"flags": 0x2000}, "zip-encrypted", "masked"),
    "patch": ({"flags": 0x20}, "zip-patch-data", "patch data"),
    "volume": ({"central": {"disk": 1}}, "zip-volumes", "volume"),
    **{
        name: ({"method": method}, "zip-method", rf"method {method} \({name}\)")
        for method, name in [(1, "shrunk"), (93, "Zstandard"), (95, "xz"), (777, "unknown")]
    },
}


@pytest.mark.parametrize("kind", UNREAD)
def test_encryption_patches_volumes_and_unknown_methods(kind):
    fields, rule, message = UNREAD[kind]
    error = is_refused(forge(member(), member("root/z", **fields)), rule, UnsupportedError)
    assert error.record.endswith("z")
    with pytest.raises(UnsupportedError, match=message):
        raise error


def test_several_volumes():
    for lie in ({"disk": 1}, {"dir_disk": 1}, {"entries": 2}):
        is_refused(forge(member(), end=lie), "zip-volumes", UnsupportedError)
    is_accepted(forge(member(), wide=True, locator={"disks": 1}))
    is_refused(forge(member(), wide=True, locator={"disks": 2}), "zip-volumes", UnsupportedError)


# Compression.


def deflate(data):
    encoder = zlib.compressobj(9, zlib.DEFLATED, -15)
    return encoder.compress(data) + encoder.flush()


def packed(name, content, **fields):
    data = deflate(content)
    crc = {"crc": zlib.crc32(content)}
    return member(name, data, method=8, stored=len(data), **{"size": len(content), **crc, **fields})


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


SOURCES = Path(rules.__file__).parent


def test_every_rule_of_the_table_is_held_and_no_other():
    named = re.compile(r'"((?:zip|file)-[a-z0-9-]+)"')
    code = [path.read_text() for path in SOURCES.glob("*.py") if path.name != "rules.py"]
    assert set(named.findall("".join(code))) == set(RULES)
    assert all(issubclass(rule.error, ArchiveError) for rule in RULES.values())


def test_every_rule_has_been_seen_by_these_tests():
    text = "".join(path.read_text() for path in Path(__file__).parent.glob("test_container_*.py"))
    assert not {rule for rule in RULES if rule not in text and rule not in FILE_RULES}
