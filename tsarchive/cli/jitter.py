"""``tsarchive jitter``: does saving again give the same bytes?"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, get_args

import click

import tsarchive
from tsarchive.describing.text import escaped, plural, size, visible
from tsarchive.errors import ArchiveError
from tsarchive.formats.registry import format_named

from .command import FINDINGS, UNUSABLE, Command, FilePath, describe, json_option, report
from .many import reason_to_skip
from .options import IMPORTS, chosen_policy, import_option, policy_options
from .output import print_json, progress_of, say

if TYPE_CHECKING:
    from tsarchive import GraphReport, JitterReport, ReadComparison, RecordDifference

_SAVES = ("first save:", "second save:")
_PROCESSES = ("this process:", "a fresh one:")
_PRINTS = ("first print:", "second print:")
_READ = ("saved:", "printed:")


@click.command(cls=Command)
@click.argument("files", nargs=-1, type=FilePath(), metavar="[FILE]...")
@click.option("--all", "folder", metavar="DIR", help="Check every archive below this folder.")
@click.option("--map-location", metavar="DEVICE", help="Load to this device.")
@click.option("--canonical", is_flag=True, help="Save the canonical form in fresh processes, too.")
@import_option
@policy_options
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    files: tuple[str, ...],
    *,
    folder: str | None,
    map_location: str | None,
    canonical: bool,
    allow: tuple[str, ...],
    trust: bool,
    as_json: bool,
) -> int:
    """Check that saving again gives the same bytes.

    Each FILE is loaded and saved twice, and that loaded and saved again; its code is also printed
    from its graphs alone, and JSON of PT2 archives decoded and encoded. torch.jit loads nothing.
    With --canonical, two fresh processes of other hash seeds save the canonical form beside this
    one. Files of ExecuTorch are written without being loaded, and their tables encoded anew.
    With --all, or a folder for FILE, every other file below it is named, with the reason why it is
    not checked.
    The exit code is 1 when a byte changes, 2 when a file cannot be loaded, or there is none.

    Shown beside that is what does not count as jitter: records that the first save writes in
    another form than the file has; and, in files that tsarchive was not the first to save, code
    or debug records that change once, as they do when torch saves again what it saved first.

    \b
    Examples:
      tsarchive jitter model.pt
      tsarchive jitter models/*.pt --json
      tsarchive jitter models
      tsarchive jitter --canonical model.pt
      tsarchive jitter saved_on_gpu.pt --map-location cpu
    """
    folders = [file for file in files if os.path.isdir(file)]
    if folder is not None:
        folders.append(folder)
    elif not files:
        raise click.UsageError("Missing argument 'FILE...', or --all with a folder.")
    named = [file for file in files if file not in folders]
    found = [*chain.from_iterable(map(files_below, folders))]
    policy = chosen_policy(allow, trust=trust)
    options = {
        "map_location": map_location,
        "canonical": canonical,
        "policy": policy,
        "imports": ctx.meta[IMPORTS],
    }
    results, skipped = _check_all([*named, *found], len(named), options, as_json=as_json)
    if as_json:
        documents = [result.document for result in results]
        print_json({"files": documents, **({"skipped": skipped} if folders else {})})
    elif folders:
        for each in skipped:
            say(f"{each['file']}: not checked: {each['reason']}")
        say(_summary(results, skipped))
    if not results:
        below = ", ".join(folders)
        say(f"{below}: no archive is below it: nothing was checked", stderr=True)
    outcomes = {result.outcome for result in results}
    if not results or "unusable" in outcomes:
        return UNUSABLE
    return FINDINGS if "changed" in outcomes else 0


_Outcome: TypeAlias = Literal["unusable", "stable", "changed"]
_OUTCOMES: Final[tuple[_Outcome, ...]] = get_args(_Outcome)


class _Result(NamedTuple):
    """What a file came to, and all of it as :func:`print_json` takes it."""

    outcome: _Outcome
    document: dict[str, Any]


def _check_all(
    files: Sequence[str], named: int, options: Mapping[str, Any], *, as_json: bool
) -> tuple[list[_Result], list[dict[str, str]]]:
    """Return the results, and the files skipped and why; the first ``named`` never are."""
    results: list[_Result] = []
    skipped: list[dict[str, str]] = []
    with progress_of(*files) as step:
        for number, file in enumerate(files):
            step(file)
            reason = None if number < named else reason_to_skip(file)
            if reason is None:
                results.append(_check(file, options, as_json=as_json))
            else:
                skipped.append({"file": file, "reason": reason})
    return results, skipped


def _check(file: str, options: Mapping[str, Any], *, as_json: bool) -> _Result:
    try:
        found = tsarchive.check_jitter(file, **options)
    except (ArchiveError, OSError) as error:
        facts = describe(error)
        if not as_json:
            report(facts, as_json=False, file=file)
        return _Result("unusable", {"file": file, "error": facts})
    if not as_json:
        _show(file, found)
    return _Result("stable" if found.ok else "changed", {"file": file, **_document(found)})


def _document(found: JitterReport) -> dict[str, Any]:
    """Return a report as :func:`print_json` takes it."""
    graph = found.graph
    return {
        "stable": found.stable,
        "nbytes": found.nbytes,
        "records": found.records,
        "twice": found.twice,
        "as_read": found.as_read,
        "graph": {
            "stable": graph.stable,
            "is_own": graph.is_own,
            "records": graph.records,
            "code": graph.code,
            "debug": graph.debug,
            "unprinted": graph.unprinted,
        },
        "canonical": found.canonical,
    }


def _show(file: str, found: JitterReport) -> None:
    faults = list(_faults(found))
    if faults:
        say(f"{file}: {faults[0].message}", "bold red")
    else:
        say(f"{file}: stable, {size(found.nbytes)}", "green")
    for line in (*chain.from_iterable(map(_changes, faults)), *_remarks(found)):
        say(f"  {line}")


class _Fault(NamedTuple):
    """Two sides that should be equal: where they differ, and what the sides are called."""

    message: str
    differences: Sequence[RecordDifference]
    sides: tuple[str, str]


def _faults(found: JitterReport) -> Iterator[_Fault]:
    """Yield what differs, the gravest first."""
    graph, canonical = found.graph, found.canonical
    if not found.twice.same:
        yield _Fault("saving it twice gives different bytes", found.twice.records, _SAVES)
    elif not found.stable:
        yield _Fault("the second save differs", found.records, _SAVES)
    if graph.records:
        _, forms = format_named(found.kind).encoded or ("", "code prints")
        yield _Fault(f"its {forms} otherwise each time", graph.records, _PRINTS)
    elif not graph.stable:
        forms = "code" if graph.code else "debug records"
        yield _Fault(f"its graphs print other {forms}", graph.code or graph.debug, _READ)
    if canonical is not None and not canonical.same:
        message = "its canonical form is another in a fresh process"
        yield _Fault(message, canonical.records, _PROCESSES)


def _remarks(found: JitterReport) -> Iterator[str]:
    """Yield what is known of a file beside what differs."""
    yield from _as_read_lines(found.as_read)
    encoded = format_named(found.kind).encoded
    if encoded is not None:
        yield from _encoding_lines(found.graph, *encoded)
    else:
        yield from _graph_lines(found.graph)
    if found.canonical is not None and found.canonical.same:
        yield "canonical: the same bytes in fresh processes"


def _changes(fault: _Fault) -> Iterator[str]:
    if fault.differences:
        yield from difference_lines(fault.differences[0], fault.sides)
    else:
        yield "no record differs: headers, padding or the order of records do"
    if len(fault.differences) > 1:
        yield f"and {len(fault.differences) - 1:,} more; --json lists them"
    if fault.sides is _READ:
        yield "a file that tsarchive was the first to save must print as it is"


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
    if found.code and found.stable:
        yield f"graphs: print {_names(found.code)} in another form, then always the same"
    if found.debug and found.stable:
        yield f"graphs: the code as read; {_names(found.debug)} in another form"
    if found.unprinted:
        first = found.unprinted[0]
        more = len(found.unprinted) - 1
        others = f"; and {more:,} more" if more else ""
        yield f"graphs: {first.record} is not compared: {first.reason}{others}"
    if not (found.code or found.debug or found.unprinted):
        yield "graphs: the code and debug records as read"


def _encoding_lines(found: GraphReport, label: str, forms: str) -> Iterator[str]:
    """Of files whose programs are not printed from graphs."""
    for each in found.unprinted:
        yield f"{label}: {each.record} is not compared: {each.reason}"
    if found.code:
        yield f"{label}: encode {_names(found.code)} in another form, then always the same"
    elif not found.unprinted:
        yield f"{label}: the {forms.partition(' ')[0]} as read"


def _names(differences: Sequence[RecordDifference]) -> str:
    first = differences[0].record
    more = len(differences) - 1
    return f"{first} and {plural(more, 'other record')}" if more else first


def difference_lines(difference: RecordDifference, sides: tuple[str, str] = _SAVES) -> list[str]:
    """Return where two saves differ first, and what each has there."""
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


def _summary(results: Sequence[_Result], skipped: Sequence[dict[str, str]]) -> str:
    counts = Counter(result.outcome for result in results)
    listed = ", ".join(f"{counts[name]:,} {name}" for name in _OUTCOMES)
    return f"{plural(len(results), 'archive')}: {listed}; {len(skipped):,} not checked"


def files_below(folder: str) -> Iterator[str]:
    """Yield the files below a folder, in the order of names; links are not followed.

    Raises OSError when the folder cannot be read.
    """
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.is_dir(follow_symlinks=False):
            yield from files_below(entry.path)
        else:
            yield entry.path
