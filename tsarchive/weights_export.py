"""The weights of an archive as safetensors, and beside them the structure of the model as JSON.

Nothing of the archive runs, and torch is not imported.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final, NamedTuple

from tsarchive.archive import Archive, archive_of
from tsarchive.container.writer import replacing
from tsarchive.describing.contents import TensorInfo, tensor_document, tree_document
from tsarchive.describing.text import as_json
from tsarchive.errors import UnsupportedError
from tsarchive.formats.base import Format, Opened
from tsarchive.formats.contents import ModuleContent, TensorContent
from tsarchive.formats.safetensors import DTYPES, RAW, Piece, Tensor, write_safetensors
from tsarchive.steps import Step

SCHEMA: Final = "tsarchive.structure"
VERSION: Final = 1
# Libraries read from this which framework the names of tensors are for.
_METADATA: Final = {"format": "pt"}
_INDENT: Final = 2


class Selected(NamedTuple):
    """A tensor of an archive, and its elements; None where there is no one run of them."""

    name: str
    info: TensorInfo
    content: TensorContent | None

    @property
    def has_dtype(self) -> bool:
        """Return whether safetensors has its dtype; others are written as bytes."""
        return self.info.dtype in DTYPES

    @property
    def note(self) -> str | None:
        """A sentence on a tensor that is not written as it is."""
        if self.content is None:
            return f"{self.name} is left out: {self._why_not}"
        if not self.has_dtype:
            return f"{self.name} is written as bytes: safetensors has no {self.info.dtype}"
        return None

    @property
    def lazy(self) -> frozenset[str]:
        """What is still to be done to the elements: ``conj``, ``neg``."""
        meaning: Any = [] if self.content is None else self.content.meaning
        return frozenset(meaning[3]) if meaning[:1] == ["dense"] else frozenset()

    def pieces(self) -> Iterator[Piece]:
        """Yield the bytes of the elements, conjugated and negated where that is still to be done.

        Raises UnsupportedError for integers that are to be negated, which no operator makes.
        """
        assert self.content is not None
        elements, lazy = self.content.elements, self.lazy
        if not lazy:
            return elements.pieces()
        if "float" not in self.info.dtype and "complex" not in self.info.dtype:
            raise UnsupportedError(f"{self.name} has {self.info.dtype} that are to be negated")
        parts = elements.itemsize // elements.unit
        return _flipped(elements.pieces(), _signs(elements.unit, parts, lazy))

    @property
    def _why_not(self) -> str:
        if self.info.storage is None:
            return "it is sparse, or quantized by channel"
        if self.info.offset is None:
            return "its elements are in another file"
        return "it is an example, and no part of the model"


def write(
    opened: Opened,
    format_: Format,
    dst: str | os.PathLike[str],
    structure: str | os.PathLike[str],
    *,
    model: str | None,
    step: Step,
) -> tuple[str, ...]:
    """Write the tensors of an archive by name, and the structure file; return what to know.

    ``model`` is one of several in a PT2 archive. Tensors of a dtype that safetensors lacks are
    written as bytes, and sparse ones, those that are quantized by channel, and those of other
    files are left out: the structure has all of them. Either both files are replaced, or none.

    Raises UnsupportedError for an archive without tensors that can be written; OSError.
    """
    archive = archive_of(opened)
    prefix = ""
    if model is not None:
        whole, archive = archive, archive.only(model)
        prefix = f"{model}." if len(whole.exported.models) > 1 else ""
    contents = format_.contents(opened)
    found = _selected(archive, contents.tensors, prefix)
    written = [each for each in found if each.content is not None]
    if not written:
        raise UnsupportedError(
            "the file has no tensors to write as safetensors",
            hint="'tsarchive tensors' lists what it has",
        )
    modules = contents.outline.modules
    document = _structure(archive, modules, os.path.basename(os.fspath(dst)), found)
    with ExitStack() as files:
        stream = files.enter_context(replacing(os.fsdecode(dst)))
        step(f"writing {os.fspath(dst)}")
        write_safetensors(stream, [_tensor(each) for each in written], _METADATA)
        beside = files.enter_context(replacing(os.fsdecode(structure)))
        text = json.dumps(as_json(document), indent=_INDENT, allow_nan=False)
        beside.write(f"{text}\n".encode())
    return tuple(each.note for each in found if each.note is not None)


def _selected(
    archive: Archive, contents: Mapping[str, TensorContent], prefix: str
) -> list[Selected]:
    """Return the tensors of an archive; a prefix comes before their names in the contents."""
    return [
        Selected(name, info, _whole(contents.get(f"{prefix}{name}")))
        for name, info in archive.tensors.items()
    ]


def _whole(content: TensorContent | None) -> TensorContent | None:
    return None if content is None or content.part_of is not None else content


def _signs(width: int, parts: int, lazy: frozenset[str]) -> bytes:
    """Return the bits that change in an element, which has a real part or an imaginary one too."""
    sign, none = bytes(width - 1) + b"\x80", bytes(width)
    changed = (("neg" in lazy) != (part == 1 and "conj" in lazy) for part in range(parts))
    return b"".join(sign if is_changed else none for is_changed in changed)


def _flipped(pieces: Iterable[Piece], signs: bytes) -> Iterator[bytes]:
    """Yield pieces of elements whose bits are changed where those of ``signs`` are set."""
    place = 0
    for piece in pieces:
        length = memoryview(piece).nbytes
        mask = (signs * (length // len(signs) + 2))[place : place + length]
        changed = int.from_bytes(piece, "little") ^ int.from_bytes(mask, "little")
        yield changed.to_bytes(length, "little")
        place = (place + length) % len(signs)


def _tensor(each: Selected) -> Tensor:
    assert each.content is not None
    nbytes, pieces = each.content.elements.nbytes, each.pieces
    if each.has_dtype:
        return Tensor(each.name, DTYPES[each.info.dtype], each.info.shape, nbytes, pieces)
    return Tensor(each.name, RAW, (nbytes,), nbytes, pieces)


def _structure(
    archive: Archive,
    modules: Mapping[str, ModuleContent],
    weights: str,
    found: Sequence[Selected],
) -> dict[str, Any]:
    """Return what a person needs to build the network again around the file of weights."""
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "kind": archive.kind,
        "weights": weights,
        "root": tree_document(archive.view.signed_tree()),
        "values": {path: _values(module) for path, module in modules.items()},
        "tensors": [_row(each) for each in found],
        "shared": _shared(found),
    }


def _values(module: ModuleContent) -> dict[str, Any]:
    """Return the constants of a module's class, and its attributes that are no tensors."""
    constants: Mapping[str, Any] = module.definition.constants  # each a type and a value
    attributes = {
        name: value
        for name, value in module.attributes.items()
        if not (isinstance(value, Mapping) and "tensor" in value)
    }
    values = {name: value for name, (_, value) in constants.items()}
    return {"constants": values, "attributes": attributes}


def _row(each: Selected) -> dict[str, Any]:
    stored = "no" if each.content is None else "yes" if each.has_dtype else "as bytes"
    return {**tensor_document(each.name, each.info), "stored": stored}


def _shared(found: Sequence[Selected]) -> list[list[str]]:
    """Return the names of tensors that are one tensor, for each that has several."""
    names: dict[Any, list[str]] = {}
    for each in found:
        info = each.info
        if info.storages:
            elements = info.storages, info.offset, info.shape, info.strides, info.dtype
            names.setdefault((elements, each.lazy), []).append(each.name)
    return [same for same in names.values() if len(same) > 1]
