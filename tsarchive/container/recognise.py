"""Identification of files that are not zip archives, pickles without a magic number included."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from tsarchive.errors import AGAIN

if TYPE_CHECKING:
    import pickletools

    from tsarchive.container.extent import Extent

# The arguments of opcodes of the protocols 0 and 1, but for counted strings.
_ARGUMENTS: Final = {
    code: argument
    for codes, argument in (
        ("()]}N012QRabdelostu", b""),
        ("IL", rb"-?\d+L?\n"),
        ("F", rb"[-+.\w]+\n"),
        ("S", rb"(['\"])[^\n]*\1\n"),
        ("V", rb"[^\n]*\n"),
        ("P", rb"[^\n]+\n"),
        ("ci", rb"[^\s]+\n[^\s]+\n"),
        ("gp", rb"\d+\n"),
        ("Khq", rb"."),
        ("M", rb".."),
        ("Jjr", rb".{4}"),
        ("G", rb".{8}"),
    )
    for code in codes.encode()
}
# These leave the stack as it is, and fail on an empty one, which pickletools does not tell.
_PUTS: Final = b"pqr"
# Sizes of the length fields of counted strings.
_COUNTED: Final = {ord("U"): 1, ord("T"): 4, ord("X"): 4}
# Maximum length of arguments other than lines.
_SHORT: Final = 10
_MARK, _STOP = ord("("), ord(".")
# This many different opcodes are no coincidence, even if the bytes are not all a pickle.
_ENOUGH: Final = 4


def begins_as_pickle(head: bytes, *, is_whole: bool) -> bool:
    """Return whether ``head`` is a pickle, or the beginning of one unless ``is_whole``."""
    depths, seen = [0], set[int]()
    position = 0
    while position < len(head):
        code = head[position]
        if code == _STOP:
            is_enough = position + 1 == len(head) or len(seen) >= _ENOUGH
            return is_enough and depths == [1]
        end = _end(head, position)
        if end is None or end > len(head):
            break
        if not _follow(code, depths):
            return False
        position = end
        seen.add(code)
    is_cut = not is_whole and _is_cut(head, position)
    return is_cut and len(seen) >= _ENOUGH


def _is_cut(head: bytes, position: int) -> bool:
    """Return whether the data ends within an opcode's argument or between two opcodes."""
    rest = head[position:]
    if not rest or rest[0] in _COUNTED:
        return True
    return rest[0] in _ARGUMENTS and (len(rest) < _SHORT or b"\n" not in rest)


@cache
def _argument(code: int) -> re.Pattern[bytes]:
    return re.compile(_ARGUMENTS[code], re.DOTALL)


def _end(head: bytes, position: int) -> int | None:
    """Return the position after an opcode and its argument, None where there is none."""
    code, start = head[position], position + 1
    if code in _COUNTED:
        width = _COUNTED[code]
        return start + width + int.from_bytes(head[start : start + width], "little")
    found = _argument(code).match(head, start) if code in _ARGUMENTS else None
    return None if found is None else found.end()


def _follow(code: int, depths: list[int]) -> bool:
    """Apply the stack effect of an opcode; ``depths`` counts the items above each mark."""
    import pickletools  # few files need it

    if code == _MARK:
        depths.append(0)
        return True
    opcode = _opcodes()[code]
    taken = opcode.stack_before
    if pickletools.markobject in taken:
        if len(depths) == 1:
            return False
        depths.pop()
        taken = taken[: taken.index(pickletools.markobject)]
    if depths[-1] < max(len(taken), code in _PUTS):
        return False
    depths[-1] += len(opcode.stack_after) - len(taken)
    return True


@cache
def _opcodes() -> dict[int, pickletools.OpcodeInfo]:
    import pickletools

    return {ord(opcode.code): opcode for opcode in pickletools.opcodes}


# How many bytes of the file the table below examines.
HEAD_BYTES = 512


class Diagnosis(NamedTuple):
    """What a file is that is no zip archive, or what has happened to it.

    ``rule`` is the same in every version; ``message`` tells it, ``hint`` what to do; ``offset`` is
    the byte where another file begins, or damage. ``extent`` is how much of the file is there.
    """

    rule: str
    message: str
    hint: str
    offset: int | None = None
    extent: Extent | None = None


def _is(what: str) -> str:
    return f"it is {what}, not a zip archive"


_CHECK = "Check that this is the file you mean"
_LOOKED_AT = "tsarchive.load runs programs, 'tsarchive info' and 'tensors' show what files hold"

TORCH_SAVE_LEGACY = (
    rb"\x80.(\x95.{8})?\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19\.|L119547037146038801333356L\n\."
)
"""The start of files of torch.save before torch 1.6: its magic number, pickled by any protocol."""

# The first fields of an ONNX model message: its version, and its producer or graph.
_ONNX = (
    rb"\x08[\x01-\x1f](\x12[\x01-\x40][ -~]+[\x1a\"(2:B]"
    rb"|:[\x80-\xff]{0,4}[\0-\x7f]\x0a|B[\x02-\x40][\x0a\x10])"
)

_PICKLE = (
    "file-pickle",
    _is("a bare pickle"),
    "tsarchive does not load pickles: 'tsarchive audit' shows what it names",
)

_SENT_INSTEAD = "The download gave it in place of the file: look at what it says"

