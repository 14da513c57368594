"""Recognition of files by their bytes: names and extensions decide nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tsarchive.container.recognise import TORCH_SAVE_LEGACY

_ZIP_END: Final = b"PK\x05\x06"
# The end record stands in the last bytes, before a comment of up to 64 KiB.
_ZIP_TAIL: Final = 22 + 0xFFFF


@dataclass(frozen=True, slots=True)
class Form:
    """``kind`` is a short name; ``is_inert`` tells of formats that hold data and no code, or
    that are looked into; ``advice`` says what to do about the others."""

    kind: str
    is_inert: bool = False
    advice: str = "What it can do is not known: check that this is the file you mean"


ZIP: Final = Form("zip", is_inert=True)
TAR: Final = Form("tar", is_inert=True)
UNKNOWN: Final = Form("unknown")

_PACKED = "Unpack it, and audit what is inside"
_PROGRAM = "It is a program in bytecode, which is not looked into"
_BROKEN_PROGRAM = "It cannot be opened: 'tsarchive verify' says why"
_FORMS: Final = tuple(
    (re.compile(pattern, re.DOTALL), form)
    for pattern, form in (
        (rb"PK\x03\x04|PK\x05\x06", ZIP),
        (TORCH_SAVE_LEGACY, Form("torch.save (legacy)", is_inert=True)),
        (rb"\x80[\x00-\x05]", Form("pickle", is_inert=True)),
        (rb".{257}ustar", TAR),
        (rb"\x93NUMPY", Form("npy", is_inert=True)),
        (rb"\x1f\x8b|BZh|\xfd7zXZ\0|7z\xbc\xaf|Rar!|\x28\xb5\x2f\xfd",
         Form("compressed", advice=_PACKED)),
        (rb".{4}PTMF", Form("mobile flatbuffer", advice=_PROGRAM)),
        (rb".{4}ET\d\d",
         Form("ExecuTorch program", advice=_BROKEN_PROGRAM)),
        (rb".{4}BP\d\d",
         Form("ExecuTorch bundled program", advice=_BROKEN_PROGRAM)),
        (rb".{4}FT\d\d",
         Form("ExecuTorch data", advice=_BROKEN_PROGRAM)),
        (rb".{5}\0{3}\{\s*[\"}]", Form("safetensors", is_inert=True)),
    )
)  # fmt: skip

_NATIVE: Final = (
    (b"\x7fELF", "ELF"),
    (b"\xcf\xfa\xed\xfe", "Mach-O"),
    (b"\xce\xfa\xed\xfe", "Mach-O"),
    (b"\xfe\xed\xfa\xcf", "Mach-O"),
    (b"\xfe\xed\xfa\xce", "Mach-O"),
    (b"\xca\xfe\xba\xbe\0\0\0", "Mach-O for several machines, or Java"),
    (b"!<arch>\n", "library of object files"),
    (b"\0asm\x01\0\0\0", "WebAssembly"),
    (b"BC\xc0\xde", "LLVM bitcode"),
    (b"\x50\xed\x55\xba", "CUDA"),
    (b"#!/", "script"),
)  # fmt: skip
_PE_POINTER: Final = slice(0x3C, 0x40)
_NATIVE_NAME = re.compile(r"\.(so(\.\d+)*|dll|dylib|pyd|exe|o|a|cubin|ptx|hsaco|spv|metallib)$")


def form_of(head: bytes, tail: bytes) -> Form:
    """Return the form that the first bytes of a file tell of, else the last ones."""
    found = next((form for pattern, form in _FORMS if pattern.match(head)), None)
    if found is not None:
        return found
    return ZIP if has_zip_end(tail) else UNKNOWN


def has_zip_end(tail: bytes) -> bool:
    """Return whether the last bytes of a file hold the end record of a zip archive."""
    return _ZIP_END in tail[-_ZIP_TAIL:]


def native_format(name: str, data: bytes) -> str | None:
    """Return the kind of program in a record, by its bytes or, failing that, its name."""
    for magic, kind in _NATIVE:
        if data.startswith(magic):
            return kind
    if data[:2] == b"MZ":
        header = int.from_bytes(data[_PE_POINTER], "little")
        if data[header : header + 4] == b"PE\0\0":
            return "PE"
    match = _NATIVE_NAME.search(name)
    return f"named .{match[1]}" if match else None
