"""A layered drawing of a graph without cycles: each box stands below all that lead to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from .html import Html, joined, tag

_LETTER: Final = 6.7
_PADDING: Final = 12
_HEIGHT: Final = 26
_GAP: Final = 18
_BETWEEN: Final = 30
_HALF: Final = _BETWEEN // 2
_LANE: Final = 9
# Sweeps that order the boxes of a layer by where those before them stand.
_SWEEPS: Final = 4
_WIDEST: Final = 6


@dataclass(frozen=True, slots=True)
class Box:
    """A box: its text, what a title tells of it, the address that it links to, and its class.

    ``sources`` are the numbers of the boxes before it that lead to it.
    """

    label: str
    told: str
    href: str | None
    anchor: str | None
    style: str
    sources: tuple[int, ...]


@dataclass(slots=True)
class _Place:
    x: float
    y: float
    width: float

    @property
    def middle(self) -> float:
        return self.x + self.width / 2


def layered(boxes: Sequence[Box], label: str) -> Html:
    """Draw boxes from the top down, with an arrow from each source; ``label`` names the picture.

    Raises ValueError where a box is led to by one that does not stand before it.
    """
    if any(source >= number for number, box in enumerate(boxes) for source in box.sources):
        raise ValueError("a box is led to by one behind it")
    layers = _layers(boxes)
    places = _places(boxes, _ordered(layers, boxes))
    edges = [(source, number) for number, box in enumerate(boxes) for source in box.sources]
    rows = {number: index for index, layer in enumerate(layers) for number in layer}
    left = min((place.x for place in places.values()), default=0) - 4
    right = max((place.x + place.width for place in places.values()), default=0)
    lanes = _lanes([edge for edge in edges if rows[edge[1]] - rows[edge[0]] > 1], rows)
    width = round(right - left + 4 + _LANE * (max(lanes.values(), default=-1) + 2))
    height = _HEIGHT + (len(layers) - 1) * (_HEIGHT + _BETWEEN) + 8
    arrows = (_arrow(places[a], places[b], right, lanes.get((a, b))) for a, b in edges)
    drawn = (_box(box, places[number]) for number, box in enumerate(boxes))
    return tag("svg", *arrows, *drawn, width=width, height=height,
               viewBox=f"{round(left, 1)} -4 {width} {height}", class_="flow", role="group",
               aria_label=label)  # fmt: skip


def _layers(boxes: Sequence[Box]) -> list[list[int]]:
    """Put each box one layer below the lowest that leads to it; a wide layer goes on below."""
    layers: list[list[int]] = []
    levels: list[int] = []
    for number, box in enumerate(boxes):
        level = max((levels[source] + 1 for source in box.sources), default=0)
        while level < len(layers) and len(layers[level]) >= _WIDEST:
            level += 1
        while level >= len(layers):
            layers.append([])
        layers[level].append(number)
        levels.append(level)
    return layers


def _ordered(layers: list[list[int]], boxes: Sequence[Box]) -> list[list[int]]:
    """Order each layer by the mean place of its neighbours, so that few arrows cross."""
    users: dict[int, list[int]] = {}
    for number, box in enumerate(boxes):
        for source in box.sources:
            users.setdefault(source, []).append(number)
    sources = {number: list(box.sources) for number, box in enumerate(boxes)}
    place = {
        number: index - len(layer) / 2 for layer in layers for index, number in enumerate(layer)
    }
    for sweep in range(_SWEEPS):
        near = users if sweep % 2 else sources
        for layer in reversed(layers) if sweep % 2 else layers:
            layer.sort(key=lambda number: _mean(near.get(number, ()), place, number))
            place |= {number: index - len(layer) / 2 for index, number in enumerate(layer)}
    return layers


def _mean(near: Sequence[int], place: Mapping[int, float], number: int) -> float:
    return sum(place[other] for other in near) / len(near) if near else place[number]


def _places(boxes: Sequence[Box], layers: list[list[int]]) -> dict[int, _Place]:
    """Place the boxes of a layer beside each other, around one middle line."""
    places: dict[int, _Place] = {}
    for level, layer in enumerate(layers):
        widths = [_LETTER * len(boxes[number].label) + _PADDING for number in layer]
        x = -(sum(widths) + _GAP * (len(layer) - 1)) / 2
        for number, width in zip(layer, widths, strict=True):
            places[number] = _Place(x, level * (_HEIGHT + _BETWEEN), width)
            x += width + _GAP
    return places


def _lanes(edges: Sequence[tuple[int, int]], rows: Mapping[int, int]) -> dict[tuple[int, int], int]:
    """Give each arrow that passes layers the first lane beside the boxes that is free there."""
    taken: list[int] = []
    lanes = {}
    for source, number in sorted(edges, key=lambda edge: (rows[edge[0]], rows[edge[1]])):
        free = (index for index, last in enumerate(taken) if last <= rows[source])
        lane = next(free, len(taken))
        taken[lane : lane + 1] = [rows[number]]
        lanes[source, number] = lane
    return lanes


def _arrow(one: _Place, other: _Place, right: float, lane: int | None) -> Html:
    x1, y1, x2, y2 = (round(each) for each in (one.middle, one.y + _HEIGHT, other.middle, other.y))
    start, end = f"M{x1} {y1}C{x1} {y1 + _HALF}", f"{x2} {y2 - _HALF} {x2} {y2}"
    if lane is None:
        path = f"{start} {end}"
    else:
        side = round(right + _LANE * (lane + 1))
        down = f"{side} {y1} {side} {y1 + _BETWEEN}V{y2 - _BETWEEN}C{side} {y2}"
        path = f"{start} {down} {end}"
    head = f"M{x2 - 3} {y2 - 6}L{x2} {y2}L{x2 + 3} {y2 - 6}"
    return tag("path", d=f"{path}{head}", class_="edge")


def _box(box: Box, place: _Place) -> Html:
    text = tag("text", box.label, x=round(place.middle, 1), y=round(place.y + 17, 1))
    frame = tag("rect", x=round(place.x, 1), y=round(place.y, 1), width=round(place.width, 1),
                height=_HEIGHT, rx=4)  # fmt: skip
    inside = joined((tag("title", box.told), frame, text))
    if box.href is None:
        return tag("g", inside, class_=f"step {box.style}", id=box.anchor)
    return tag("a", inside, class_=f"step {box.style}", href=box.href, id=box.anchor)
