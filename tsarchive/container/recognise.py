"""What a file that turned out not to be a zip archive probably is."""

from __future__ import annotations

import re

__all__ = ["HEAD_BYTES", "not_a_zip_hint"]

# How much of the file the table below looks at.
HEAD_BYTES = 512

# Found in the first HEAD_BYTES bytes of the file -> what to do. The first that fits counts.
_KINDS: tuple[tuple[re.Pattern[bytes], str], ...] = tuple(
    (re.compile(pattern, re.DOTALL), hint)
    for pattern, hint in (
        (rb"PK\x03\x04", "It begins like one and is cut short: download or copy it again"),
        (
            rb"version https://git-lfs\.github\.com/spec/",
            "It is a Git LFS pointer: run 'git lfs pull' to get the file itself",
        ),
        (
            rb"(?i:(\xef\xbb\xbf)?\s*<(!doctype\s|html|head|\?xml))",
            "It is a web page: the download gave a page in place of the file",
        ),
        (
            rb"\x80.\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19\.",
            "It is a torch.save file of the form before torch 1.6: load it with torch.load "
            "and save it again",
        ),
        (rb".{4}PTMF", "It is a mobile flatbuffer (.ptl, .ff), which holds no zip records"),
        (rb".{4}ET\d\d", "It is an ExecuTorch program (.pte)"),
        (rb".{4}BP\d\d", "It is an ExecuTorch bundled program (.bpte)"),
        (rb".{4}FT\d\d", "It is an ExecuTorch data file (.ptd)"),
        (rb"PYTORCH1", "It is an archive of a torch older than 1.0: save it with a later torch"),
        (rb".{257}ustar", "It is a tar archive, as torch.save wrote before 2017"),
        (rb"\x1f\x8b", "It is compressed with gzip: decompress it first"),
        (rb"\x93NUMPY", "It is a NumPy array file"),
        (rb".{8}\{\s*\"", "It looks like a safetensors file"),
        (rb"\x80[\x02-\x05]", "It is a bare pickle, which tsarchive does not load"),
    )
)


def not_a_zip_hint(head: bytes) -> str:
    """Say from the first HEAD_BYTES bytes of a file what it probably is."""
    if not head:
        return "The file is empty"
    if not head.strip(b"\0"):
        return "It begins with zeros only: the copy or download did not finish"
    for pattern, hint in _KINDS:
        if pattern.match(head):
            return hint
    return "Check that this is the file you mean"
