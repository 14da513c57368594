"""hash(): the 64-bit numbers that torch built with GNU's standard library gives."""

from __future__ import annotations

import struct
from typing import Any

import torch

from tsarchive.run.natives.bytestrings import encode
from tsarchive.run.natives.faults import type_fault
from tsarchive.run.natives.narrowing import wrap
from tsarchive.run.natives.table import native

_MASK = (1 << 64) - 1
_MULTIPLIER = 0xC6A4A7935BD1E995
_SEED = 0xC70F6907
_GOLDEN_RATIO = 0x9E3779B9
_DEVICE_TYPES = (
    "cpu",
    "cuda",
    "mkldnn",
    "opengl",
    "opencl",
    "ideep",
    "hip",
    "fpga",
    "maia",
    "xla",
    "vulkan",
    "metal",
    "xpu",
    "mps",
    "meta",
    "hpu",
    "ve",
    "lazy",
    "ipu",
    "mtia",
)
"""In the order of their numbers."""


@native("aten::hash.generic")
def hash_value(value: Any) -> int:
    """The hash of a number, string, tuple, device, tensor (by identity) or None.

    Raises ScriptError for lists, dicts and what else torch does not hash.
    """
    return wrap(_hash(value))


def _hash(value: Any) -> int:
    if value is None:
        return 0
    if isinstance(value, int):
        return int(value) & _MASK
    if isinstance(value, float):
        return murmur64a(struct.pack("<d", value)) if value != 0 else 0
    if isinstance(value, str):
        return murmur64a(encode(value))
    if isinstance(value, tuple):
        return _hash_of_items(value)
    if isinstance(value, torch.device):
        return _hash_of_device(value)
    if isinstance(value, torch.Tensor):
        return id(value)
    raise type_fault(f"unhashable type: '{type(value).__name__}'")


def _hash_of_items(items: tuple[Any, ...]) -> int:
    seed = 0
    for item in items:
        mixed = _hash(item) + _GOLDEN_RATIO + (seed << 6) + (seed >> 2)
        seed ^= mixed & _MASK
    return seed


def _hash_of_device(device: torch.device) -> int:
    """The number of the device type above 16 bits of index, of which no index fills eight."""
    index = 0xFF if device.index is None else device.index
    return _DEVICE_TYPES.index(device.type) << 16 | index


def murmur64a(data: bytes) -> int:
    """Austin Appleby's MurmurHash64A with the standard library's seed."""
    value = (_SEED ^ (len(data) * _MULTIPLIER)) & _MASK
    whole = len(data) - len(data) % 8
    for (block,) in struct.iter_unpack("<Q", data[:whole]):
        value = (value ^ (_shift_mix(block * _MULTIPLIER) * _MULTIPLIER)) * _MULTIPLIER & _MASK
    if whole < len(data):
        value = (value ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _MASK
    return _shift_mix(_shift_mix(value) * _MULTIPLIER)


def _shift_mix(value: int) -> int:
    value &= _MASK
    return value ^ (value >> 47)
