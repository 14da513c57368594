"""The checklist for zip archives: names, and entries that are not read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.container.checking import (
    is_accepted,
    is_refused,
    read_all,
    surveyed,
    torch_reads,
    zipfile_reads,
)
from tests.container.forging import field, forge, member
from tsarchive.container.names import MAX_NAME_BYTES, fold_name, is_plain, name_problem
from tsarchive.errors import FormatError, UnsupportedError
from tsarchive.findings import Nature

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
    assert fold_name(fold_name(name)) == fold_name(name)
    assert fold_name(name.upper().lower()) == fold_name(name.upper())


_NAMES = st.text(st.sampled_from("aZ./\\:\0~ é"), max_size=8) | st.text(max_size=8)


@given(_NAMES, st.sampled_from([0, MAX_NAME_BYTES]))
def test_a_plain_name_breaks_no_rule(name, padding):
    name += "x" * padding
    if is_plain(name):
        assert name_problem(name) is None
        assert fold_name(name) == name.lower()


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
