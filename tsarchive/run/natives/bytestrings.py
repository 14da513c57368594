"""Strings as TorchScript sees them: bytes.

At run time a string is a Python str that holds the bytes as UTF-8; bytes that are not UTF-8 are
lone surrogates (the "surrogateescape" scheme). Every byte string has exactly one such str, which
``decode`` gives; a result joined from parts must go through ``normalized``, because two escaped
bytes side by side may be one character.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tsarchive.run.natives.faults import wrong_kind
from tsarchive.run.natives.table import Native


def encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def normalized(text: str) -> str:
    """The one str for the bytes of ``text``."""
    return text if text.isascii() else decode(encode(text))


def _to_bytes(value: Any) -> Any:
    return encode(value) if isinstance(value, str) else value


def _to_text(value: Any) -> Any:
    if isinstance(value, bytes):
        return decode(value)
    if isinstance(value, list):
        return [_to_text(item) for item in value]
    if isinstance(value, tuple):
        return tuple(_to_text(item) for item in value)
    return value


def on_bytes(function: Callable[..., Any]) -> Native:
    """``function``, which takes and returns bytes, as a native that takes and returns str."""

    def call(text: str, *arguments: Any) -> Any:
        if not isinstance(text, str):
            raise wrong_kind(text, str)
        return _to_text(function(encode(text), *map(_to_bytes, arguments)))

    return call
