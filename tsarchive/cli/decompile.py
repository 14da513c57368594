"""``tsarchive decompile``: an archive as a Python package."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

import tsarchive
from tsarchive.describing.text import plural

from .command import FINDINGS, Command, file_argument, json_option, out_option
from .options import IMPORTS, chosen_policy, import_option, policy_options
from .output import print_json, progress, say, show, table

if TYPE_CHECKING:
    from tsarchive.decompiler import DecompileReport
    from tsarchive.decompiler.checking import CodeCheck

_STEPS = 4


@click.command(cls=Command)
@file_argument
@out_option("The package to write.", required=True)
@click.option("--force", is_flag=True, help="Write into a directory that is not empty.")
@click.option("--full-paths", is_flag=True, help="Name original files with their folders.")
@click.option("--map-location", metavar="DEVICE", help="Write the code for another device.")
@click.option("--check", is_flag=True, help="Script the package again, and compare the code.")
@import_option
@policy_options
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    file: str,
    out: str,
    *,
    force: bool,
    full_paths: bool,
    map_location: str | None,
    check: bool,
    allow: tuple[str, ...],
    trust: bool,
    as_json: bool,
) -> int:
    """Write a file as a Python package that needs torch alone.

    The package has the classes of the archive with their methods, the weights in a safetensors
    file, and a function 'load' that gives the model. Comments name the original lines. Devices
    that the code names stay, unless --map-location moves them.

    With --check, torch.jit scripts the package in a process of its own, and each method is compared
    with that of the archive, names of variables and classes aside; what objects hold, such as
    weights and values of attributes, is not. That runs the package. The exit code is 1 when a
    method differs or is not scripted. Those of classes that came back as classes of a library,
    whose release here has other code, are counted apart: they were proven to do the same.

    \b
    Examples:
      tsarchive decompile model.pt -o model
      tsarchive decompile model.pt -o model --check
      python -c "import model; print(model.load())"
    """
    with progress(_STEPS + check) as step:
        report = tsarchive.decompile(
            file,
            out,
            force=force,
            full_paths=full_paths,
            map_location=map_location,
            policy=chosen_policy(allow, trust=trust),
            step=step,
            check=check,
            imports=ctx.meta[IMPORTS],
        )
    if as_json:
        print_json({"file": file, **asdict(report)})
    else:
        _show(report)
    return 0 if report.ok else FINDINGS


def _show(report: DecompileReport) -> None:
    files = table("file", "bytes", right=("bytes",))
    for written in report.files:
        files.add_row(written.name, f"{written.nbytes:,}")
    show(files.lines())
    for call in report.untranslated:
        say(f"not translated: {call}")
    for name, advice in report.libraries.items():
        rest = advice.removeprefix("It ")
        said = f"{name} {rest}" if rest != advice else f"{name}. {advice}"
        say(f"The package needs a library before it is called: {said}")
    if report.copied:
        say(report.copied)
    say(_importing(report))
    if report.check is not None:
        _show_check(report.check)


def _importing(report: DecompileReport) -> str:
    """Return the sentence that says how to import what was written."""
    package = Path(os.path.abspath(report.out)).name
    if "." in report.root:
        made = f"load(), which gives a {report.root}, is in {report.out}"
        return f"{made}: from {package} import load"
    made = f"{report.root} and load() are in {report.out}"
    return f"{made}: from {package} import {report.root}, load"


def _show_check(check: CodeCheck) -> None:
    for method in check.methods:
        if method.outcome == "differs":
            say(f"{method.name} differs")
            say(f"  archive: {_line(method.before)}")
            say(f"  package: {_line(method.after)}")
    _show_failures(check)
    equal = sum(method.outcome == "equal" for method in check.methods)
    library = sum(method.outcome == "library" for method in check.methods)
    total = plural(len(check.methods), "method")
    say(f"{equal} of {total} have the code of the archive when they are scripted again")
    if library:
        say(f"{plural(library, 'method')} are those of a library of another release")


def _show_failures(check: CodeCheck) -> None:
    """Say what is not scripted, each reason once."""
    failures: dict[str, list[str]] = {}
    for method in check.methods:
        if method.outcome == "not scripted":
            failures.setdefault(method.reason, []).append(method.name)
    for reason, names in failures.items():
        if len(names) == 1:
            say(f"{names[0]} is not scripted: {reason}")
            continue
        say(f"{plural(len(names), 'method')} are not scripted: {reason}")
        for name in names:
            say(f"  {name}")


def _line(text: str | None) -> str:
    return "nothing" if text is None else text
