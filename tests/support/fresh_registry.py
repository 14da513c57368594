"""The operators that torch registers when it is imported, without those that tests add later.

They are read when this module is imported, which ``conftest.py`` does before any test module.
"""

from __future__ import annotations

import torch

__all__ = ["NAMES_OF_TORCH"]

NAMES_OF_TORCH = frozenset(
    f"{schema.name}.{schema.overload_name}".removesuffix(".")
    for schema in torch._C._jit_get_all_schemas()
)
"""Names with overloads."""
