"""The contents of a checkpoint of torch.save: tensors and plain values, as TorchScript has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Final, NoReturn

from tsarchive.analyses.encoding import Plain, encode
from tsarchive.describing.contents import uniquely_named
from tsarchive.errors import PickleError, UnsupportedError
from tsarchive.formats.contents import Definition, ModuleContent, Outline, Whole
from tsarchive.ir.types import Type
from tsarchive.pickler import Global, PersistentId, Reduce, Value, loads
from tsarchive.pickler.values import STORAGE_TYPES

from .contents import TorchScriptContents, Values, joined
from .stored_tensors import TENSOR_MODULE, StoredTensor, StoredTensors

_DENSE: Final = Global(TENSOR_MODULE, "_rebuild_tensor_v2")
# Of a dtype that has no storage type of its own.
_OF_DTYPE: Final = Global(TENSOR_MODULE, "_rebuild_tensor_v3")
_SPARSE: Final = Global(TENSOR_MODULE, "_rebuild_sparse_tensor")
_TENSORS: Final = frozenset(
    {_DENSE, _OF_DTYPE}
    | {Global(TENSOR_MODULE, name) for name in ("_rebuild_qtensor", "_rebuild_parameter")}
)
_LAYOUT: Final = Global("torch.serialization", "_get_layout")
# Text that is also the name of a key of another type.
_KEYWORDS: Final = frozenset({"True", "False", "inf", "nan", ""})
_KINDS: Final = {storage.dtype: kind for kind, storage in STORAGE_TYPES.items()}


class CheckpointContents(TorchScriptContents):
    """The contents of a checkpoint without objects, such as a state dict."""

    language = ""
    may_have_extra_files = False

    @property
    def code(self) -> Plain:
        _ = self.structure  # which tensors there are
        return []

    @cached_property
    def outline(self) -> Outline:
        found = dict(uniquely_named(_leaves(self.structure, "")))
        root = Definition("", {"kind": "checkpoint"}, {}, {}, {})
        return Outline({"": ModuleContent(root, found, [*filter(None, found)])}, [])

    def root(self) -> Value:
        return loads(
            self._container.read(self.values_record), record=self.values_record, any_int=True
        )

    def values_in(self, record: str) -> Values:
        return _CheckpointValues(self, record)

    def class_named(self, qualified_name: str) -> NoReturn:
        raise _unknown(qualified_name, self.values_record)

    def type_of(self, tag: str) -> NoReturn:
        raise _unknown(tag, self.values_record)


def _leaves(value: Any, name: str) -> Iterator[tuple[str, Plain]]:
    """Yield plain values and tensors by the names that tensors have; what holds them by its kind.

    Kinds are told apart, but not how many items there are: each has a name of its own. So has a key
    whose name another key would have, too, or that has none.
    """
    match value:
        case {"dict": pairs}:
            yield name, {"kind": "dict"}
            for index, (key, item) in enumerate(pairs):
                shown = key if isinstance(key, bool | int | float | str) else f"<{index}>"
                if not _is_told_by_name(key):
                    yield joined(name, f"<key {shown}>"), key
                yield from _leaves(item, joined(name, shown))
        case {"list": items} | {"tuple": items}:
            yield name, {"kind": next(iter(value))}
            for index, item in enumerate(items):
                yield from _leaves(item, joined(name, index))
        case _:
            yield name, value


def _is_told_by_name(key: Any) -> bool:
    """Return whether no other key is likely to have the name of this one."""
    if isinstance(key, str):
        return key not in _KEYWORDS and not key[:1].isdigit() and key[:1] not in "-<"
    return isinstance(key, int) and not isinstance(key, bool)


def _unknown(name: str, record: str) -> UnsupportedError:
    return UnsupportedError(
        f"the checkpoint holds a {name[:100]}, of which nothing is known",
        record=record,
        hint="Fingerprints are of models, and of checkpoints of tensors and plain values",
    )


class _CheckpointValues(Values):
    """Reads what torch.save writes beside what an archive has."""

    def stored(self, record: str) -> StoredTensors:
        return _CheckpointTensors(record)

    def part(self, value: Any, name: str, type_: Type | None) -> Plain:
        if isinstance(value, Global):
            if value.module == "torch" and value.name in _KINDS:
                return {"dtype": value.name}
            raise _unknown(value.qualified_name, self.record)
        return super().part(value, name, type_)

    def reduce(self, value: Reduce, name: str, type_: Type | None) -> Plain:
        module, _, function = value.function.qualified_name.rpartition(".")
        if module in ("__builtin__", "builtins") and function != "complex":
            return self._built_in(function, value, name)
        match value.function, value.argument:
            case Global("torch", "Size"), (tuple(size),):
                return {"size": self.items(name, size, [None] * len(size))}
            case Global("_codecs", "encode"), (str(text), "latin1"):
                return self._bytes(text)
            case made, (Reduce(layout, (str(kind),)), tuple(parts)) if (
                made == _SPARSE and layout == _LAYOUT
            ):
                start = len(self.tensors)
                plain = self.items(name, parts, [None] * len(parts))
                self.mark(start, Whole(name, kind.removeprefix("torch."), _sizes(parts)))
                return {"sparse": kind, "parts": plain}
        is_plain = value.function.module != TENSOR_MODULE or value.function in _TENSORS
        if not is_plain:
            raise _unknown(value.function.qualified_name, self.record)
        return super().reduce(value, name, type_)

    def _built_in(self, function: str, value: Reduce, name: str) -> Plain:
        match function, value.argument:
            case "bytes", ():
                return b""
            case "bytearray", ():
                return {"bytearray": b""}
            case "bytearray", (content,):
                return {"bytearray": self.value(content, name)}
            case "set" | "frozenset", (list(items),):
                # They are in the order of their hashes, which differ from process to process.
                return {function: sorted(self.items(name, items, [None] * len(items)), key=encode)}
        raise _unknown(value.function.qualified_name, self.record)

    def _bytes(self, text: str) -> bytes:
        """Return bytes, which pickles of protocol 2 hold as text."""
        self.count(len(text))
        try:
            return text.encode("latin1")
        except UnicodeEncodeError:
            raise PickleError("bytes are malformed", record=self.record) from None


def _sizes(parts: tuple[Value, ...]) -> Sequence[int]:
    """Return the shape of a sparse tensor, which stands among its parts."""
    for part in parts:
        match part:
            case Reduce(Global("torch", "Size"), (tuple(sizes),)):
                return [size for size in sizes if isinstance(size, int)]
    return ()


class _CheckpointTensors(StoredTensors):
    def tensor(self, value: Reduce) -> StoredTensor:
        match value.function, value.argument:
            case function, (PersistentId() as storage, *view, Global("torch", dtype)) if (
                function == _OF_DTYPE
            ):
                value = Reduce(_DENSE, (_typed(storage, dtype), *view))
        return super().tensor(value)


def _typed(storage: PersistentId, dtype: str) -> PersistentId:
    """Give a storage of bytes the type of the elements in it."""
    match storage.value:
        case ("storage", Global("torch.storage", "UntypedStorage"), key, device, int(size)) if (
            dtype in _KINDS
        ):
            kind = _KINDS[dtype]
            count = size // STORAGE_TYPES[kind].itemsize
            return PersistentId(("storage", Global("torch", kind), key, device, count))
    return storage
