"""The tensors that differ between two files: how far, and how their elements changed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

from tsarchive.describing.text import plural, shape
from tsarchive.diffing.report import Change, ValueDifference
from tsarchive.errors import ArchiveError

from .comparison import Comparison, Side
from .histograms import Elements, change_histogram
from .html import Cell, Html, Section, joined, more, share_bar, table, tag

_TENSOR: Final = "tensor"
_HEADINGS: Final = (
    "name", "tensor", "elements changed", "max absolute", "max relative", "ulps", "norm of change",
)  # fmt: skip
_OPEN: Final = "Open a tensor by its name to see how its elements changed."


def tensors(compared: Comparison) -> Section | None:
    """Make the tensors that differ, with how far; None where none does."""
    found = [change for change in compared.report.changes if change.kind.startswith(_TENSOR)]
    if not found:
        return None
    shown = found[: compared.rows]
    drawn = dict(_histograms(compared, shown))
    keys = [str(index) if str(index) in drawn else None for index in range(len(shown))]
    rows = [_tensor_row(compared, change) for change in shown]
    total = len({name for side in compared.sides for name in side.tensors})
    told = f"{len({change.where for change in found}):,} of {plural(total, 'tensor')} differ."
    body = joined(
        (
            tag("p", f"{told} {_OPEN}" if drawn else told, class_="dim"),
            _spread(shown),
            table("tensors", _HEADINGS, rows, keys=keys),
            more(len(shown), len(found), "change"),
        )
    )
    return Section("tensors", "Tensors", body, len(shown), len(found), drawn or None)


def _tensor_row(compared: Comparison, change: Change) -> list[Cell]:
    described = [
        _description(compared.before, compared.name_before(change.where)),
        _description(compared.after, change.where),
    ]
    names = Cell(change.where, is_code=True), Cell(" → ".join(dict.fromkeys(described)))
    found = change.values
    if found is None:
        return [*names, Cell(change.kind, value=""), *[Cell("", value="")] * 4]
    bar = joined((tag("span", f"{100 * found.share:.3g} %", class_="number"),
                  share_bar(found.differing, found.elements)), " ")  # fmt: skip
    return [
        *names,
        Cell(bar, value=found.differing),
        _figure(found.max_absolute, found.special),
        _figure(found.max_relative),
        Cell("" if found.max_ulps is None else f"{found.max_ulps:,}", value=found.max_ulps or 0),
        _share_of_norm(found),
    ]


def _description(side: Side, name: str) -> str:
    info = side.tensors.get(name)
    return "none" if info is None else f"{info.dtype} {shape(info.shape)}"


def _share_of_norm(found: ValueDifference) -> Cell:
    share = found.norm / found.norm_before if found.norm_before else math.inf
    told = f"{100 * share:.3g} %" if math.isfinite(share) else "∞"
    return Cell(tag("span", told, class_="number"), value=repr(share))


def _figure(number: float, words: str = "") -> Cell:
    return Cell(tag("span", words or f"{number:.3g}", class_="number"), value=repr(number))


def _spread(shown: Sequence[Change]) -> Html | None:
    """Draw how many tensors changed by how much, if there are several."""
    found = [change.values for change in shown if change.values is not None]
    if len(found) < _SEVERAL:
        return None
    pictures = (
        _bars("share of elements changed", [_share_bin(one.share) for one in found], _SHARES),
        _bars("largest absolute difference", [_decade(one.max_absolute) for one in found]),
        _bars("largest difference in ulps", [_decade(one.max_ulps) for one in found
                                             if one.max_ulps is not None]),
    )  # fmt: skip
    return tag("div", *pictures, class_="spreads")


_SEVERAL: Final = 3
_SHARES: Final = ("≤ 1 %", "≤ 10 %", "≤ 50 %", "< 100 %", "all")
_BOUNDS: Final = (0.01, 0.1, 0.5)


def _share_bin(share: float) -> str:
    if share == 1:
        return _SHARES[-1]
    return next((told for bound, told in zip(_BOUNDS, _SHARES, strict=False) if share <= bound),
                _SHARES[-2])  # fmt: skip


def _decade(number: float) -> int | None:
    """Return the power of ten that a number is of; None for 0 and infinity."""
    if not number or number == math.inf:
        return None
    return int(f"{number:e}".partition("e")[2])


def _bars(title: str, bins: Sequence[Any], order: Sequence[str] = ()) -> Html | None:
    """Draw how often each bin is there, as a list with bars."""
    counts = Counter(bins)
    if not counts:
        return None
    decades = [power for power in counts if isinstance(power, int)]
    rows: list[tuple[str, int]] = [(told, counts[told]) for told in order]
    if decades:
        rows = [(f"10{_superscript(power)}", counts[power])
                for power in range(min(decades), max(decades) + 1)]  # fmt: skip
    if counts[None]:
        rows.append(("other", counts[None]))
    most = max(counts.values())
    drawn = (tag("tr", tag("th", told, scope="row"), tag("td", share_bar(count, most)),
                 tag("td", f"{count:,}", class_="number")) for told, count in rows)  # fmt: skip
    caption = tag("figcaption", f"{title}, tensors")
    return tag("figure", caption, tag("table", tag("tbody", *drawn), class_="bars"))


def _superscript(power: int) -> str:
    return str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _histograms(
    compared: Comparison, shown: Sequence[Change]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the script's histogram data by row number."""
    before, after = (Elements(side.archive) for side in compared.sides)
    for index, change in enumerate(shown):
        if change.values is None or not fnmatchcase(change.where, compared.histograms):
            continue
        try:
            found = change_histogram(
                before.of(compared.name_before(change.where)), after.of(change.where)
            )
            yield str(index), found.document()
        except ArchiveError as error:
            yield str(index), {"problem": error.message}
        except KeyError:
            continue  # a constant of code, which is no named tensor
