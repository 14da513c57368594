"""Modules loaded from files elsewhere whose ranges are counted."""

from __future__ import annotations

from typing import Any

import torch

from tests.support.elsewhere import CountedRanges
from tsarchive.container.ranges import RangedSource
from tsarchive.errors import RemoteError
from tsarchive.formats.base import LoadOptions
from tsarchive.formats.registry import opened_source
from tsarchive.loading import load_opened
from tsarchive.policy import Guard
from tsarchive.remote.ranges import Tail

__all__ = ["FewRanges", "Layers", "loaded_from"]


class FewRanges(CountedRanges):
    """Bytes of which the first request gives few, and none are given while ``is_down``."""

    is_down = False

    def tail(self, count: int) -> Tail:
        return super().tail(min(count, 64))

    def read_into(self, wanted: Any) -> None:
        if self.is_down:
            raise RemoteError("the server does not answer", hint="Try again")
        super().read_into(wanted)

    def has_asked(self, inside: bytes) -> bool:
        """Whether the middle of these bytes was asked for: their ends may be near to others."""
        place = self.data.index(inside) + len(inside) // 2
        return any(start <= place < stop for start, stop in self.asked)


def loaded_from(ranges: CountedRanges, device: str | None = None, **options: Any) -> Any:
    """The module that ``load`` gives for a file elsewhere."""
    place = None if device is None else torch.device(device)
    opened = opened_source(RangedSource(ranges))
    return load_opened(opened, LoadOptions(place, Guard(), **options))


class Layers(torch.nn.Module):
    """Layers so large that each takes a request of its own; ``never`` does not run."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(256, 256)
        self.never = torch.nn.Linear(256, 256)
        self.last = torch.nn.BatchNorm1d(256)
        self.register_buffer("scale", torch.rand(256, 256))

    def forward(self, x: torch.Tensor, all_of_it: bool = False) -> torch.Tensor:
        x = self.first(x)
        if all_of_it:
            x = self.never(x)
        return self.last(x) * self.scale[0]
