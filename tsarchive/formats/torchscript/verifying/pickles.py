"""Verification of pickle records: their names and what each is used for, depth and tensors."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from tsarchive.container import Container
from tsarchive.errors import INCOMPLETE, ArchiveError, PickleError, SourceError, UnknownClassError
from tsarchive.findings import (
    Finding,
    Nature,
    Severity,
    excused,
    fault,
    hostile,
    note,
    refused,
    unusual,
)
from tsarchive.formats.torchscript.debug_records import read_any_debug_record
from tsarchive.formats.torchscript.inspection import storage_record
from tsarchive.formats.torchscript.pickled import LIST_BUILDERS, MAX_DEPTH, reachable
from tsarchive.formats.torchscript.stored_tensors import tensor_findings
from tsarchive.frontend import CodeImporter
from tsarchive.ir.classes import ClassType
from tsarchive.ir.names import NATIVE_PREFIX
from tsarchive.ir.types import EnumType
from tsarchive.pickler import Global, Object, PersistentId, Reduce, loads
from tsarchive.pickler import opcodes as op
from tsarchive.pickler.values import STORAGE_TYPES, written_parts

_PICKLES = re.compile(
    r"""(data|constants|traced_inputs|bytecode|mobile_debug_handles|callstack_debug_map)\.pkl
    | attributes\.pkl | delegated_backends\.debug_pkl | code/.*\.py\.debug_pkl | debug/.*\.pkl""",
    re.VERBOSE | re.DOTALL,
)
_DEBUG = re.compile(r"code/.*\.py\.debug_pkl|debug/.*\.pkl", re.DOTALL)

# Functions of pickles, by whether their arguments are as they must be. Those of tensors are
# looked at with the storages.
_FUNCTIONS: dict[str, Callable[[Any], bool]] = {
    **{
        f"torch._utils.{name}": lambda argument: isinstance(argument, tuple)
        for name in (
            "_rebuild_tensor_v2",
            "_rebuild_qtensor",
            "_rebuild_sparse_tensor",
            "_rebuild_parameter",
        )
    },
    **{
        f"torch.jit._pickle.{name}": lambda argument: _fits(argument, list)
        for name in LIST_BUILDERS
    },
    "torch.jit._pickle.restore_type_tag": lambda argument: _fits(argument, (list, dict), str),
    "torch.jit._pickle.build_tensor_from_id": lambda argument: _fits(argument, int),
    "torch._tensor._rebuild_from_type_v2": lambda argument: (
        _fits(argument, Global, Global, tuple, object) and argument[0].qualified_name in _FUNCTIONS
    ),
    "builtins.complex": lambda argument: _fits(argument, float, float),
    "collections.OrderedDict": lambda argument: argument == (),
    "torch.device": lambda argument: _fits(argument, str),
}
# Names that stand for themselves.
_VALUES = frozenset(
    {
        *(f"torch.{name}" for name in STORAGE_TYPES),
        "torch.per_tensor_affine", "torch.per_channel_affine",
        "torch.per_channel_affine_float_qparams",
    }
)  # fmt: skip
# Types of the first attributes.pkl, which Python never had.
_OLD_CLASSES = frozenset({"__main__.TensorID", "__main__.IntList"})
_ARCHIVE_CODE = "__torch__."
_LONGEST_SHOWN = 120


@dataclass(frozen=True, slots=True)
class Pickle:
    """A pickle record that reads."""

    record: str
    value: Any
    named: PickleNames


def is_pickle(record: str) -> bool:
    """Return whether records of this name are pickles."""
    return _PICKLES.fullmatch(record) is not None


def is_debug(record: str) -> bool:
    """Return whether a pickle of this name says where code came from."""
    return _DEBUG.fullmatch(record) is not None


def read_pickle(container: Container, record: str) -> Pickle | list[Finding]:
    """Read a pickle; return the findings where it cannot be read."""
    try:
        data = container.read(record)
    except ArchiveError as error:
        return [fault(error, "zip-record", record=record)]
    named = names_in_pickle(data)
    try:
        return Pickle(record, loads(data, record=record), named)
    except PickleError as error:
        names = named.names.items()
        foreign = [_foreign(record, name, at) for name, at in names if is_foreign(name)]
        return [refused(error, "pickle-malformed", record), *foreign]


def is_foreign(name: str | None) -> bool:
    """Return whether no TorchScript pickle has this name, whatever its code defines."""
    if name is None:
        return True
    known = name in _FUNCTIONS or name in _VALUES or name in _OLD_CLASSES
    return not known and not name.startswith(_ARCHIVE_CODE)


def _foreign(record: str, name: str | None, offset: int | None) -> Finding:
    shown = "a name that it computes" if name is None else repr(name[:_LONGEST_SHOWN])
    return hostile(
        "pickle-global",
        f"the pickle names {shown}, which is not of the format: Python's pickle would import it",
        record,
        "Never unpickle this file; tsarchive does not import what pickles name",
        offset,
    )


def use_findings(
    pickle: Pickle, code: CodeImporter | None, *, may_lack_code: bool = False
) -> Iterator[Finding]:
    """Check the names of a pickle, and the use of each.

    ``code`` knows the classes of the archive; None where its code cannot be read. With
    ``may_lack_code``, some that the archive had are lost: a name may be that of any of them.
    """
    if is_deeper_than(MAX_DEPTH, pickle.value):
        message = f"more than {MAX_DEPTH} values are nested, which no model has"
        yield hostile("pickle-depth", message, pickle.record)
    check = _Uses(pickle, code, may_lack_code)
    for name, offset in pickle.named.names.items():
        if not is_foreign(name) or check.is_defined(name):
            continue
        if name is not None and name in check.subclasses:
            message = f"a tensor is of the subclass {name[:_LONGEST_SHOWN]!r}, which loading drops"
            yield note("pickle-subclass", message, pickle.record, offset)
        else:
            yield check.foreign(name, offset)
    for value in check.values:
        if isinstance(value, Reduce):
            yield from check.call(value)
        elif isinstance(value, Object):
            yield from check.made(value)


class _Uses:
    """The values of one pickle, each once, and what the archive's code says of them."""

    def __init__(self, pickle: Pickle, code: CodeImporter | None, may_lack_code: bool) -> None:
        self.pickle = pickle
        self.code = code
        self.may_lack_code = may_lack_code
        self.values = list(reachable(pickle.value))
        self.subclasses = set(_subclasses(self.values))
        self._tags: set[str] = set()
        # States may be shared and large: each is looked at once for a class.
        self._states: set[tuple[int, str]] = set()
        self._members: dict[str, frozenset[Any]] = {}

    def is_defined(self, name: str | None) -> bool:
        if name is None or self.code is None:
            return False
        try:
            return self.code.find(name) is not None
        except ArchiveError:
            return True  # the check of the code says what is wrong with it

    def foreign(self, name: str | None, offset: int | None) -> Finding:
        """Return the finding of a name that the format lacks, excused where code is lost."""
        finding = _foreign(self.pickle.record, name, offset)
        return excused(finding) if self.may_lack_code and name is not None else finding

    def call(self, value: Reduce) -> Iterator[Finding]:
        """Check a call: a function with its argument, or an enum with the value of a member."""
        name = value.function.qualified_name
        fits = _FUNCTIONS.get(name)
        if fits is not None:
            if not fits(value.argument):
                yield self._wrong("pickle-argument", f"{name} has arguments of other types", name)
            elif name == "torch.jit._pickle.restore_type_tag":
                yield from self._tag(value.argument)
        elif name in _VALUES or name in _OLD_CLASSES:
            message = f"{name} is called, which is no function"
            yield self._wrong("pickle-target", message, name, Nature.HOSTILE)
        else:
            yield from self._member(value, name)

    def _member(self, value: Reduce, name: str) -> Iterator[Finding]:
        if self.code is None:
            return
        try:
            enum = self.code.find(name)
        except ArchiveError:
            return
        if enum is None:
            yield self._undefined(name)
        elif not isinstance(enum, EnumType):
            message = f"{name} is called, and is no enum"
            yield self._wrong("pickle-target", message, name, Nature.HOSTILE)
        elif not self._is_member(value.argument, enum):
            yield self._wrong("pickle-argument", f"the enum {name} has no such member", name)

    def _is_member(self, value: Any, enum: EnumType) -> bool:
        name = enum.qualified_name
        if name not in self._members:
            self._members[name] = frozenset(enum.members.values())
        return isinstance(value, int | float | str) and value in self._members[name]

    def _tag(self, argument: Any) -> Iterator[Finding]:
        text = argument[1]
        if self.code is None or text in self._tags:
            return
        self._tags.add(text)
        try:
            self.code.parse_type(text)
        except (SourceError, UnknownClassError) as error:
            message = f"the type {text[:_LONGEST_SHOWN]!r} of a container: {error.message}"
            yield self._wrong("pickle-type", message, "torch.jit._pickle.restore_type_tag")

    def made(self, value: Object) -> Iterator[Finding]:
        """Check that the class of an object is in the archive, and that each slot has a value."""
        name = value.cls.qualified_name
        if name in _OLD_CLASSES or name.startswith(NATIVE_PREFIX) or self.code is None:
            return
        try:
            found = self.code.find(name)
        except ArchiveError:
            return
        if found is None:
            yield self._undefined(name)
        elif not isinstance(found, ClassType):
            message = f"an object is made of {name}, which is no class with objects"
            yield self._wrong("pickle-target", message, name)
        elif not found.has_state_methods:
            yield from self._slots(value, found)

    def _slots(self, value: Object, class_: ClassType) -> Iterator[Finding]:
        name = class_.qualified_name
        if not isinstance(value.state, dict):
            yield self._wrong("pickle-slot", f"the state of an object of {name} is no dict", name)
            return
        if (id(value.state), name) in self._states:
            return
        self._states.add((id(value.state), name))
        missing = next((slot for slot in class_.attributes if slot not in value.state), None)
        if missing is not None:
            message = f"an object of {name} has no value for {missing!r}"
            yield self._wrong("pickle-slot", message, name)

    def _undefined(self, name: str) -> Finding:
        if name in _FUNCTIONS or name in _VALUES:
            message = f"an object is made of {name}, which is no class"
            return self._wrong("pickle-target", message, name, Nature.HOSTILE)
        if is_foreign(name):
            return self.foreign(name, self.pickle.named.names.get(name))
        message = f"{name[:_LONGEST_SHOWN]} is not defined by the archive's code"
        return self._wrong("pickle-class", message, name, hint=INCOMPLETE)

    def _wrong(
        self,
        rule: str,
        message: str,
        name: str,
        nature: Nature = Nature.BROKEN,
        hint: str | None = None,
    ) -> Finding:
        offset = self.pickle.named.names.get(name)
        return Finding(rule, Severity.ERROR, nature, message, self.pickle.record, offset, hint=hint)


