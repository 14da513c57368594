"""``tsarchive jitter``: does saving, loading and saving again give the same bytes?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from tsarchive.cli.archive_files import files_below, may_be_torchscript
from tsarchive.cli.command import FINDINGS, UNUSABLE, Command, json_option
from tsarchive.cli.failures import describe, report
from tsarchive.cli.output import console, print_json
from tsarchive.cli.progress import progress
from tsarchive.cli.text import escaped, plural, size, visible
from tsarchive.errors import ArchiveError

if TYPE_CHECKING:
    from tsarchive import GraphReport, JitterReport, ReadComparison, RecordDifference

_SAVES = ("first save:", "second save:")
_PRINTS = ("first print:", "second print:")


@click.command(cls=Command)
@click.argument("files", nargs=-1, type=click.Path(), metavar="FILE...")
@click.option("--all", "folder", metavar="DIR", help="Check every archive below this folder.")
@click.option("--map-location", metavar="DEVICE", help="Load tensors to this device.")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    files: tuple[str, ...],
    *,
    folder: str | None,
    map_location: str | None,
    as_json: bool,
) -> None:
    """Check that saving again gives the same bytes.

    Each FILE is loaded and saved, and that loaded and saved again; its code is also printed from
    its graphs alone. Nothing is written to disk and torch.jit loads nothing. The exit code is 1
    when a byte changes, 2 when a file cannot be loaded.

    Shown beside that is what does not count as jitter: records that the first save writes in
    another form than the file has, and code or debug records that change once, as they do when
    torch saves again what it saved first.

    \b
    Examples:
      tsarchive jitter model.pt
      tsarchive jitter models/*.pt --json
      tsarchive jitter --all models
      tsarchive jitter saved_on_gpu.pt --map-location cpu
    """
    if not files and folder is None:
        raise click.UsageError("Missing argument 'FILE...', or --all with a folder.")
    found = [] if folder is None else list(files_below(folder))
    results, skipped = _check_all([*files, *found], len(files), map_location, as_json=as_json)
    if as_json:
        counts = {} if folder is None else {"skipped": skipped}
        print_json({"files": results, **counts})
    elif folder is not None:
        console().print(_summary(results, skipped))
    if any("error" in result for result in results):
        ctx.exit(UNUSABLE)
    if not all(map(_is_stable, results)):
        ctx.exit(FINDINGS)


def _check_all(
    files: Sequence[str], named: int, map_location: str | None, *, as_json: bool
) -> tuple[list[dict[str, Any]], int]:
    """The results, and how many files were passed over; the first ``named`` never are."""
    results = []
    with progress(len(files)) as step:
        for number, file in enumerate(files):
            step(visible(file))
            if number < named or may_be_torchscript(file):
                results.append(_check(file, map_location, as_json=as_json))
    return results, len(files) - len(results)


def _check(file: str, map_location: str | None, *, as_json: bool) -> dict[str, Any]:
    import tsarchive

    try:
        found = tsarchive.check_jitter(file, map_location=map_location)
    except (ArchiveError, OSError) as error:
        facts = describe(error)
        if not as_json:
            report(facts, as_json=False, file=file)
        return {"file": file, "error": facts}
    if not as_json:
        _show(file, found)
    return {"file": file, **document(found)}


def _is_stable(result: dict[str, Any]) -> bool:
    return bool(result["stable"] and result["graph"]["stable"])


def document(found: JitterReport) -> dict[str, Any]:
    """A report as JSON."""
    return {
        "stable": found.stable,
        "bytes": found.nbytes,
        "records": _documents(found.records),
        "as_read": found.as_read and _as_read_document(found.as_read),
        "graph": _graph_document(found.graph),
    }


def _as_read_document(found: ReadComparison) -> dict[str, Any]:
    return {"same_file": found.same_file, "records": _documents(found.records)}


def _graph_document(found: GraphReport) -> dict[str, Any]:
    return {
        "stable": found.stable,
        "records": _documents(found.records),
        "code": _documents(found.code),
        "debug": _documents(found.debug),
        "unprinted": [{"record": each.record, "reason": each.reason} for each in found.unprinted],
    }


def _documents(differences: Sequence[RecordDifference]) -> list[dict[str, Any]]:
    return [difference_document(difference) for difference in differences]


def difference_document(difference: RecordDifference) -> dict[str, Any]:
    """Where two saves part as JSON; bytes are ASCII text with escapes, null without record."""
    return {
        "record": difference.record,
        "offset": difference.offset,
        "first": _escaped(difference.first),
        "second": _escaped(difference.second),
    }


def _escaped(data: bytes | None) -> str | None:
    return None if data is None else escaped(data)


def _show(file: str, found: JitterReport) -> None:
    out = console()
    if not found.stable:
        out.print(f"{visible(file)}: the second save differs", style="bold red")
    elif not found.graph.stable:
        out.print(f"{visible(file)}: its code prints otherwise each time", style="bold red")
    else:
        out.print(f"{visible(file)}: stable, {size(found.nbytes)}", style="green")
    for line in _details(found):
        out.print(f"  {line}")


def _details(found: JitterReport) -> Iterator[str]:
    if not found.stable:
        yield from _changes(found.records, _SAVES)
    if not found.graph.stable:
        yield from _changes(found.graph.records, _PRINTS)
    yield from _as_read_lines(found.as_read)
    yield from _graph_lines(found.graph)


def _changes(differences: Sequence[RecordDifference], sides: tuple[str, str]) -> Iterator[str]:
    if not differences:
        yield "no record differs: headers, padding or the order of records do"
        return
    yield from difference_lines(differences[0], sides)
    if len(differences) > 1:
        yield f"and {len(differences) - 1:,} more; --json lists them"


def _as_read_lines(found: ReadComparison | None) -> Iterator[str]:
    if found is None:
        return
    if found.same_file:
        yield "saved: the file that was read, byte for byte"
    elif found.records:
        yield f"saved: as read but for {_names(found.records)}"
    else:
        yield "saved: every record as read, in another container"


def _graph_lines(found: GraphReport) -> Iterator[str]:
    if found.code:
        yield f"graphs: print {_names(found.code)} in another form, then always the same"
    if found.debug:
        yield f"graphs: the code as read; {_names(found.debug)} in another form"
    if found.unprinted:
        first = found.unprinted[0]
        more = len(found.unprinted) - 1
        others = f"; and {more:,} more" if more else ""
        yield f"graphs: {visible(first.record)} is not compared: {visible(first.reason)}{others}"
    if not (found.code or found.debug or found.unprinted):
        yield "graphs: the code and debug records as read"


def _names(differences: Sequence[RecordDifference]) -> str:
    first = visible(differences[0].record)
    more = len(differences) - 1
    return f"{first} and {plural(more, 'record')} more" if more else first


def difference_lines(difference: RecordDifference, sides: tuple[str, str] = _SAVES) -> list[str]:
    """Where two saves part, and what each has there."""
    width = max(map(len, sides))
    pairs = zip(sides, (difference.first, difference.second), strict=True)
    return [
        f"record {visible(difference.record)}, offset {difference.offset}",
        *(f"{label:{width}} {_side(side)}" for label, side in pairs),
    ]


def _side(data: bytes | None) -> str:
    if data is None:
        return "no such record"
    return escaped(data) or "the end of the record"


def _summary(results: Sequence[dict[str, Any]], skipped: int) -> str:
    kinds: dict[str, Callable[[dict[str, Any]], bool]] = {
        "unusable": lambda result: "error" in result,
        "stable": lambda result: "error" not in result and _is_stable(result),
        "changed": lambda result: "error" not in result and not _is_stable(result),
    }
    counts = (f"{sum(map(fits, results)):,} {kind}" for kind, fits in kinds.items())
    return f"{plural(len(results), 'archive')}: {', '.join(counts)}; {skipped:,} other files"
