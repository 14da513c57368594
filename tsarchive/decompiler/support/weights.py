"""The tensors of this package: ``weights.safetensors`` and, for other kinds, ``weights.pt``.

The first is read without any library; its metadata tells what shares memory with what.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn

FOLDER = Path(__file__).parent
DTYPES = {
    "BOOL": torch.bool, "U8": torch.uint8, "I8": torch.int8, "I16": torch.int16,
    "I32": torch.int32, "I64": torch.int64, "F16": torch.float16, "BF16": torch.bfloat16,
    "F32": torch.float32, "F64": torch.float64, "C64": torch.complex64,
}  # fmt: skip
# Libraries of linear algebra round differently on data that is aligned otherwise.
ALIGNMENT = 64
Device = torch.device | str | None


class Weights:
    """Reads tensors by name; asked twice, it gives the same tensor."""

    def __init__(self, device: Device = None) -> None:
        self.device = device
        self.objects: dict[str, Any] = {}
        self._known: dict[str, torch.Tensor] = {}
        self._others: dict[str, torch.Tensor] = {}
        with (FOLDER / "weights.safetensors").open("rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        size = int.from_bytes(data[:8], "little")
        self._entries: dict[str, Any] = json.loads(data[8 : 8 + size])
        self._data, self._start = data, 8 + size
        self.facts: dict[str, Any] = json.loads(self._entries.pop("__metadata__")["package"])
        if self.facts["others"]:
            self._others = torch.load(FOLDER / "weights.pt", weights_only=True, map_location="cpu")

    def tensor(self, name: str) -> torch.Tensor:
        if name not in self._known:
            found = self._read(name)
            if name in self.facts["grad"] and found.is_leaf:
                found.requires_grad_(True)
            self._known[name] = found
        return self._known[name]

    def _read(self, name: str) -> torch.Tensor:
        if name in self.facts["same"]:
            return self.tensor(self.facts["same"][name])
        if name in self.facts["views"]:
            base, dtype, offset, shape, stride = self.facts["views"][name]
            flat = self.tensor(base).detach()
            return flat.view(getattr(torch, dtype)).as_strided(shape, stride, offset)
        if name in self._others:
            return self._others[name].to(self.device)
        entry = self._entries[name]
        begin, end = entry["data_offsets"]
        dtype = DTYPES[entry["dtype"]]
        if begin == end:
            return torch.empty(entry["shape"], dtype=dtype, device=self.device)
        count = (end - begin) // dtype.itemsize
        flat = torch.frombuffer(self._data, dtype=dtype, count=count, offset=self._start + begin)
        if flat.data_ptr() % ALIGNMENT:
            flat = flat.clone()
        return flat.reshape(entry["shape"]).to(self.device)


_open: ContextVar[Weights | None] = ContextVar("_open", default=None)


Model = TypeVar("Model", bound=nn.Module)


def tensor(name: str) -> torch.Tensor:
    """A tensor of the package that is no parameter and no buffer."""
    return (_open.get() or Weights()).tensor(name)


def shared(name: str, make: Callable[[], Any]) -> Any:
    """An object that several attributes of one model hold."""
    weights = _open.get()
    if weights is None:
        return make()
    if name not in weights.objects:
        weights.objects[name] = make()
    return weights.objects[name]


def build(
    make: Callable[[], Model], device: Device = None, constants: Sequence[torch.Tensor] = ()
) -> Model:
    """The model that ``make`` gives, with the weights of this package in it.

    ``constants`` are tensors of the code, which are put on ``device`` as well. They are one for
    all models, and stay where the last call put them.
    """
    for constant in constants:
        _put(constant, device)
    weights = Weights(device)
    token = _open.set(weights)
    try:
        # The first values of parameters, which are drawn, are not those that stay.
        with torch.random.fork_rng(devices=[]):
            model = make()
    finally:
        _open.reset(token)
    for path, first in weights.facts["modules"].items():
        owner, name = _owner(model, path)
        owner._modules[name] = model.get_submodule(first)
    for path in weights.facts["state"]:
        _place(*_owner(model, path), weights.tensor(path))
    training = set(weights.facts["training"])
    for path, module in model.named_modules():
        module.training = path in training
    return model


_first: dict[int, torch.Tensor] = {}


def _put(constant: torch.Tensor, device: Device) -> None:
    """Move a constant, which stays the same object."""
    if constant.is_meta and id(constant) not in _first:
        return
    moved = _first.setdefault(id(constant), constant.detach()).to(device).detach()
    if constant.device != moved.device:
        moved.requires_grad_(constant.requires_grad)
        torch.utils.swap_tensors(constant, moved)  # type: ignore[no-untyped-call]


def _owner(model: nn.Module, path: str) -> tuple[nn.Module, str]:
    parent, _, name = path.rpartition(".")
    return model.get_submodule(parent), name


def _place(module: nn.Module, name: str, value: torch.Tensor) -> None:
    if name not in module._parameters:
        module._buffers[name] = value
        return
    if type(value) is torch.Tensor and value.is_leaf:
        # The object stays the same, since other attributes may hold it, too.
        value.__class__ = nn.Parameter
    elif not isinstance(value, nn.Parameter):
        value = nn.Parameter(value.detach(), value.requires_grad)
    module._parameters[name] = value  # type: ignore[assignment]
