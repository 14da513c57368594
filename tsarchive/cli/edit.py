"""``tsarchive edit``: a file of ExecuTorch with other bytes, names, places or alignments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tsarchive.archive import open as open_archive
from tsarchive.container.opening import open_source
from tsarchive.formats.executorch.header import BPTE
from tsarchive.remote import is_url, located

from .command import Command, OutputPath, file_argument, json_option, out_option
from .output import print_json, progress, say

if TYPE_CHECKING:
    from tsarchive.executorch import Draft

_STEPS = 3
_STRIPPED = ("stack-traces", "names", "test-suites", "all")
_PROGRAM_SUFFIX = ".pte"
_MISSING = (
    "Give the file to write, and the edits, such as -o small.pte --strip all; "
    "'tsarchive edit --help' lists them."
)


@click.command(cls=Command)
@file_argument
@out_option("What to write.", OutputPath(_MISSING), required=True, metavar="FILE")
@click.option("--upgrade", is_flag=True, help="Write an old file as writers of today do.")
@click.option("--internal", multiple=True, metavar="DATA.ptd",
              help="Move what a data file has into the program.")  # fmt: skip
@click.option("--merge", multiple=True, metavar="DATA.ptd", help="Add another data file to this.")
@click.option("--replace", multiple=True, metavar="NAME=FILE",
              help="Give a tensor other bytes: those of a .npy file, or raw ones.")  # fmt: skip
@click.option("--rename", multiple=True, metavar="OLD=NEW", help="Give a tensor another name.")
@click.option("--external", type=OutputPath(), metavar="DATA.ptd",
              help="Move constants to a new data file.")  # fmt: skip
@click.option("--only", multiple=True, metavar="NAME",
              help="Move this with --internal or --external, and not all.")  # fmt: skip
@click.option("--strip", multiple=True, type=click.Choice(_STRIPPED), help="Take this out.")
@click.option("--align", type=int, metavar="BYTES", help="Align segments to this.")
@click.option("--align-constants", type=int, metavar="BYTES", help="Align constants to this.")
@json_option
def command(file: str, *, out: str, as_json: bool, **edits: Any) -> None:
    """Write a file of ExecuTorch with edits.

    FILE is a program, a data file or a bundled program. Edits are made in the order of the
    options below. A bundled program that is written to a name in .pte gives the program alone.
    Without edits, the file is copied byte for byte; with them, tables are encoded in the order of
    their first writer, and weights go from file to file without a copy in memory. A file that is
    there is replaced when all files are complete; it may be the one that is read. All of them are
    named by paths, not by URLs.

    \b
    Examples:
      tsarchive edit model.pte -o small.pte --external weights.ptd
      tsarchive edit small.pte -o whole.pte --internal weights.ptd
      tsarchive edit model.pte -o model.pte --replace linear.weight=weight.npy
      tsarchive edit a.ptd -o all.ptd --merge b.ptd --merge c.ptd
      tsarchive edit model.bpte -o model.pte --strip all
    """
    if edits["only"] and edits["external"] is None and not edits["internal"]:
        raise click.UsageError("--only is about --internal or --external, and neither is given.")
    if edits["external"] is not None and Path(edits["external"]).resolve() == Path(file).resolve():
        raise click.BadParameter("the data would replace FILE.", param_hint="--external")
    for place in (file, out, edits["external"], *edits["internal"], *edits["merge"]):
        if is_url(located(place)):
            raise click.UsageError(f"Files are edited where they are: {place} has to be copied.")
    from tsarchive.executorch import Draft, write_together

    with ExitStack() as files, progress(_STEPS) as step:
        step(f"reading {file}")
        archive = files.enter_context(open_archive(file))
        draft = Draft(archive)
        if archive.kind == BPTE and Path(out).suffix == _PROGRAM_SUFFIX:
            draft = draft.program
        step("editing")
        written = [(draft, out), *_edit(draft, edits, files)]
        step(f"writing {out}")
        sizes = write_together(written)
    sized = [(path, nbytes) for (_, path), nbytes in zip(written, sizes, strict=True)]
    if as_json:
        described = [{"file": path, "nbytes": nbytes} for path, nbytes in sized]
        print_json({"file": file, "edited": draft.is_edited, "files": described})
    else:
        files_text = " and ".join(f"{path} ({nbytes:,} bytes)" for path, nbytes in sized)
        say(f"{file} is now {files_text}{'' if draft.is_edited else ', byte for byte'}")


def _edit(draft: Draft, edits: Mapping[str, Any], files: ExitStack) -> Iterator[tuple[Draft, str]]:
    """Make all edits. Yields what is to be written beside the draft, and where to."""
    names = edits["only"] or None
    if edits["upgrade"]:
        draft.upgrade()
    for path in edits["internal"]:
        if not draft.internalize(files.enter_context(open_archive(path)), names):
            message = f"{path!r} has nothing that the program takes from a data file."
            raise click.BadParameter(message, param_hint="--internal")
    for path in edits["merge"]:
        draft.merge(files.enter_context(open_archive(path)))
    for name, path in _pairs("--replace", edits["replace"]):
        draft.replace(name, _content(path))
    for old, new in _pairs("--rename", edits["rename"]):
        draft.rename(old, new)
    if edits["external"] is not None:
        yield draft.externalize(names), edits["external"]
    if edits["strip"]:
        draft.strip(*(() if "all" in edits["strip"] else edits["strip"]))
    if (edits["align"], edits["align_constants"]) != (None, None):
        draft.align(edits["align"], edits["align_constants"])


def _pairs(option: str, given: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for pair in given:
        left, equals, right = pair.partition("=")
        if not (left and equals and right):
            raise click.BadParameter(f"{pair!r} is no LEFT=RIGHT", param_hint=option)
        yield left, right


def _content(path: str) -> Any:
    """Return an array, or the bytes of a file; neither is read before it is written."""
    if Path(path).suffix != ".npy":
        return memoryview(open_source(path).data)
    import numpy

    try:
        return numpy.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise click.BadParameter(f"{path!r}: {error}", param_hint="--replace") from error
