"""``tsarchive tensors``: the tensors that an archive holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

import tsarchive
from tsarchive.describing.contents import tensor_document, totals_of, totals_text
from tsarchive.describing.text import plural, shape

from .command import (
    FINDINGS,
    Command,
    OutputPath,
    chosen_model,
    json_option,
    model_option,
)
from .many import Found, files_argument, is_folder, jsonl_option, look_at
from .options import remote_limit_options
from .output import print_json, progress_of, say, show, table

if TYPE_CHECKING:
    from tsarchive import SalvageReport, TensorInfo
    from tsarchive.steps import Step

    Named = tuple[str, TensorInfo]

_SUFFIX: Final = ".safetensors"
_ORDERS: dict[str, Callable[[Named], Any]] = {
    "size": lambda named: (-named[1].nbytes, named[0]),
    "name": lambda named: named[0],
}


@click.command(cls=Command)
@files_argument
@click.option(
    "--sort",
    type=click.Choice([*_ORDERS]),
    help="By bytes, largest first, or by name.",
)
@click.option("--match", metavar="GLOB", help="Only names that fit, such as 'layer1.*.weight'.")
@click.option(
    "--salvage",
    metavar="OUT.safetensors",
    type=OutputPath(),
    help="Save what a damaged file still has.",
)
@click.option("--force", is_flag=True, help="Let --salvage replace a file.")
@model_option
@remote_limit_options
@json_option
@jsonl_option
def command(
    files: tuple[str, ...],
    *,
    sort: str | None,
    match: str | None,
    salvage: str | None,
    force: bool,
    model: str | None,
    as_json: bool,
    as_lines: bool,
) -> int:
    """List the tensors in a file.

    Name, dtype, shape, bytes, record, device, and whether it is a parameter, a buffer, a plain
    attribute or a constant of the code. Packed weights stand under the attribute or constant
    that they are packed in. Tensors that share a storage are listed each; the total counts the
    bytes of storages, each once. Does not import torch.

    With --salvage, the records that are still whole, by their CRC-32 where they have one, are
    written to a safetensors file, under the names of their tensors where the records that tell
    them are whole; others as bytes, under their own names. Where parts of a second archive are
    in the file, their names begin with "archive 2/". The exit code is 1 when something is known
    to be lost or there are several archives, and 2 when nothing could be saved.

    \b
    Examples:
      tsarchive tensors model.pt --sort size
      tsarchive tensors model.pt --match '*.weight'
      tsarchive tensors models --jsonl
      tsarchive tensors half.pt --salvage rest.safetensors
    """
    if salvage is not None:
        if sort or match or model:
            raise click.UsageError(
                "--salvage saves all tensors: it takes --force and --json alone."
            )
        if not salvage.endswith(_SUFFIX):
            raise click.UsageError(f"--salvage writes safetensors: name the file *{_SUFFIX}.")
        if len(files) > 1 or is_folder(files[0]) or as_lines:
            raise click.UsageError("--salvage saves what one file has: give one, without --jsonl.")
        return _salvage(files[0], salvage, force=force, as_json=as_json)
    if force:
        raise click.UsageError("--force belongs to --salvage.")
    look = partial(_look, sort=sort, match=match, model=model)
    return look_at(files, look, as_json=as_json, as_lines=as_lines, layout="titled")


def _look(
    file: str, _step: Step, *, sort: str | None, match: str | None, model: str | None
) -> Found:
    with tsarchive.open(file) as archive:
        found = list(chosen_model(archive, model).tensors.items())
    if match is not None:
        found = [named for named in found if fnmatchcase(named[0], match)]
    if sort is not None:
        found.sort(key=_ORDERS[sort])
    return Found(lambda: _document(file, found), lambda: _show(found, match))


def _document(file: str, found: Sequence[Named]) -> dict[str, Any]:
    rows = [tensor_document(name, info) for name, info in found]
    return {"file": file, "tensors": rows, "total": totals_of(info for _, info in found)}


def _salvage(file: str, out: str, *, force: bool, as_json: bool) -> int:
    with progress_of(file) as step:
        report = tsarchive.salvage(file, out, force=force, step=step)
    if as_json:
        saved = [asdict(tensor) for tensor in report.saved]
        lost = [asdict(tensor) for tensor in report.lost]
        counted = {"archives": report.archives, "has_checksums": report.has_checksums}
        found = {"file": file, "out": out, **counted, "saved": saved, "lost": lost}
        print_json(found, "salvage")
    else:
        _show_salvage(file, out, report)
    return 0 if report.ok else FINDINGS


def _show_salvage(file: str, out: str, report: SalvageReport) -> None:
    for lost in report.lost:
        say(f"lost: {lost.name}: {lost.reason}", "bold red")
    saved = plural(len(report.saved), "tensor")
    nbytes = sum(tensor.nbytes for tensor in report.saved)
    say(f"{out}: {saved} of {file} saved, {nbytes:,} bytes; {len(report.lost):,} lost", "bold")
    unnamed = sum(not tensor.is_named for tensor in report.saved)
    if unnamed:
        say(f"the names and dtypes of {unnamed:,} are lost: they are saved as records, in bytes")
    if report.archives > 1:
        numbered = 'the names of the second begin with "archive 2/"'
        say(f"parts of {report.archives:,} archives are in the file: {numbered}", "bold yellow")
    if not report.has_checksums:
        say("the file has no checksums: whether elements have been changed is not known")


def _show(found: Sequence[Named], match: str | None) -> None:
    if match is not None and not found:
        say(f"no tensor has a name that fits {match}")
        return
    headings = ("name", "dtype", "shape", "bytes", "record", "device", "role")
    rows = table(*headings, right=("bytes",), whole=("name",))
    for name, info in found:
        rows.add_row(
            name,
            info.dtype,
            shape(info.shape),
            f"{info.nbytes:,}",
            info.storage or "several",
            info.device or "",
            info.role,
        )
    total = totals_of(info for _, info in found)
    show(rows.lines())
    say(f"total: {totals_text(total)}, {plural(total.elements, 'element')}", "bold")
