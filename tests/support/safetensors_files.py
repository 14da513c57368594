"""Files of safetensors, read by their description alone."""

from __future__ import annotations

import json

import torch

TORCH_DTYPES = {
    "F32": torch.float32, "F64": torch.float64, "I64": torch.int64, "C64": torch.complex64,
    "U8": torch.uint8, "BF16": torch.bfloat16,
}  # fmt: skip


def parsed(data: bytes) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """Return the tensors and the metadata of a safetensors file."""
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    metadata = header.pop("__metadata__")
    found = {}
    for name, facts in header.items():
        begin, end = (8 + size + offset for offset in facts["data_offsets"])
        flat = torch.frombuffer(bytearray(data[begin:end] or b"\0"), dtype=torch.uint8)
        values = flat[: end - begin].view(TORCH_DTYPES[facts["dtype"]])
        found[name] = values.reshape(facts["shape"])
    return found, metadata