def _subclasses(values: Iterable[Any]) -> Iterator[str]:
    """Classes of tensors that were subclassed; torch drops them, too."""
    for value in values:
        match value:
            case Reduce(Global("torch._tensor", "_rebuild_from_type_v2"), (_, Global() as cls, *_)):
                yield cls.qualified_name


def _fits(argument: Any, *kinds: type | tuple[type, ...]) -> bool:
    return (
        isinstance(argument, tuple)
        and len(argument) == len(kinds)
        and all(map(isinstance, argument, kinds))
    )


def debug_findings(container: Container, record: str, code_bytes: int | None) -> Iterator[Finding]:
    """Check the form of a debug record, and that its offsets lie in ``code_bytes`` of code."""
    try:
        ranges = read_any_debug_record(container.read(record), record)
    except ArchiveError as error:
        yield fault(error, "pickle-debug")
        return
    if code_bytes is not None and any(not 0 <= row.offset <= code_bytes for row in ranges):
        message = "it speaks of places behind the end of the code"
        yield Finding("pickle-debug", Severity.WARNING, Nature.BROKEN, message, record)


_BUILT = (Object, Reduce, list, tuple, dict)


def is_deeper_than(limit: int, root: Any) -> bool:
    """Return whether more than ``limit`` values are nested, each where it is first met.

    The state of an object and the arguments of a call belong to these, and do not count.
    """
    seen: set[int] = set()
    pending = [(root, 1)]
    while pending:
        value, depth = pending.pop()
        if id(value) in seen or not isinstance(value, _BUILT):
            continue
        if depth > limit:
            return True
        seen.add(id(value))
        pending += [(part, depth + 1) for part in reversed(list(written_parts(value)))]
    return False


