"""``tsarchive fingerprint``: which model is it?"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

import click

import tsarchive
from tsarchive.container.opening import open_source, read_all
from tsarchive.errors import ArchiveError, CallError, FormatError
from tsarchive.fingerprinting import VERSION, sha256_of
from tsarchive.remote import is_url, located
from tsarchive.steps import under

from .command import (
    FINDINGS,
    UNUSABLE,
    Command,
    Failure,
    FilePath,
    describe,
    json_option,
    report,
)
from .many import (
    Tally,
    Wanted,
    is_folder,
    jsonl_option,
    left_out,
    require_one_form,
    say_skipped,
    wanted,
)
from .options import remote_limit_options
from .output import labelled, print_foreign_json, print_json, print_json_line, progress_of, say

if TYPE_CHECKING:
    from tsarchive import Fingerprint

_PARTS: Final = ("code", "structure", "weights", "extra_files")
_DIGEST: Final = re.compile(rf"{VERSION}:[0-9a-f]{{64}}", re.IGNORECASE)
# Names with backslashes or characters that are not printable are written as sha256sum writes them:
# the line begins with a backslash. Other bytes than ends of lines are \xNN, which it lacks.
_ESCAPED: Final = {"\\": "\\\\", "\n": "\\n", "\r": "\\r"}
_ESCAPE: Final = re.compile(rb"\\(?:([\\nr])|x([0-9a-f]{2})|)")
_UNESCAPED: Final = {b"\\": b"\\", b"n": b"\n", b"r": b"\r"}


@click.command(cls=Command)
@click.argument("files", nargs=-1, type=FilePath(), metavar="[FILE]...")
@click.option("--parts", is_flag=True, help="Show the digest of each part, too.")
@click.option("--tensors", is_flag=True, help="Show the digest of each tensor, too.")
@click.option("--no-weights", is_flag=True, help="Read no tensors: code and structure alone.")
@click.option("--check", metavar="SUMS", type=click.Path(), help="Compare with what SUMS lists.")
@click.option("--in-toto", is_flag=True, help="Print subjects of an in-toto statement, as JSON.")
@remote_limit_options
@json_option
@jsonl_option
def command(
    files: tuple[str, ...],
    *,
    parts: bool,
    tensors: bool,
    no_weights: bool,
    check: str | None,
    in_toto: bool,
    as_json: bool,
    as_lines: bool,
) -> int:
    """Tell which model a file holds, whatever wrote it.

    Prints a digest and the name of each FILE. Equal models have equal digests: also where one is
    saved again by torch.jit or tsarchive, in the canonical form, compressed, or under another
    name. Runs nothing of the file, and does not import torch.

    That digests differ is no finding here: 'tsarchive diff A B' has an exit code for it. With
    --check, the files and digests are those that an earlier run printed; the exit code is 1
    when one differs, 2 when a file cannot be read.

    \b
    Examples:
      tsarchive fingerprint model.pt
      tsarchive fingerprint model.pt --parts --tensors
      tsarchive fingerprint models > models.tsf
      tsarchive fingerprint --check models.tsf
      tsarchive fingerprint model.pt --in-toto
    """
    if check is not None:
        if files or parts or tensors or no_weights or in_toto or as_lines:
            raise click.UsageError("--check takes the files that its list names, and only --json.")
        return _check(check, as_json=as_json)
    if not files:
        raise click.UsageError("Missing argument 'FILE...', or --check with a list.")
    require_one_form(as_json=as_json, as_lines=as_lines)
    read = _read_with_digest if in_toto else _read
    is_told = not (as_json or as_lines) or in_toto
    tally = Tally()
    rows = _each(wanted(files), tally, weights=not no_weights, is_told=is_told, read=read)
    if in_toto:
        subjects = [*map(_subject, rows)]
        if not tally.exit_code():  # a list that lacks a file could be signed unseen
            print_foreign_json(subjects)
    elif as_json:
        print_json({"files": [_document(row) for row in rows]})
    else:
        for row in rows:
            if as_lines:
                print_json_line(labelled({"files": [_document(row)]}))
            elif row.found is not None:
                _show(row.file, row.found, parts=parts or no_weights, tensors=tensors)
    if not as_json and (len(files) > 1 or is_folder(files[0])):
        say(tally.summary(), stderr=True)
    return tally.exit_code()


class _Row(NamedTuple):
    """A file, and its fingerprint or why it has none."""

    file: str
    found: Fingerprint | None = None
    error: Failure | None = None
    sha256: str = ""


def _each(
    files: Sequence[Wanted],
    tally: Tally,
    *,
    weights: bool,
    is_told: bool,
    read: Callable[..., _Row],
) -> Iterator[_Row]:
    """Yield a row for each file that is not left out; errors are reported if ``is_told``."""
    with progress_of(*(file.path for file in files)) as step:
        for file in files:
            row = _row(read, file, tally, weights=weights, step=step)
            if row is None:
                continue
            if row.error is not None and is_told:
                report(row.error, as_json=False, file=file.path)
            yield row


def _row(
    read: Callable[..., _Row],
    file: Wanted,
    tally: Tally,
    *,
    weights: bool,
    step: Callable[[str], None],
) -> _Row | None:
    """Return the row of a file, None where it is left out; the tally takes note."""
    path = file.path
    step(path)
    try:
        row = read(path, weights=weights, step=under(path, step))
    except (ArchiveError, OSError) as error:
        reason = left_out(file, error)
        if reason is not None:
            say_skipped(path, reason)
            tally.note("skipped")
            return None
        tally.fail(error)
        return _Row(path, error=describe(error))
    tally.note("fine")
    return row


def _read(file: str, **options: Any) -> _Row:
    return _Row(file, tsarchive.fingerprint(file, **options))


def _read_with_digest(file: str, **options: Any) -> _Row:
    """Read a file once, which may be a pipe, for its fingerprint and its own digest."""
    if is_url(file):
        with closing(open_source(file)) as source:
            copy = io.BytesIO(source.data)
        sha256 = sha256_of(copy)
        copy.seek(0)
        return _Row(file, tsarchive.fingerprint(copy, **options), sha256=sha256)
    with open(file, "rb") as stream:
        before = os.fstat(stream.fileno()).st_mtime_ns
        content: BinaryIO = stream if stream.seekable() else io.BytesIO(read_all(stream))
        sha256 = sha256_of(content)
        content.seek(0)
        found = tsarchive.fingerprint(content, **options)
        if content is stream and os.fstat(stream.fileno()).st_mtime_ns != before:
            raise FormatError("the file was written to while it was read")
    return _Row(file, found, sha256=sha256)


def _document(row: _Row) -> dict[str, Any]:
    if row.found is None:
        return {"file": row.file, "error": row.error}
    return {"file": row.file, **asdict(row.found)}


def _show(file: str, found: Fingerprint, *, parts: bool, tensors: bool) -> None:
    say(_line(found.model, file) if found.model else file, is_data=True)
    if parts:
        for name in _PARTS:
            digest = getattr(found, name)
            if digest:
                say(f"  {digest}  {name.replace('_', ' ')}", is_data=True)
    if tensors:
        for name, digest in found.tensors.items():
            say(f"  {digest}  {name}", is_data=True)


def _line(digest: str, file: str) -> str:
    """Return a line of a list, which :func:`_listed` reads."""
    name = "".join(map(_escaped, file))
    return f"{digest}  {file}" if name == file else f"\\{digest}  {name}"


def _escaped(char: str) -> str:
    if char.isprintable() and char != "\\":
        return char
    as_bytes = char.encode("utf-8", "surrogateescape")
    return _ESCAPED.get(char) or "".join(f"\\x{byte:02x}" for byte in as_bytes)


def _subject(row: _Row) -> dict[str, Any]:
    """Return a subject of a statement of in-toto: the digests of the file, and of the model."""
    model = row.found.model if row.found else ""
    own = {VERSION: model.partition(":")[2]} if model else {}
    return {"name": row.file, "digest": {"sha256": row.sha256, **own}}


class _Listed(NamedTuple):
    """A line of a list: a digest, and the file that had it."""

    digest: str
    file: str


def _check(path: str, *, as_json: bool) -> int:
    listed = [*_lines(path)]
    files = [Wanted(line.file) for line in listed]
    rows = [*_each(files, Tally(), weights=True, is_told=not as_json, read=_read)]
    results = [_result(*pair) for pair in zip(listed, rows, strict=True)]
    if as_json:
        print_json({"files": results}, "fingerprint-check")
    else:
        for result in results:
            _tell(result)
    if any(result["same"] is None for result in results):
        return UNUSABLE
    return 0 if all(result["same"] for result in results) else FINDINGS


def _result(line: _Listed, row: _Row) -> dict[str, Any]:
    is_same = None if row.found is None else row.found.model == line.digest
    failed = {} if row.error is None else {"error": row.error}
    return {"file": line.file, "expected": line.digest, "same": is_same, **failed}


def _tell(result: dict[str, Any]) -> None:
    is_same = result["same"]
    said = "not read" if is_same is None else "same" if is_same else "another model"
    say(f"{result['file']}: {said}", "green" if is_same else "bold red")


def _lines(path: str) -> Iterator[_Listed]:
    """Yield what a list names. Raises CallError for a line of another form, and for no line."""
    count = 0
    with open(path, encoding="utf-8-sig", errors="surrogateescape", newline="\n") as stream:
        for number, line in enumerate(stream, 1):
            if line.startswith("  ") or not line.strip():
                continue  # parts of the model before
            found = _listed(line.removesuffix("\n").removesuffix("\r"))
            if found is None:
                raise _no_list(f"{path}, line {number}: this is no fingerprint and name of a file")
            if is_url(located(found.file)):
                raise CallError(
                    f"{path}, line {number}: URLs that a list names are not followed",
                    hint="Compare with what 'tsarchive fingerprint URL' says",
                )
            count += 1
            yield found
    if not count:
        raise _no_list(f"{path}: no file is listed")


def _listed(line: str) -> _Listed | None:
    digest, _, file = line.removeprefix("\\").partition("  ")
    name = file.encode("utf-8", "surrogateescape")
    if line.startswith("\\"):
        try:
            name = _ESCAPE.sub(_unescaped, name)
        except KeyError:
            return None
    if not _DIGEST.fullmatch(digest) or not name or b"\0" in name:
        return None
    return _Listed(digest.lower(), name.decode("utf-8", "surrogateescape"))


def _unescaped(match: re.Match[bytes]) -> bytes:
    """Return what an escape stands for. Raises KeyError for one that is unknown."""
    return bytes.fromhex(match[2].decode()) if match[2] else _UNESCAPED[match[1]]


def _no_list(message: str) -> CallError:
    hint = "Make the list with 'tsarchive fingerprint FILE... > LIST'"
    return CallError(message, hint=hint)
