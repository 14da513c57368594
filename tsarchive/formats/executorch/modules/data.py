"""Tensors in data files beside a program, found by name."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import BinaryIO, TypeAlias

from tsarchive.container.source import open_source
from tsarchive.errors import CallError, FormatError, MissingRecordError
from tsarchive.formats.executorch.data_file import DataFile, Entry
from tsarchive.formats.executorch.header import PTD, kind_of
from tsarchive.formats.executorch.regions import opened_regions
from tsarchive.formats.executorch.schema import require_known
from tsarchive.formats.executorch.values import Tensor

DataSource: TypeAlias = str | os.PathLike[str] | BinaryIO


class Data:
    """The data files of a program, searched in order."""

    def __init__(self, files: Iterable[DataFile] = ()) -> None:
        self._files = tuple(files)

    @property
    def contents(self) -> tuple[memoryview, ...]:
        """The bytes of each file."""
        return tuple(file.data for file in self._files)

    def bytes_of(self, tensor: Tensor) -> memoryview:
        """Return the bytes of a tensor, not copied.

        Raises MissingRecordError when no file has its name, FormatError for one of another layout.
        """
        key = tensor.name or ""
        file, entry = self._find(key)
        found = entry.layout
        wanted = tensor.scalar_type, tensor.sizes, tensor.dim_order
        if found is None or (found.scalar_type, found.sizes, found.dim_order) != wanted:
            shown = "bytes" if found is None else f"{found.dtype}{list(found.sizes)}"
            raise FormatError(
                f"{key!r} is {shown} in the data file, and {tensor.dtype}{list(tensor.sizes)} "
                "in the program", record=f"named_data/{key}",
            )  # fmt: skip
        return file.data_of(entry)

    def bytes_by_name(self, key: str) -> memoryview:
        """Return the bytes under a key. Raises MissingRecordError if there are none."""
        file, entry = self._find(key)
        return file.data_of(entry)

    def _find(self, key: str) -> tuple[DataFile, Entry]:
        for file in self._files:
            if key in file.by_key:
                return file, file.by_key[key]
        raise self._missing(key)

    def _missing(self, key: str) -> MissingRecordError:
        if self._files:
            message = f"the tensor {key!r} of the program is in none of the data files"
            hint = "The file that was written beside this program has it"
        else:
            message = f"the tensor {key!r} of the program is in a data file"
            hint = 'Give the file: load("model.pte", data="model.ptd"), --data model.ptd'
        return MissingRecordError(message, record=f"named_data/{key}", hint=hint)


def opened_data(data: DataSource | Sequence[DataSource] | None) -> Data:
    """Open one or several data files.

    Raises CallError for anything else, UnsupportedError for a later version, and what opening
    raises.
    """
    if data is None:
        return Data()
    sources = data if isinstance(data, (list, tuple)) else (data,)
    return Data(map(_opened, sources))


def _opened(source: DataSource) -> DataFile:
    opened = open_source(source)
    kind = kind_of(opened.data)
    if kind != PTD:
        opened.close()
        what = "another file" if kind is None else f"a {kind} file"
        raise CallError(f"data should be a data file of ExecuTorch (.ptd), and is {what}")
    content = opened_regions(opened, kind).content
    assert isinstance(content, DataFile)
    require_known(content.version, "tables")
    return content
