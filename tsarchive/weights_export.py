"""The weights of an archive as safetensors, and beside them the structure of the model as JSON.

Nothing of the archive runs, and torch is not imported.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final, NamedTuple

from tsarchive.archive import Archive, archive_of
from tsarchive.container.writer import replacing
from tsarchive.describing.contents import TensorInfo, tensor_document, tree_document
from tsarchive.describing.text import as_json
from tsarchive.errors import UnsupportedError
from tsarchive.formats.base import Format, Opened
from tsarchive.formats.contents import ModuleContent, TensorContent
from tsarchive.formats.safetensors import DTYPES, RAW, Tensor, write_safetensors
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


def _tensor(each: Selected) -> Tensor:
    assert each.content is not None
    nbytes, pieces = each.content.elements.nbytes, each.content.elements.pieces
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
    for name, info, _ in found:
        if info.storages:
            place = info.storages, info.offset, info.shape, info.strides, info.dtype
            names.setdefault(place, []).append(name)
    return [same for same in names.values() if len(same) > 1]
