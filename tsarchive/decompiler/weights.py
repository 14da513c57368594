"""The tensors of a package: a safetensors file, and a second one for what that cannot hold."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from tsarchive.errors import UnsupportedError
from tsarchive.formats.torchscript.tensors import storage_bytes

from .naming import numbered
from .support.weights import DTYPES

_DTYPES: Mapping[torch.dtype, str] = {dtype: name for name, dtype in DTYPES.items()}


@dataclass(slots=True)
class TensorFile:
    """Collects tensors by name.

    state: the names that are in the state dict; modules: paths that hold the module of another
    path; training: the paths of modules in training mode.
    """

    state: list[str] = field(default_factory=list)
    modules: dict[str, str] = field(default_factory=dict)
    training: list[str] = field(default_factory=list)
    _tensors: dict[str, torch.Tensor] = field(default_factory=dict)

    def add(self, name: str, tensor: torch.Tensor) -> str:
        """Add a tensor; return its name, which is another one where ``name`` is taken."""
        if tensor.is_meta or tensor.is_nested:
            raise UnsupportedError(f"the tensor {name!r} has no data of its own")
        found = next(n for n in numbered(name, "~") if self._tensors.get(n, tensor) is tensor)
        self._tensors[found] = tensor
        return found

    def written(self) -> dict[str, bytes]:
        """Return the files by name."""
        plain, others, facts = self._sorted()
        facts |= {
            "grad": [name for name, tensor in self._tensors.items() if tensor.requires_grad],
            "modules": self.modules,
            "others": bool(others),
            "state": self.state,
            "training": self.training,
        }
        files = {"weights.safetensors": safetensors(plain, {"package": json.dumps(facts)})}
        if others:
            buffer = io.BytesIO()
            torch.save(others, buffer)
            files["weights.pt"] = buffer.getvalue()
        return files

    def _sorted(
        self,
    ) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor], dict[str, Any]]:
        """Return the tensors for the first file and the second one, and what shares memory."""
        first_names: dict[int, str] = {}
        same: dict[str, str] = {}
        groups: dict[int, list[str]] = {}
        others: dict[str, torch.Tensor] = {}
        for name, tensor in self._tensors.items():
            first = first_names.setdefault(id(tensor), name)
            if first != name:
                same[name] = first
            elif not _is_plain(tensor):
                others[name] = tensor.detach()
            else:
                groups.setdefault(tensor.untyped_storage()._cdata, []).append(name)
        plain: dict[str, torch.Tensor] = {}
        views: dict[str, Any] = {}
        for names in groups.values():
            self._group(names, plain, views)
        return plain, others, {"same": same, "views": views}

    def _group(
        self, names: list[str], plain: dict[str, torch.Tensor], views: dict[str, Any]
    ) -> None:
        """Add the tensors of one storage: as they are, or as views of all of it."""
        tensors = [self._tensors[name].detach() for name in names]
        if len(names) == 1 and tensors[0].is_contiguous():
            plain[names[0]] = tensors[0]
            return
        dtypes = {tensor.dtype for tensor in tensors}
        dtype = tensors[0].dtype if len(dtypes) == 1 else torch.uint8
        base = f"{names[0]}~storage"
        flat = torch.frombuffer(bytearray(storage_bytes(tensors[0])), dtype=dtype)
        plain[base] = flat
        for name, tensor in zip(names, tensors, strict=True):
            shown = str(tensor.dtype).removeprefix("torch.")
            place = [tensor.storage_offset(), list(tensor.shape), list(tensor.stride())]
            views[name] = [base, shown, *place]


def _is_plain(tensor: torch.Tensor) -> bool:
    is_flagged = tensor.is_conj() or tensor.is_neg()
    return tensor.layout == torch.strided and tensor.dtype in _DTYPES and not is_flagged


def safetensors(tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str]) -> bytes:
    """Return a safetensors file: length of the header, header, data, wide elements first."""
    ordered = sorted(tensors.items(), key=lambda pair: -pair[1].element_size())
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    data: list[bytes] = []
    end = 0
    for name, tensor in ordered:
        content = bytes(storage_bytes(tensor.detach().contiguous().clone()))
        header[name] = {
            "dtype": _DTYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [end, end + len(content)],
        }
        data.append(content)
        end += len(content)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), text, *data])
