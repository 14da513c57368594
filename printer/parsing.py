"""Parsing of Python syntax, one text at a time.

Some versions of CPython count how deep a tree is for all threads together, and raise SystemError
when two of them parse at once.
"""

from __future__ import annotations

import ast
import threading

__all__ = ["parse_expression", "parse_module"]

_lock = threading.RLock()


def parse_module(text: str) -> ast.Module:
    with _lock:
        return ast.parse(text)


def parse_expression(text: str) -> ast.Expression:
    with _lock:
        return ast.parse(text, mode="eval")