@dataclass(frozen=True, slots=True)
class PickleNames:
    """The offsets of the opcodes that first refer to each.

    ``names`` has qualified names, and None for those that an opcode takes from values which are
    not written next to it; ``storages`` has the keys of storages.
    """

    names: dict[str | None, int] = field(default_factory=dict)
    storages: dict[str, int] = field(default_factory=dict)


# Bytes after an opcode, where there are always as many.
_FIXED: dict[int, int] = {
    **{opcode.code: opcode.argument.size for opcode in op.READ},
    **dict.fromkeys(op.FOREIGN, 0),
    0x82: 1, 0x83: 2, 0x84: 4,  # EXT1, EXT2, EXT4
    0x95: 8,  # FRAME
}  # fmt: skip
# Bytes of the length that stands before the argument.
_COUNTED: dict[int, int] = {
    0x8A: 1, 0x8B: 4,  # LONG1, LONG4
    ord("T"): 4, ord("U"): 1,  # BINSTRING, SHORT_BINSTRING
    ord("B"): 4, ord("C"): 1, 0x8E: 8, 0x96: 8,  # BINBYTES, SHORT_BINBYTES, BINBYTES8, BYTEARRAY8
    ord("X"): 4, 0x8C: 1, 0x8D: 8,  # BINUNICODE, SHORT_BINUNICODE, BINUNICODE8
}  # fmt: skip
# How many lines follow.
_LINES: dict[int, int] = {
    **dict.fromkeys(map(ord, "ILSFVgpP"), 1),  # INT LONG STRING FLOAT UNICODE GET PUT PERSID
    **dict.fromkeys(map(ord, "ci"), 2),  # GLOBAL INST
}
_NAMING = frozenset(map(ord, "ci"))
_TEXTS = frozenset({ord("X"), 0x8C, 0x8D, ord("V"), ord("S"), ord("T"), ord("U")})
_STACK_GLOBAL, _MEMOIZE, _FRAME = 0x93, 0x94, 0x95
_BINPERSID = op.BINPERSID.code
# Opcodes without an argument that say nothing here. Bytes of no model are full of them.
_BARE = frozenset(code for code, size in _FIXED.items() if size == 0) - {
    *_LINES, *_COUNTED, _STACK_GLOBAL, _MEMOIZE, _BINPERSID,
}  # fmt: skip
_PUTS = frozenset(map(ord, "qrp"))
_GETS = frozenset(map(ord, "hjg"))


