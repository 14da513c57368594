"""``tsarchive verify``: is the file whole, and what it claims to be?"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import click

import tsarchive
from tsarchive.describing.contents import totals_text
from tsarchive.describing.text import plural, size
from tsarchive.errors import place_text

from .command import FINDINGS, Command, json_option
from .many import Found, files_argument, jsonl_option, look_at
from .output import STYLES, say

if TYPE_CHECKING:
    from tsarchive import VerifyReport
    from tsarchive.steps import Step

# The meaning of each verdict, and the advice.
_VERDICTS: Final = {
    "sound": "whole, and what it claims to be; 'tsarchive audit' tells what it can do",
    "unusual": "no writer of archives makes it so; see above for what it is about",
    "another kind": "outside of what is checked here; see above for what to do",
    "broken": "damaged or incomplete; get it again from its source",
    "inconsistent": "damaged or forged; do not load it, and get it again from its source",
    "hostile": "made to deceive or to attack; do not load it with any program",
}
_HARMLESS: Final = "packed in another way than torch packs, which does no harm"


@click.command(cls=Command)
@files_argument
@json_option
@jsonl_option
def command(files: tuple[str, ...], *, as_json: bool, as_lines: bool) -> int:
    """Check that a file is whole, and what it claims to be.

    Looks at the zip container, the set of records, all pickles, tensors and code. Runs nothing
    of the file, imports nothing that it names, and does not import torch. Each finding has a
    severity, and its nature is one of: unusual, another kind (than what is checked here),
    broken (an accident), inconsistent (damaged or forged) or hostile (damage cannot explain
    it). The verdict is the gravest of them, or sound. The exit code is 1 when any finding is
    more than a note.

    Whether the operators that the code names are there is for 'tsarchive info --check'; what
    they can do, for 'tsarchive audit'.

    \b
    Examples:
      tsarchive verify model.pt
      tsarchive verify model.pt --json
      tsarchive verify models --jsonl
    """

    def look(file: str, step: Step) -> Found:
        found = tsarchive.verify(file, step=step)
        return Found(
            lambda: {"file": file, "verdict": found.verdict, "ok": found.ok, **asdict(found)},
            lambda: _show(file, found),
            0 if found.ok else FINDINGS,
        )

    return look_at(files, look, as_json=as_json, as_lines=as_lines)


def _show(file: str, found: VerifyReport) -> None:
    for finding in found.findings:
        say(f"{finding.severity.value}: {finding.message}", STYLES[finding.severity.value])
        say(f"  what:  {finding.nature.value} ({finding.rule})")
        where = place_text(record=finding.record, line=finding.line, offset=finding.offset)
        if where:
            say(f"  where: {where}")
        if finding.hint:
            say(f"  hint:  {finding.hint}")
    style = "bold green" if found.ok else "bold red"
    meaning = _HARMLESS if found.verdict == "unusual" and found.ok else _VERDICTS[found.verdict]
    say(_checked(found))
    say(f"{file}: {found.verdict}: {meaning}", style)


def _checked(found: VerifyReport) -> str:
    if found.kind is None:
        return "checked: nothing could be opened"
    version = "" if found.format_version is None else f" of format version {found.format_version}"
    counted = [plural(found.records, "record"), plural(found.code_records, "code record")]
    if found.tensors is not None:
        counted.append(totals_text(found.tensors))
    return f"checked: {found.kind}{version}, {size(found.nbytes)}, {', '.join(counted)}"
