"""The page about leaving torch.jit names all that torch.jit has."""

from __future__ import annotations

import inspect

import torch

from tests.docs.test_pages import ROOT


def public_names() -> list[str]:
    """Return functions and classes of torch.jit, without modules and what it imports."""
    return [
        name
        for name, value in inspect.getmembers(torch.jit)
        if not name.startswith("_")
        and str(getattr(value, "__module__", "")).startswith(("torch.jit", "torch._"))
    ]


def test_each_function_of_torch_jit_is_named():
    page = (ROOT / "docs" / "migration.md").read_text(encoding="utf-8")
    names = public_names()
    assert "freeze" in names
    assert [name for name in names if f"torch.jit.{name}" not in page] == []
