"""Natives that leave the rare case to torch's own operator."""

from __future__ import annotations

from typing import Any

import torch

from tsarchive.run.natives.table import Native


def overload(key: str) -> Native:
    """The operator ``key`` ("aten::log.float") as torch runs it, looked up when called."""
    namespace, _, name = key.partition("::")
    packet_name, _, overload_name = name.partition(".")

    def call(*arguments: Any, **keywords: Any) -> Any:
        packet = getattr(getattr(torch.ops, namespace), packet_name)
        return getattr(packet, overload_name or "default")(*arguments, **keywords)

    return call


def guarded(function: Native, key: str) -> Native:
    """``function``, but ``key`` as torch runs it where Python raises and C has an answer.

    Python's arithmetic and its math module call the same C library, and raise on a division by
    zero, a domain error or an overflow; C gives an infinity or a nan with a sign of its own. torch
    refuses complex numbers, too, with an error of its own.
    """
    answer = overload(key)

    def call(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except (ValueError, OverflowError, ZeroDivisionError, TypeError):
            return answer(*arguments)

    return call
