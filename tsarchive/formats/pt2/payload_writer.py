"""Weights and constants as the records of a PT2 archive, grouped as torch does.

A record holds a whole storage; tensors of one dtype that share it share the record.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Container, Iterator, Mapping
from itertools import count
from types import MappingProxyType
from typing import Any, TypeGuard

import torch
from torch._subclasses.fake_tensor import FakeTensor

from tsarchive.container import NewRecord
from tsarchive.errors import SaveError
from tsarchive.formats.torchscript.tensors import storage_bytes

from .dtypes import SCALAR_TYPES
from .schema import Device, Layout, PayloadMeta, ScalarType, SymInt, TensorMeta

_PICKLE_PROTOCOL = 2
_SCALAR_TYPES: dict[torch.dtype, ScalarType] = {
    getattr(torch, name): number for name, number in SCALAR_TYPES.items() if hasattr(torch, name)
}
_LAYOUTS: dict[torch.layout, Layout] = {
    torch.strided: Layout.STRIDED,
    torch.sparse_coo: Layout.SPARSE_COO,
    torch.sparse_csr: Layout.SPARSE_CSR,
    torch.sparse_csc: Layout.SPARSE_CSC,
    torch.sparse_bsr: Layout.SPARSE_BSR,
    torch.sparse_bsc: Layout.SPARSE_BSC,
    torch._mkldnn: Layout.MKLDNN,  # type: ignore[attr-defined]
}


class PayloadWriter:
    """Collects records of one folder, numbered across models.

    ``taken`` are names of records there that must not be used.
    """

    def __init__(self, folder: str, taken: Container[str] = ()) -> None:
        self.folder = folder
        self.records: list[NewRecord] = []
        self._taken = taken
        self._numbers: dict[str, Iterator[int]] = {}
        self._used: set[str] = set()

    def take(self) -> list[NewRecord]:
        """Return the records of one model, and start collecting those of the next."""
        taken, self.records = self.records, []
        return taken

    def payloads(
        self,
        values: Mapping[str, Any],
        prefix: str,
        known: Mapping[str, str] = MappingProxyType({}),
    ) -> dict[str, PayloadMeta]:
        """Store the values of one model; return their metadata in torch's order.

        ``prefix`` is for records of tensors. ``known`` are names of the records that values had
        before, and keep. Raises SaveError for a value that is neither a tensor nor an object that
        torch stores.
        """
        tensors = {name: value for name, value in values.items() if isinstance(value, torch.Tensor)}
        found: dict[str, PayloadMeta] = {}
        for name, tensor in tensors.items():
            if _is_subclass(tensor):
                record = self._add(prefix, _saved(tensor), known.get(name))
                found[name] = PayloadMeta(record, _is_parameter(tensor), True, tensor_meta(tensor))
        raw = {name: tensor for name, tensor in tensors.items() if name not in found}
        for group in _groups(raw):
            before = (known[name] for name in group if name in known)
            again = next((record for record in before if record not in self._used), None)
            record = self._add(prefix, _whole_storage([raw[name] for name in group]), again)
            for name in group:
                meta = tensor_meta(raw[name])
                found[name] = PayloadMeta(record, _is_parameter(raw[name]), False, meta)
        for name, value in values.items():
            if name not in tensors:
                record = self._add(*_object(name, value), known.get(name))
                found[name] = PayloadMeta(record, False, True, None)
        return found

    def _add(self, prefix: str, data: bytes | memoryview, name: str | None) -> str:
        name = name or self._free_name(prefix)
        self._used.add(name)
        self.records.append(NewRecord(f"{self.folder}{name}", data))
        return name

    def _free_name(self, prefix: str) -> str:
        numbers = self._numbers.setdefault(prefix, count())
        names = (f"{prefix}{number}" for number in numbers)
        return next(name for name in names if name not in self._taken)


def tensor_meta(tensor: torch.Tensor) -> TensorMeta:
    """Return the metadata of a tensor.

    Raises SaveError for a dtype without a number in the format.
    """
    dtype = _SCALAR_TYPES.get(tensor.dtype)
    if dtype is None:
        raise SaveError(f"the format has no number for {tensor.dtype}")
    is_strided = tensor.layout == torch.strided
    return TensorMeta(
        dtype,
        _numbers(tensor.shape),
        tensor.requires_grad,
        Device(tensor.device.type, tensor.device.index),
        _numbers(tensor.stride() if is_strided else ()),
        SymInt("as_int", tensor.storage_offset() if is_strided else 0),
        _LAYOUTS[tensor.layout],
    )


def _numbers(sizes: Any) -> list[SymInt]:
    return [SymInt("as_int", size) for size in sizes]


def _groups(tensors: Mapping[str, torch.Tensor]) -> list[list[str]]:
    """Group names of tensors that share a record; all fake ones of a dtype do."""
    groups: dict[tuple[int | None, torch.dtype], list[str]] = {}
    for name, tensor in tensors.items():
        storage = None if _is_fake(tensor) else tensor.untyped_storage().data_ptr()
        groups.setdefault((storage, tensor.dtype), []).append(name)
    return list(groups.values())


def _whole_storage(group: list[torch.Tensor]) -> memoryview:
    """Return the storage that a group shares; empty for fake tensors."""
    return memoryview(b"") if _is_fake(group[0]) else storage_bytes(group[0])


def _object(name: str, value: Any) -> tuple[str, bytes]:
    """Return the kind of record for an object, and its content."""
    if isinstance(value, torch.ScriptObject):
        return "custom_obj_", torch._C._pickle_save(value)
    from torch._library.opaque_object import is_opaque_value

    if not is_opaque_value(value):
        raise SaveError(f"the constant {name!r} is a {type(value).__name__}, which has no record")
    return "opaque_obj_", pickle.dumps(value, protocol=_PICKLE_PROTOCOL)


def _saved(tensor: torch.Tensor) -> bytes:
    buffer = io.BytesIO()
    torch.save(tensor, buffer, pickle_protocol=_PICKLE_PROTOCOL)
    return buffer.getvalue()


def _is_parameter(tensor: torch.Tensor) -> bool:
    return isinstance(tensor, torch.nn.Parameter)


def _is_fake(tensor: torch.Tensor) -> TypeGuard[FakeTensor]:
    return isinstance(tensor, FakeTensor)


def _is_subclass(tensor: torch.Tensor) -> bool:
    return not _is_fake(tensor) and type(tensor.data) is not torch.Tensor
