"""The arguments of one call, as they are collected from a command line."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import click


@dataclass(slots=True)
class Inputs:
    """Arguments of one call, and the calls they came from."""

    args: list[Any] = field(default_factory=list)
    kwargs: dict[str, Any] = field(default_factory=dict)

    def add(self, value: Any, name: str | None = None) -> None:
        if name is None:
            self.args.append(value)
        elif name in self.kwargs:
            raise click.UsageError(f"The argument {name!r} is given twice.")
        else:
            self.kwargs[name] = value
