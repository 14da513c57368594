"""The operators that torch registers when it is imported, without those that tests add later.

They are read when this module is imported, which ``conftest.py`` does before any test module.
"""

from __future__ import annotations

import torch

__all__ = ["NAMES_OF_TORCH", "SCHEMAS_OF_TORCH"]

SCHEMAS_OF_TORCH = tuple(map(str, torch._C._jit_get_all_schemas()))
"""As torch writes them, the overloads of one operator in its order."""
NAMES_OF_TORCH = frozenset(
    schema.partition("(")[0].removesuffix(".") for schema in SCHEMAS_OF_TORCH
)
"""Names with overloads."""
