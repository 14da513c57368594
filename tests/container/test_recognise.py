"""Files that are no zip archives: the error says what they probably are."""

from __future__ import annotations

import io

import pytest

from tsarchive.container import Container, NewRecord, survey, write_container
from tsarchive.container.recognise import FILE_RULES, HEAD_BYTES, recognise
from tsarchive.errors import FormatError
from tsarchive.findings import Nature


def half_an_archive():
    target = io.BytesIO()
    write_container(target, [NewRecord("data.pkl", bytes(500))])
    return target.getvalue()[:400]


HALF = half_an_archive()

NOT_ZIPS = {
    "empty file": (b"", "empty"),
    "zeros": (bytes(1000), "zeros"),
    "web page": (b"\n<!DOCTYPE html><html><body>Sign in</body></html>", "web page"),
    "web page in capitals": (b"<HTML>", "web page"),
    "Git LFS pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d", "git lfs"),
    "half a download": (HALF, "cut short"),
    "torch.save of old": (
        b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.",
        "torch.load",
    ),
    "pickle": (b"\x80\x04K\x01.", "pickle"),
    "mobile flatbuffer": (b"\x1c\0\0\0PTMF\0\0", "flatbuffer"),
    "program": (b"\x1c\0\0\0ET12eh00", ".pte"),
    "bundled program": (b"\x1c\0\0\0BP08", ".bpte"),
    "program data": (b"\x1c\0\0\0FT01FH01", ".ptd"),
    "PyTorch 1 preview": (b"PYTORCH1" + bytes(100), "later torch"),
    "tar": (b"sys_info".ljust(257, b"\0") + b"ustar\x00", "tar archive"),
    "gzip": (b"\x1f\x8b\x08\0", "gzip"),
    "NumPy": (b"\x93NUMPY\1\0", "NumPy"),
    "safetensors": (b'\x40\0\0\0\0\0\0\0{"a":', "safetensors"),
    "text": (b"hello", "the file you mean"),
    "first volume": (b"PK\x07\x08PK\x03\x04", "several volumes"),
    "first volume of one": (b"PK00PK\x03\x04", "several volumes"),
    "error message": (b'{"error": "Not found"}', "error message"),
    "TensorFlow Lite": (b"\x1c\0\0\0TFL3", "TensorFlow Lite"),
    "bzip2": (b"BZh91AY&SY", "bzip2"),
    "xz": (b"\xfd7zXZ\0", "xz"),
    "Zstandard": (b"\x28\xb5\x2f\xfd", "Zstandard"),
    "7z": (b"7z\xbc\xaf\x27\x1c", "7z archive"),
    "RAR": (b"Rar!\x1a\x07\1\0", "RAR"),
    "HDF5": (b"\x89HDF\r\n\x1a\n", "HDF5"),
    "GGUF": (b"GGUF\3\0\0\0", "GGUF"),
    "library": (b"\x7fELF\2\1\1", "library"),
    "Windows program": (b"MZ" + bytes(58) + b"\x80\0\0\0", "program"),
}
# Parts of archives, and what was to become one: the others may be sound.
NOT_WHOLE = {"empty file", "zeros", "half a download", "first volume", "first volume of one"}


@pytest.mark.parametrize("kind", NOT_ZIPS)
def test_a_file_that_is_no_zip_archive_is_named(kind, tmp_path):
    data, words = NOT_ZIPS[kind]
    (tmp_path / "net.pt").write_bytes(data)
    with pytest.raises(FormatError) as caught:
        Container.open(tmp_path / "net.pt")
    assert words in f"{caught.value.message}. {caught.value.hint}"
    assert caught.value.hint


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("web page", "it is a web page, not a zip archive"),
        ("Git LFS pointer", "it is a Git LFS pointer, not a zip archive"),
        ("gzip", "it is compressed with gzip, not a zip archive"),
        ("half a download", "it is cut short: there is no end record, which zip archives have"),
        ("text", "not a zip archive: there is no end record"),
    ],
)
def test_the_message_begins_with_what_it_is(kind, message):
    assert recognise(NOT_ZIPS[kind][0]).message == message


@pytest.mark.parametrize("kind", NOT_ZIPS)
def test_the_survey_gives_its_kind_and_the_same_words(kind):
    data, words = NOT_ZIPS[kind]
    found = survey(io.BytesIO(data))
    assert found.container is None
    (finding,) = found.findings
    assert finding.rule in FILE_RULES
    assert finding.nature is (Nature.BROKEN if kind in NOT_WHOLE else Nature.OTHER_KIND)
    assert words in f"{finding.message}. {finding.hint}"


def test_every_kind_has_a_sample():
    samples = (data for data, _ in NOT_ZIPS.values())
    assert {recognise(data[:HEAD_BYTES]).rule for data in samples} == set(FILE_RULES)