# Pattern at the start of the file -> rule, message, hint. The first match counts.
_KINDS: tuple[tuple[bytes, str, str, str], ...] = (
    (
        rb"PK(\x07\x08|00)PK\x03\x04",
        "file-zip-volume",
        _is("the first of several volumes"),
        "Join the volumes with the tool that split them",
    ),
    (
        rb"PK(\x03\x04|\x03?\Z)",
        "file-cut-short",
        "it is cut short: there is no end record, which zip archives have",
        AGAIN,
    ),
    (
        rb"(?s:(\xef\xbb\xbf)?\s*(<\?xml[^>]*>\s*)?<Error[ >])",
        "file-error-message",
        _is("an error message"),
        _SENT_INSTEAD,
    ),
    (
        rb"version https://git-lfs\.github\.com/spec/",
        "file-git-lfs-pointer",
        _is("a Git LFS pointer"),
        "Run 'git lfs pull' to get the file itself",
    ),
    (
        rb"(?i:(\xef\xbb\xbf)?\s*<(!doctype\s|html|head|\?xml))",
        "file-web-page",
        _is("a web page"),
        "The download gave a page in place of the file, as without a login: look at what it says",
    ),
    (
        TORCH_SAVE_LEGACY,
        "file-torch-save-legacy",
        _is("a torch.save checkpoint in the format of before torch 1.6"),
        "Load it with torch.load(weights_only=True). To keep a module with its code, script it "
        "and save it with tsarchive.save",
    ),
    (
        rb".{4}PTMF",
        "file-mobile-flatbuffer",
        _is("a mobile flatbuffer (.ptl, .ff)"),
        "Load what it was made from: flatbuffers hold other code than archives do",
    ),
    (rb".{4}ET\d\d", "file-executorch-program", _is("an ExecuTorch program (.pte)"), _LOOKED_AT),
    (
        rb".{4}BP\d\d",
        "file-executorch-bundle",
        _is("an ExecuTorch bundled program (.bpte)"),
        _LOOKED_AT,
    ),
    (rb".{4}FT\d\d", "file-executorch-data", _is("an ExecuTorch data file (.ptd)"), _LOOKED_AT),
    (rb".{4}TFL3", "file-tflite", _is("a TensorFlow Lite model"), _CHECK),
    (
        rb"PYTORCH1",
        "file-torch-preview",
        _is("an archive of a torch older than 1.0"),
        "Save it with a later torch",
    ),
    (
        rb".{257}ustar",
        "file-tar",
        _is("a tar archive, as torch.save wrote before 2017"),
        "Unpack it, or load it with torch.load(weights_only=True) and save it again",
    ),
    (rb"\x1f\x8b", "file-gzip", _is("compressed with gzip"), "Decompress it first"),
    (rb"BZh[1-9]1AY&SY", "file-bzip2", _is("compressed with bzip2"), "Decompress it first"),
    (rb"\xfd7zXZ\x00", "file-xz", _is("compressed with xz"), "Decompress it first"),
    (
        rb"\x28\xb5\x2f\xfd",
        "file-zstandard",
        _is("compressed with Zstandard"),
        "Decompress it first",
    ),
    (rb"7z\xbc\xaf\x27\x1c", "file-7z", _is("a 7z archive"), "Unpack it first"),
    (rb"Rar!\x1a\x07", "file-rar", _is("a RAR archive"), "Unpack it first"),
    (rb"\x93NUMPY", "file-numpy", _is("a NumPy array file"), "Load it with numpy.load"),
    (rb"\x89HDF\r\n\x1a\n", "file-hdf5", _is("an HDF5 file, as Keras writes"), _CHECK),
    (
        rb"GGUF",
        "file-gguf",
        _is("a GGUF model, which holds weights and no code"),
        "Run it with llama.cpp, or read its weights with gguf.GGUFReader",
    ),
    (_ONNX, "file-onnx", _is("an ONNX model, by its looks"), "Load it with onnx.load"),
    (
        rb"\x7fELF|MZ.{58}|[\xcf\xce]\xfa\xed\xfe",
        "file-program",
        _is("a program or a library"),
        _CHECK,
    ),
    (
        rb".{5}\0{3}\{\s*[\"}]",
        "file-safetensors",
        _is("a safetensors file, by its looks"),
        "Load it with safetensors.torch.load_file",
    ),
    (rb"\x80[\x02-\x05]", *_PICKLE),
    (
        rb"\s*\{\s*\"(?i:error|message|detail)",
        "file-error-message",
        _is("an error message"),
        _SENT_INSTEAD,
    ),
)

_EMPTY = Diagnosis(
    "file-empty",
    _is("an empty file"),
    f"{AGAIN}; a file object that was read needs seek(0) first",
)
_ZEROS = Diagnosis(
    "file-zeros",
    "it begins with zeros only, not a zip archive",
    "The copy or download did not finish: do it again",
)
_UNKNOWN = Diagnosis("file-not-zip", "not a zip archive: there is no end record", _CHECK)

FILE_RULES = tuple(
    dict.fromkeys((_EMPTY.rule, _ZEROS.rule, *(rule for _, rule, _, _ in _KINDS), _UNKNOWN.rule))
)


def recognise(head: bytes) -> Diagnosis:
    """Identify a file by its first HEAD_BYTES bytes."""
    if not head:
        return _EMPTY
    if not head.strip(b"\0"):
        return _ZEROS
    for pattern, rule, message, hint in _KINDS:
        if re.match(pattern, head, re.DOTALL):
            return Diagnosis(rule, message, hint)
    if begins_as_pickle(head, is_whole=len(head) < HEAD_BYTES):
        return Diagnosis(*_PICKLE)
    return _UNKNOWN
