"""The collection of all that an audit finds: judgements of pickles, and forms of files.

Pickles are judged by the table of names that are known to be harmless. Names and extensions of
files decide nothing about their form.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Final

from tsarchive.container.faults import STRICT
from tsarchive.container.recognise import HEAD_BYTES, TORCH_SAVE_LEGACY
from tsarchive.container.source import Source
from tsarchive.describing.contents import GroupFacts, TensorTotals
from tsarchive.findings import Finding, Findings, Nature, Severity, broken, hostile

from .pickle_names import Budgets, Use, row_of_name
from .pickle_streams import Streams, begins_pickle, pickles_in
from .pickle_walk import Act, Event, Walk
from .report import AuditReport, EntryPoint, OperatorUse, Payload, PickledName

_RULES: Final = {
    Act.NAME: "pickle-name",
    Act.CALL: "pickle-call",
    Act.MAKE: "pickle-make",
    Act.CHANGE: "pickle-change",
    Act.CALL_COMPUTED: "pickle-computed-call",
    Act.EXTENSION: "pickle-extension",
}
_USES: Final = {
    Act.NAME: (Use.NAME, Use.MAKE, Use.CALL),
    Act.MAKE: (Use.MAKE, Use.CALL),
    Act.CALL: (Use.CALL,),
}
_TORCH_LIKE: Final = ("torch.", "numpy.")
_OF_PACKAGE: Final = "which runs Python code of the package, or of torch for it"
# The functions that a torch.package puts graph modules and script modules together with.
_PACKAGE_FUNCTIONS: Final = {
    "torch.fx.graph_module.reduce_package_graph_module": _OF_PACKAGE,
    "torch.jit._script.unpackage_script_module":
        "which has torch.jit load a TorchScript module of the package",
}  # fmt: skip
# Modules that were compiled for a backend: their classes are outside of ``__torch__``, in modules
# that Python's torch.jit does not have. torch 1.7 and 1.8 put the backend before the word.
_LOWERED = re.compile(
    r"torch\.jit\.(___torch_mangle_\d+\.)?(\w+LoweredModule|Lowered(Module|Wrapper)\.[\w.]+)"
)
_NEVER_UNPICKLE: Final = "Do not unpickle it"
_AFTER_BREAK: Final = (
    "What stands before the break runs all the same, and another reader may not break off"
)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The surroundings of a pickle: the classes that the archive's own code defines, and the
    Python modules that a torch.package brings (None in other files)."""

    archive_classes: Collection[str] = ()
    package_modules: Collection[str] | None = None

    def defines(self, name: str) -> bool:
        """Return whether a name is that of a class of the archive.

        An archive may define others, too: that does not make a name of Python harmless.
        """
        is_lowered = _LOWERED.fullmatch(name) is not None
        return name.startswith("__torch__.") or (is_lowered and name in self.archive_classes)

    def is_of_package(self, event: Event) -> bool:
        """Return whether a torch.package may do so: it is Python code by nature."""
        if self.package_modules is None:
            return False
        if event.name.rpartition(".")[0] in self.package_modules:
            return True
        is_torch = event.name.startswith("torch.")
        return event.name in _PACKAGE_FUNCTIONS or (is_torch and event.act in (Act.MAKE, Act.NAME))


def _judged(
    pickle: Walk, record: str | None, around: Surroundings
) -> tuple[list[PickledName], list[Finding]]:
    """Judge a pickle by the names in it; it is not unpickled, and nothing is imported."""
    names: list[PickledName] = []
    findings: list[Finding] = []
    called = {event.name for event in pickle.events if event.act is not Act.NAME}
    for event in pickle.events:
        is_called = event.act is not Act.NAME
        if not is_called and event.name in called:
            continue
        row = row_of_name(event.name)
        if row is not None and row.use not in _USES.get(event.act, ()):
            row = None
        is_defined = around.defines(event.name)
        reason = None if row is None else row.reason
        if is_defined:
            reason = "a class that the archive defines"
        names.append(PickledName(record, event.name, is_called, reason))
        if not is_defined and (row is None or (row.is_code and is_called)):
            findings.append(_finding(event, row is not None, record, around))
    return names, findings


