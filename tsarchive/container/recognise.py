"""What a file that turned out not to be a zip archive probably is."""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["FILE_RULES", "HEAD_BYTES", "NotAZip", "recognise"]

# How much of the file the table below looks at.
HEAD_BYTES = 512


class NotAZip(NamedTuple):
    """``rule`` is the same in every version; ``hint`` says what the file is and what to do."""

    rule: str
    hint: str


_CUT = "It begins like one and is cut short: download or copy it again"

# Found at the first byte of the file -> rule, hint. The first that fits counts.
_KINDS: tuple[tuple[bytes, str, str], ...] = (
    (
        rb"PK(\x07\x08|00)PK\x03\x04",
        "file-zip-volume",
        "It is the first of several volumes: join them",
    ),
    (rb"PK\x03\x04", "file-cut-short", _CUT),
    (
        rb"version https://git-lfs\.github\.com/spec/",
        "file-git-lfs-pointer",
        "It is a Git LFS pointer: run 'git lfs pull' to get the file itself",
    ),
    (
        rb"(?i:(\xef\xbb\xbf)?\s*<(!doctype\s|html|head|\?xml))",
        "file-web-page",
        "It is a web page: the download gave a page in place of the file",
    ),
    (
        rb"\x80.\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19\.",
        "file-torch-save-legacy",
        "It is a torch.save file of the form before torch 1.6: load it with "
        "torch.load(weights_only=True) and save it again",
    ),
    (
        rb".{4}PTMF",
        "file-mobile-flatbuffer",
        "It is a mobile flatbuffer (.ptl, .ff), which holds no zip records",
    ),
    (rb".{4}ET\d\d", "file-executorch-program", "It is an ExecuTorch program (.pte)"),
    (rb".{4}BP\d\d", "file-executorch-bundle", "It is an ExecuTorch bundled program (.bpte)"),
    (rb".{4}FT\d\d", "file-executorch-data", "It is an ExecuTorch data file (.ptd)"),
    (rb".{4}TFL3", "file-tflite", "It is a TensorFlow Lite model"),
    (
        rb"PYTORCH1",
        "file-torch-preview",
        "It is an archive of a torch older than 1.0: save it with a later torch",
    ),
    (rb".{257}ustar", "file-tar", "It is a tar archive, as torch.save wrote before 2017"),
    (rb"\x1f\x8b", "file-gzip", "It is compressed with gzip: decompress it first"),
    (rb"BZh[1-9]1AY&SY", "file-bzip2", "It is compressed with bzip2: decompress it first"),
    (rb"\xfd7zXZ\x00", "file-xz", "It is compressed with xz: decompress it first"),
    (
        rb"\x28\xb5\x2f\xfd",
        "file-zstandard",
        "It is compressed with Zstandard: decompress it first",
    ),
    (rb"7z\xbc\xaf\x27\x1c", "file-7z", "It is a 7z archive: unpack it first"),
    (rb"Rar!\x1a\x07", "file-rar", "It is a RAR archive: unpack it first"),
    (rb"\x93NUMPY", "file-numpy", "It is a NumPy array file"),
    (rb"\x89HDF\r\n\x1a\n", "file-hdf5", "It is an HDF5 file, as Keras writes"),
    (rb"GGUF", "file-gguf", "It is a GGUF model, which holds weights and no code"),
    (rb"\x7fELF|MZ.{58}|[\xcf\xce]\xfa\xed\xfe", "file-program", "It is a program or a library"),
    (rb".{8}\{\s*\"", "file-safetensors", "It looks like a safetensors file"),
    (rb"\x80[\x02-\x05]", "file-pickle", "It is a bare pickle, which tsarchive does not load"),
    (
        rb"\s*\{\s*\"(?i:error|message|detail)",
        "file-error-message",
        "It is an error message: the download gave that in place of the file",
    ),
)

_EMPTY = NotAZip("file-empty", "The file is empty")
_ZEROS = NotAZip("file-zeros", "It begins with zeros only: the copy or download did not finish")
_UNKNOWN = NotAZip("file-not-zip", "Check that this is the file you mean")

FILE_RULES = tuple(
    dict.fromkeys((_EMPTY.rule, _ZEROS.rule, *(rule for _, rule, _ in _KINDS), _UNKNOWN.rule))
)


def recognise(head: bytes) -> NotAZip:
    """Say from the first HEAD_BYTES bytes of a file what it probably is."""
    if not head:
        return _EMPTY
    if not head.strip(b"\0"):
        return _ZEROS
    for pattern, rule, hint in _KINDS:
        if re.match(pattern, head, re.DOTALL):
            return NotAZip(rule, hint)
    return _UNKNOWN
