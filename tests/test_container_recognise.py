"""Files that are no zip archives: the error says what they probably are."""

from __future__ import annotations

import io

import pytest

from tsarchive.container import Container, NewRecord, write_container
from tsarchive.errors import FormatError


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
}


@pytest.mark.parametrize("kind", NOT_ZIPS)
def test_a_file_that_is_no_zip_archive_is_named(kind, tmp_path):
    data, hint = NOT_ZIPS[kind]
    (tmp_path / "net.pt").write_bytes(data)
    with pytest.raises(FormatError, match="not a zip archive") as caught:
        Container.open(tmp_path / "net.pt")
    assert hint in caught.value.hint