def _finding(event: Event, is_known: bool, record: str | None, around: Surroundings) -> Finding:
    severity, nature, why = _severity(event, is_known, around)
    message = f"the pickle {event.act.value} {event.name}, {why}"
    hint = None if severity < Severity.ERROR else _NEVER_UNPICKLE
    rule = _RULES[event.act]
    return Finding(rule, severity, nature, message, record, event.offset, hint=hint)


def _severity(event: Event, is_known: bool, around: Surroundings) -> tuple[Severity, Nature, str]:
    if is_known:
        why = "a module of torch.nn: reading it runs Python code of torch"
        return Severity.WARNING, Nature.ABILITY, why
    if around.is_of_package(event):
        return Severity.WARNING, Nature.ABILITY, _PACKAGE_FUNCTIONS.get(event.name, _OF_PACKAGE)
    if event.act is Act.NAME and event.name.startswith(_TORCH_LIKE):
        why = "which is not known to be harmless"
        return Severity.WARNING, Nature.ABILITY, why
    if event.act is Act.NAME:
        why = "which imports code that no pickle of tensors needs"
        return Severity.ERROR, Nature.HOSTILE, why
    return Severity.ERROR, Nature.HOSTILE, "which is not known to be harmless"


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

FORM_KINDS: Final = tuple(sorted({form.kind for _, form in _FORMS}))
"""The kinds of files that the first bytes tell of."""

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
_TAIL_BYTES: Final = 66_000
_PE_POINTER: Final = slice(0x3C, 0x40)
_NATIVE_NAME = re.compile(r"\.(so(\.\d+)*|dll|dylib|pyd|exe|o|a|cubin|ptx|hsaco|spv|metallib)$")


def ends_of(source: Source) -> tuple[bytes, bytes]:
    """Return the first and last bytes of a file, which ``form_of`` takes.

    Raises FormatError where it has changed since it was opened.
    """
    source.require_unchanged(STRICT, contents=True)
    tail = source.piece(max(0, source.size - _TAIL_BYTES), source.size)
    return bytes(source.piece(0, HEAD_BYTES)), bytes(tail)


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
    ) -> Streams:
        """Look for pickles and for programs in bytes of any kind. ``is_unpickled`` tells of bytes
        that a reader takes for a pickle, however they begin; ``starts`` are where else readers
        begin than at the first byte."""
        named = begins_pickle(data) if record is None else record.endswith(_PICKLE_NAMES)
        named = named or is_unpickled
        streams = pickles_in(data, self.budgets, is_named_pickle=named, starts=starts)
        self._judge(streams, record, around)
        found = native_format(record or "", data)
        if found is not None:
            self.payloads.append(Payload(record, found, len(data)))
        return streams

    def _judge(self, streams: Streams, record: str | None, around: Surroundings) -> None:
        for pickle in streams.pickles:
            names, findings = _judged(pickle, record, around)
            self.pickled_names += names
            self.findings.add(findings)
            if pickle.is_too_long:
                self._unfinished(record)
            elif pickle.fault is not None:
                message = f"the pickle breaks off: {pickle.fault}"
                self.findings.add(
                    [broken("pickle-broken", message, record, _AFTER_BREAK, pickle.end)]
                )
        for pickle in streams.hidden:
            names, findings = _judged(pickle, record, around)
            worst = next((f for f in findings if f.severity is Severity.ERROR), None)
            if worst is not None:
                message = f"a pickle is hidden here: {worst.message}"
                self.findings.add(
                    [hostile("pickle-hidden", message, record, _NEVER_UNPICKLE, pickle.start)]
                )
                self.pickled_names += names
        if not streams.is_complete:
            self._unfinished(record)

    def _unfinished(self, record: str | None) -> None:
        message = "there are too many opcodes, or beginnings of pickles, to look at all of them"
        self.find("pickle-unfinished", Severity.WARNING, Nature.HOSTILE, message, record)

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
