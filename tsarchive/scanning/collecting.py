"""The collection of all that an audit finds, and recognition of files and programs by their bytes.

Names and extensions of files decide nothing about their form.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Final

from tsarchive.container.recognise import TORCH_SAVE_LEGACY
from tsarchive.describing.contents import GroupFacts, TensorTotals
from tsarchive.findings import Finding, Findings, Nature, Severity

from .pickle_names import Budgets
from .pickle_streams import begins_pickle, pickles_in
from .pickles import PickleAudit, Surroundings, audit_pickles
from .report import AuditReport, EntryPoint, OperatorUse, Payload, PickledName

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


_PICKLE_NAMES: Final = (".pkl", ".pickle", "_pkl", ".p")


@dataclass
class Collected:
    """``prefix`` stands before the names of records: that of the archive they are in."""

    budgets: Budgets
    prefix: str = ""
    findings: Findings = field(default_factory=Findings)
    operators: list[OperatorUse] = field(default_factory=list)
    entry_points: list[EntryPoint] = field(default_factory=list)
    pickled_names: list[PickledName] = field(default_factory=list)
    classes: set[str] = field(default_factory=set)
    payloads: list[Payload] = field(default_factory=list)
    groups: dict[str, GroupFacts] = field(default_factory=dict)
    tensors: TensorTotals | None = None

    def name(self, record: str | None) -> str | None:
        """Return the name of a record with that of the archive it is in."""
        return self.prefix.removesuffix("/") or None if record is None else self.prefix + record

    def find(
        self,
        rule: str,
        severity: Severity,
        nature: Nature,
        message: str,
        record: str | None = None,
        hint: str | None = None,
    ) -> None:
        """Add a finding about a record, or about the whole."""
        self.findings.add([Finding(rule, severity, nature, message, record, hint=hint)])

    def count(self, group: str, size: int, stored_size: int) -> None:
        """Count a record."""
        self.groups.setdefault(group, GroupFacts()).add(size, stored_size)

    def look_at(
        self,
        data: bytes,
        record: str | None,
        around: Surroundings,
        *,
        is_unpickled: bool = False,
        starts: Iterable[int] = (),
    ) -> PickleAudit:
        """Look for pickles and for programs in bytes of any kind. ``is_unpickled`` tells of bytes
        that a reader takes for a pickle, however they begin; ``starts`` are where else readers
        begin than at the first byte."""
        named = begins_pickle(data) if record is None else record.endswith(_PICKLE_NAMES)
        named = named or is_unpickled
        streams = pickles_in(data, self.budgets, is_named_pickle=named, starts=starts)
        audit = audit_pickles(streams, record, around)
        self.findings.add(audit.findings)
        self.pickled_names += audit.names
        found = native_format(record or "", data)
        if found is not None:
            self.payloads.append(Payload(record, found, len(data)))
        return audit

    def take(self, inner: Collected) -> None:
        """Take over what was found in an archive inside of this one."""
        self.findings.add(replace(f, record=inner.name(f.record)) for f in inner.findings)
        self.operators += inner.operators
        self.entry_points += inner.entry_points
        names = (replace(n, record=inner.name(n.record)) for n in inner.pickled_names)
        self.pickled_names += names
        self.payloads += [replace(p, record=inner.name(p.record)) for p in inner.payloads]
        self.classes |= inner.classes

    def report(self, kind: str, size: int) -> AuditReport:
        """Return the report; the worst findings first, otherwise in the order they were made."""
        findings = sorted(self.findings, key=attrgetter("severity"), reverse=True)
        return AuditReport(
            kind, size, tuple(findings), tuple(self.operators),
            tuple(self.entry_points), tuple(self.pickled_names), tuple(sorted(self.classes)),
            tuple(self.payloads), self.groups, self.tensors,
        )  # fmt: skip
