"""``tsarchive jitter``: does saving, loading and saving again give the same bytes?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tsarchive.cli.command import FINDINGS, UNUSABLE, Command, json_option
from tsarchive.cli.failures import describe, report
from tsarchive.cli.output import console, print_json
from tsarchive.cli.text import escaped, size, visible
from tsarchive.errors import ArchiveError

if TYPE_CHECKING:
    from tsarchive import JitterReport, RecordDifference


@click.command(cls=Command)
@click.argument("files", nargs=-1, required=True, type=click.Path(), metavar="FILE...")
@click.option("--map-location", metavar="DEVICE", help="Load tensors to this device.")
@json_option
@click.pass_context
def command(
    ctx: click.Context, files: tuple[str, ...], *, map_location: str | None, as_json: bool
) -> None:
    """Check that saving again gives the same bytes.

    Each FILE is loaded and saved, and that loaded and saved again. Nothing is written to disk
    and torch.jit loads nothing. The exit code is 1 when a byte changes, 2 when a file cannot be
    loaded.

    \b
    Examples:
      tsarchive jitter model.pt
      tsarchive jitter models/*.pt --json
      tsarchive jitter saved_on_gpu.pt --map-location cpu
    """
    results = [_check(file, map_location, as_json=as_json) for file in files]
    if as_json:
        print_json({"files": results})
    if any("error" in result for result in results):
        ctx.exit(UNUSABLE)
    if not all(result["stable"] for result in results):
        ctx.exit(FINDINGS)


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
    return {"file": file, **document(found.stable, found.nbytes, found.records)}


def document(stable: bool, nbytes: int, records: tuple[RecordDifference, ...]) -> dict[str, Any]:
    """A comparison of two saves as JSON."""
    return {
        "stable": stable,
        "bytes": nbytes,
        "records": [difference_document(difference) for difference in records],
    }


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
    if found.stable:
        out.print(f"{visible(file)}: stable, {size(found.nbytes)}", style="green")
        return
    out.print(f"{visible(file)}: the second save differs", style="bold red")
    if not found.records:
        out.print("  no record differs: headers, padding or the order of records do")
        return
    for line in difference_lines(found.records[0]):
        out.print(f"  {line}")
    if len(found.records) > 1:
        out.print(f"  and {len(found.records) - 1:,} more; --json lists them")


def difference_lines(difference: RecordDifference) -> list[str]:
    """Where two saves part, and what each has there."""
    sides = (("first save: ", difference.first), ("second save:", difference.second))
    return [
        f"record {visible(difference.record)}, offset {difference.offset}",
        *(f"{label} {_side(side)}" for label, side in sides),
    ]


def _side(data: bytes | None) -> str:
    if data is None:
        return "no such record"
    return escaped(data) or "the end of the record"
