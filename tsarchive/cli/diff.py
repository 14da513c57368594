"""``tsarchive diff``: what changed?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

import click

import tsarchive
from tsarchive.describing.text import plural

from .command import FINDINGS, UNUSABLE, json_option
from .git_settings import as_text, git_options, install
from .lines import cells
from .options import remote_limit_options
from .output import Column, Table, print_json, progress_of, say, show, styled, table, width
from .running_both import PairCommand, run_arguments, run_options, told

if TYPE_CHECKING:
    from tsarchive.diffing import (
        Change,
        DiffReport,
        Divergence,
        MethodChange,
        OperatorUse,
        SideBySide,
        ValueDifference,
    )
    from tsarchive.diffing.report import Part

# What --only calls each part.
_PARTS: Final[dict[str, Part]] = {
    "code": "code", "structure": "structure", "weights": "weights", "extra": "extra files",
}  # fmt: skip
# From so many columns on, code stands in two of them.
_WIDE: Final = 120
_LONGEST: Final = 100
# Of two long values so much is shown, and so much of what they begin with alike.
_LONGEST_OF_TWO: Final = 60
_ALIKE: Final = 15
# So many changes that are alike are told as one, with the first modules of them.
_MANY_ALIKE: Final = 4
_NAMED: Final = 4
# What is told of a function stands in it.
_IN_CODE: Final = frozenset({"code", "constant", "operator"})
_OLD: Final = "red"
_NEW: Final = "green"


def _parts(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> tuple[Part, ...] | None:
    """Return the parts that are named, with commas between."""
    if value is None:
        return None
    names = [name.strip() for name in value.split(",")]
    known = _PARTS | {part: part for part in _PARTS.values()}
    if unknown := [name for name in names if name not in known]:
        raise click.BadParameter(f"{unknown[0]!r} is none of {', '.join(_PARTS)}.", ctx, param)
    return tuple(known[name] for name in names)


@click.command(cls=PairCommand)
@click.argument("arguments", nargs=-1, metavar="A B")
@click.option(
    "--only", callback=_parts, metavar="PARTS", help=f"Compare these alone: {','.join(_PARTS)}."
)
@click.option("--exact", is_flag=True, help="Read tensors of files elsewhere, too.")
@click.option("--stat", is_flag=True, help="Count changes by module and kind, and show no more.")
@run_options
@git_options
@remote_limit_options
@json_option
def command(
    a: str,
    b: str,
    arguments: list[str],
    *,
    only: tuple[Part, ...] | None,
    exact: bool,
    stat: bool,
    install_git: bool,
    is_global: bool,
    textconv: str | None,
    as_json: bool,
    **given: Any,
) -> int:
    """Show how two models differ, from A to B.

    Names modules that were added, removed, renamed or moved, attributes and constants with both
    values, operators, code side by side with the lines of user source, tensors and how far their
    values are apart, and extra files. What the files differ in beside that, such as names of
    variables, packing and debug records, is no change. The exit code is 1 when anything changed,
    2 when a file cannot be read, or the files have nothing in common that can be compared.

    Programs of two formats are not compared, but their weights and extra files: a line says so,
    "same" is null in JSON, and the exit code is 0 where these do not differ. Run both to compare
    what they give.

    Of files elsewhere tensors are compared by the CRC-32s and sizes that the directories tell, and
    read where these do not decide: what is the same so is the same probably, which a line says, and
    "same" is null in JSON. --exact reads them all, and says how far their values are apart.

    With --run, --random or --arg, which are as those of 'tsarchive run', both models are called
    with the same inputs, and the first module whose output differs is named. Without these nothing
    of the files runs, and torch is not imported.

    --install-git lets 'git diff' and 'git difftool -t tsarchive' show what changed in models.

    \b
    Examples:
      tsarchive diff before.pt after.pt
      tsarchive diff before.pt after.pt --stat
      tsarchive diff before.pt after.pt --only code,structure
      tsarchive diff before.pt after.pt --json
      tsarchive diff before.pt after.pt --run image.npy
      tsarchive diff before.pt after.pt --random 1x3x224x224 --rtol 1e-3
      tsarchive diff --install-git
    """
    if is_global and not install_git:
        raise click.UsageError("--global belongs to --install-git.")
    if textconv is not None:
        show(as_text(textconv))
        return 0
    if install_git:
        install(is_global=is_global, as_json=as_json)
        return 0
    options: dict[str, Any] = {} if only is None else {"only": only}
    with progress_of(a, b) as step:
        options |= run_arguments(arguments, given)
        found = tsarchive.diff(a, b, step=step, exact=exact, **options)
    if as_json:
        print_json({"same": found.same, **_fields(found)})
    elif stat:
        _show_counts(found)
    else:
        _show(found)
    if found.not_compared and not as_json:
        parts = " and ".join(found.not_compared)
        hint = "" if arguments else "; --random or --run runs both"
        say(f"NOT COMPARED: {parts} (two formats){hint}", "bold red")
    if found.by_checksum and not as_json:
        say("tensors compared by CRC-32 (probable); --exact reads them", "bold")
    if arguments and not as_json:
        for line in told(found.divergence):
            say(line)
    if not found.compared and not arguments:
        return UNUSABLE
    return 0 if found.ok else FINDINGS


def _fields(found: DiffReport) -> dict[str, Any]:
    """Return the fields of a report, where distances that are not finite are None."""
    named = _named(found)
    named["changes"] = [_with_finite(change) for change in found.changes]
    named["divergence"] = found.divergence and _with_finite(found.divergence)
    return named


def _named(found: DiffReport | Change | Divergence | ValueDifference) -> dict[str, Any]:
    from dataclasses import fields

    return {field.name: getattr(found, field.name) for field in fields(found)}


def _with_finite(found: Change | Divergence) -> dict[str, Any]:
    values = None
    if found.values is not None:
        distances = _named(found.values).items()
        values = {name: own if isfinite(own or 0) else None for name, own in distances}
    return {**_named(found), "values": values}


def _show(found: DiffReport) -> None:
    routines = {method.where for method in found.methods}
    several, others = _folded(found.changes)
    for alike in several:
        _show_alike(alike)
    for module, changes in _by_module(others).items():
        say(module or "model", "bold")
        for change in changes:
            _show_change(change, module, routines)
    for method in found.methods:
        _show_code(method)
    _show_operators("operators gained", found.operators_gained)
    _show_operators("operators lost", found.operators_lost)
    for change in found.packing:
        say(f"packing: {_line(change, '')}", "dim")
    _show_total(found)


def _folded(changes: Sequence[Change]) -> tuple[list[list[Change]], list[Change]]:
    """Return the changes that are one in many modules, and the others."""
    groups: dict[Any, list[Change]] = {}
    for change in changes:
        name = change.where.rpartition(".")[2]
        alone = change.where if change.values is not None else ""
        key = change.kind, name, repr(change.before), repr(change.after), alone
        groups.setdefault(key, []).append(change)
    several = [alike for alike in groups.values() if len(alike) >= _MANY_ALIKE]
    told = {id(change) for alike in several for change in alike}
    return several, [change for change in changes if id(change) not in told]


def _show_alike(changes: Sequence[Change]) -> None:
    """Show changes that are alike as one."""
    modules = dict.fromkeys(_module(change) or "model" for change in changes)
    say(f"in {len(modules):,} modules", "bold")
    say(f"  {_line(changes[0], _module(changes[0]))}")
    names = [*modules]
    more = f", and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    say(f"    in:   {', '.join(names[:_NAMED])}{more}", "dim")


def _by_module(changes: Sequence[Change]) -> dict[str, list[Change]]:
    """Return the changes of each module, in the order in which these are met."""
    found: dict[str, list[Change]] = {}
    for change in changes:
        found.setdefault(_module(change), []).append(change)
    return found


def _show_total(found: DiffReport) -> None:
    if not found.compared:
        say(f"{found.before} and {found.after} have nothing that can be compared", "bold red")
    elif found.changes:
        say(f"{plural(len(found.changes), 'change')} from {found.before} to {found.after}", "bold")
    elif found.same is not False:
        told = ", ".join(found.compared)
        style = "bold green" if found.same else "bold"
        say(f"{found.before} and {found.after} do not differ: {told}", style)
    else:
        say(f"no change from {found.before} to {found.after}, but another result", "bold")


def _module(change: Change) -> str:
    """Return the path of the module that has what changed."""
    if change.kind in ("module", "class", "extra file"):
        of_kind = {"module": change.where.rpartition(".")[0], "class": change.where}
        return of_kind.get(change.kind, "")
    return change.where.partition("(")[0].rpartition(".")[0]


def _show_change(change: Change, module: str, routines: Collection[str]) -> None:
    say(f"  {_line(change, module, routines)}")
    if change.also:
        more = len(change.also) - _NAMED
        others = ", ".join(change.also[:_NAMED]) + (f", and {more:,} more" if more > 0 else "")
        say(f"    and in: {others}", "dim")
    for name, line in zip(("from", "to"), change.source, strict=True):
        if line is not None and (name == "from" or line != change.source[0]):
            say(f"    {name + ':':5} {line}", "dim")


def _line(change: Change, module: str, routines: Collection[str] = ()) -> str:
    where = change.where.removeprefix(f"{module}.") if module else change.where
    where = "" if where == module else where
    is_inside = change.kind in _IN_CODE and change.where in routines
    named = f"{change.kind} {'in ' * is_inside}{where}".rstrip()
    if change.values is not None:
        return f"{named}: {change.values!s}"
    if change.before is None:
        return f"{named}: added{_added(change.where, change.after)}"
    if change.after is None:
        return f"{named}: removed{_added(change.where, change.before)}"
    before, after = _both(change.before, change.after)
    arrow = " became " if "->" in before + after else " -> "
    return f"{named}: {before}{arrow}{after}"


def _added(where: str, value: Any) -> str:
    return "" if value == where else f", {_short(value)}"


def _short(value: Any) -> str:
    """Return a value on one line, cut where it is long."""
    text = _in_line(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _in_line(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return " / ".join(line.strip() for line in text.split("\n"))


def _both(before: Any, after: Any) -> tuple[str, str]:
    """Return two values, each on one line: of long ones the part where they differ."""
    texts = _in_line(before), _in_line(after)
    start = max(0, _alike(*texts) - _ALIKE)
    if max(map(len, texts)) <= _LONGEST_OF_TWO:
        start = 0
    one, other = (_part(text, start) for text in texts)
    return one, other


def _alike(before: str, after: str) -> int:
    """Return how many letters two texts begin with alike."""
    letters = enumerate(zip(before, after, strict=False))
    ends = (place for place, (one, other) in letters if one != other)
    return next(ends, min(len(before), len(after)))


def _part(text: str, start: int) -> str:
    """Return what a text has from a place on, as far as there is room."""
    end = start + _LONGEST_OF_TWO
    return f"{'...' if start else ''}{text[start:end]}{'...' if text[end:] else ''}"


def _show_code(method: MethodChange) -> None:
    if not method.rows:
        return
    say(f"code of {method.where}", "bold")
    columns = width()
    if columns is not None and columns >= _WIDE:
        show(_two_columns(method, (columns - 5) // 2))
    else:
        show(_one_column(method))


def _two_columns(method: MethodChange, room: int) -> Iterator[str]:
    for row in method.rows:
        mark = " " if row.is_same else "|"
        left, right = (_cut(text, room) for text in _from_difference(row, room))
        padding = " " * (room - cells(left))
        styles = ("", "") if row.is_same else (_OLD, _NEW)
        yield f" {styled(left, styles[0])}{padding} {mark} {styled(right, styles[1])}".rstrip()


def _from_difference(row: SideBySide, room: int) -> tuple[str, str]:
    """Return the texts of a row, without what long ones begin with alike."""
    texts = row.before or "", row.after or ""
    alike = _alike(*texts)
    if row.is_same or max(map(len, texts)) <= room or alike < room // 2:
        return texts
    start = alike - room // 4
    return f"~{texts[0][start:]}", f"~{texts[1][start:]}"


def _cut(text: str, room: int) -> str:
    from tsarchive.describing.text import visible

    text = visible(text)
    while cells(text) > room:
        text = text[: room - 1] + "~" if len(text) > room else text[:-1]
    return text


def _one_column(method: MethodChange) -> Iterator[str]:
    """Yield lines as of a unified diff: those of before, then those of after."""
    for is_same, rows in groupby(method.rows, key=lambda row: row.is_same):
        several = [*rows]
        if is_same:
            yield from (f"  {_cut(row.after or row.before or '', _LONGEST)}" for row in several)
            continue
        texts = [_from_difference(row, _LONGEST) for row in several]
        for row, (before, _) in zip(several, texts, strict=True):
            if row.before is not None:
                yield styled(f"- {_cut(before, _LONGEST)}", _OLD)
        for row, (_, after) in zip(several, texts, strict=True):
            if row.after is not None:
                yield styled(f"+ {_cut(after, _LONGEST)}", _NEW)


def _show_operators(title: str, uses: Sequence[OperatorUse]) -> None:
    if not uses:
        return
    say(title, "bold")
    found = Table([Column(is_whole=True), Column(), Column(), Column()])
    for use in uses:
        verdict = "" if use.is_allowed else "refused by default"
        told = ": ".join(filter(None, (use.risk, verdict)))
        found.add_row(f"  {use.operator}", told, use.where, str(use.source or ""))
    show(found.lines())


def _show_counts(found: DiffReport) -> None:
    listed = table("module", "kind", "changes", right=("changes",), whole=("module",))
    for module, changes in _by_module(found.changes).items():
        for kind, count in Counter(change.kind for change in changes).items():
            listed.add_row(module or ".", kind, f"{count:,}")
    if found.changes:
        show(listed.lines())
    _show_total(found)