def names_in_pickle(data: bytes) -> PickleNames:
    """Collect the names in a pickle, even behind its STOP, up to the first byte of no opcode."""
    found = PickleNames()
    recent = _RecentTexts()
    position = 0
    while position < len(data):
        code = data[position]
        if code in _BARE:
            recent.pushed.append(None)
            position += 1
            continue
        argument = _argument(data, position)
        if argument is None:
            break
        start, end = argument
        content = data[start:end]
        if code in _NAMING:
            name = ".".join(map(_text, content.split(b"\n")[:2]))
            found.names.setdefault(name, position)
        elif code == _STACK_GLOBAL:
            found.names.setdefault(recent.joined(), position)
        elif code == _BINPERSID and (key := recent.storage_key()) is not None:
            found.storages.setdefault(key, position)
        recent.follow(code, content)
        position = end
    return found


def _argument(data: bytes, position: int) -> tuple[int, int] | None:
    """Return the bounds of an opcode's argument; None for no opcode, or one cut short."""
    code, start = data[position], position + 1
    if code in _LINES:
        end = start
        for _ in range(_LINES[code]):
            end = data.find(b"\n", end) + 1
            if not end:
                return None
        return start, end
    if code in _COUNTED:
        width = _COUNTED[code]
        end = start + width + int.from_bytes(data[start : start + width], "little")
        start += width
    elif code in _FIXED:
        end = start + _FIXED[code]
    else:
        return None
    return (start, end) if end <= len(data) else None


