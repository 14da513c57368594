"""Files that are no zip archives: the error says what they probably are."""

from __future__ import annotations

import io
import pickle

import pytest
import torch

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
    "torch.save of old by protocol 0": (b"L119547037146038801333356L\n.I1001\n.", "torch.load"),
    "torch.save of old by protocol 4": (
        b"\x80\x04\x95\x0d\0\0\0\0\0\0\0\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.",
        "torch.load",
    ),
    "empty safetensors": (b"\x08\0\0\0\0\0\0\0{}      ", "safetensors.torch.load_file"),
    "ONNX": (b"\x08\x07\x12\x07pytorch\x1a\x052.1.0:\x80\1\n", "onnx.load"),
    "ONNX of nobody": (b"\x08\x0a:\x80\1\n\x10\n\1x", "onnx.load"),
    "pickle": (b"\x80\x04K\x01.", "pickle"),
    "mobile flatbuffer": (b"\x1c\0\0\0PTMF\0\0", "flatbuffer"),
    "program": (b"\x1c\0\0\0ET12eh00", ".pte"),
    "bundled program": (b"\x1c\0\0\0BP08", ".bpte"),
    "program data": (b"\x1c\0\0\0FT01FH01", ".ptd"),
    "PyTorch 1 preview": (b"PYTORCH1" + bytes(100), "later torch"),
    "tar": (b"sys_info".ljust(257, b"\0") + b"ustar\x00", "tar archive"),
    "gzip": (b"\x1f\x8b\x08\0", "gzip"),
    "NumPy": (b"\x93NUMPY\1\0", "numpy.load"),
    "safetensors": (b'\x40\0\0\0\0\0\0\0{"a":', "safetensors.torch.load_file"),
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
    "GGUF": (b"GGUF\3\0\0\0", "gguf.GGUFReader"),
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


class Thing:
    def __reduce__(self):
        return dict, ([("a", 1)],)


VALUES = {
    "none": None,
    "number": -3,
    "text": "hello\nworld",
    "values": [1, 2.5, True, None, "é", b"bytes", 1 << 80, ()],
    "nested": {"a": [1, {"b": (2, 3)}], "c": {4, 5}},
    "shared": [[1]] * 3,
    "object": Thing(),
    "long": {str(number): [number] * 3 for number in range(200)},
}


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("value", VALUES)
def test_pickles_of_all_protocols_are_recognised(value, protocol):
    data = pickle.dumps(VALUES[value], protocol)
    assert recognise(data[:HEAD_BYTES]).rule == "file-pickle"


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_checkpoints_of_old_are_recognised_by_all_protocols(protocol):
    written = io.BytesIO()
    torch.save(
        {"weight": torch.ones(3)},
        written,
        pickle_protocol=protocol,
        _use_new_zipfile_serialization=False,
    )
    assert recognise(written.getvalue()[:HEAD_BYTES]).rule == "file-torch-save-legacy"


@pytest.mark.parametrize(
    "text",
    [b"hello", b"N", b"(", b".", b"a.", b"0", b"I am", b"V8\nengine", b"(dp0\n", b"S'a\n.",
     b"NN.", b"(N.", b"]" * 600 + b"~", b"X\xff\xff\xff\xff", b"Name,Value\n" * 100,
     b"import torch\n" * 100, b"Kant.", b"(1) First.", b"}\n",
     b"Git v2.38.3 Release Notes"],
)  # fmt: skip
def test_other_bytes_are_no_pickles(text):
    assert recognise(text[:HEAD_BYTES]).rule == "file-not-zip"
