"""Operators on files: they run only where a policy allows them by name."""

from __future__ import annotations

from typing import Any

import torch

from tsarchive.run.natives.table import native


@native("aten::save")
def save(item: Any, filename: str) -> None:
    """``torch.save`` of a value of the archive's code."""
    torch.save(item, filename)