class _RecentTexts:
    """The last values on the stack of a pickle, None for what is no text, and texts in its memo."""

    def __init__(self) -> None:
        self.pushed: deque[str | None] = deque([None] * 7, maxlen=7)
        self._memo: dict[str, str | None] = {}

    def joined(self) -> str | None:
        """Return module and name, where both were pushed by the last two opcodes."""
        module, name = self.pushed[-2], self.pushed[-1]
        return None if module is None or name is None else f"{module}.{name}"

    def storage_key(self) -> str | None:
        """Return the key in "storage", type, key, device, size (and None in version 1)."""
        last = self.pushed
        if last[-6] == "storage":
            return last[-4]
        return last[-5] if last[-7] == "storage" else None

    def follow(self, code: int, content: bytes) -> None:
        if code in _TEXTS:
            self.pushed.append(_text(content.strip(b"\n'\"")))
        elif code == _MEMOIZE:
            self._memo[str(len(self._memo))] = self.pushed[-1]
        elif code in _PUTS:
            self._memo[_key(code, content)] = self.pushed[-1]
        elif code in _GETS:
            self.pushed.append(self._memo.get(_key(code, content)))
        elif code != _FRAME:
            self.pushed.append(None)


def _key(code: int, content: bytes) -> str:
    return _text(content).strip() if code in b"pg" else str(int.from_bytes(content, "little"))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


_STORAGE_FOLDERS = ("data/", "constants/", "traced_inputs/", "bytecode/", "tensors/")


class Storages:
    """Checks tensors, and remembers which records they lie in; some may be ``damaged``."""

    def __init__(self, container: Container, damaged: Collection[str]) -> None:
        self._container = container
        self._damaged = damaged
        self.referenced: set[str] = set()

    def findings(
        self, value: Any, record: str, offsets: Mapping[str, int] = MappingProxyType({})
    ) -> Iterator[Finding]:
        """Check the tensors in a value that ``record`` describes.

        ``offsets`` has the places in ``record`` that refer to each storage.
        """
        for found in reachable(value):
            match found:
                case PersistentId(value=(_, _, str(key), *_)):
                    self.referenced.add(self._name(record, key))
        yield from tensor_findings(
            value,
            record=record,
            storage_size=lambda key: self._size(self._name(record, key)),
            offset_of=offsets.get,
            in_doubt=lambda key: self._name(record, key) in self._damaged,
        )

    def _name(self, pickle: str, key: str) -> str:
        return storage_record(pickle, key, self._container.records)

    def _size(self, name: str) -> int | None:
        record = self._container.records.get(name)
        return None if record is None else record.size


def unreferenced(container: Container, referenced: set[str]) -> Iterator[Finding]:
    """Yield a finding for each storage that no pickle refers to."""
    for name, record in container.records.items():
        if name.startswith(_STORAGE_FOLDERS) and name not in referenced:
            message = f"no tensor lies in these {record.size:,} bytes"
            hint = "See what it is before you pass the file on"
            yield unusual("record-unreferenced", message, name, hint)
