"""``tsarchive decompile``: an archive as a Python package."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

import tsarchive

from .command import Command, OutputPath, file_argument, json_option
from .options import chosen_policy, import_option, policy_options
from .output import print_json, progress, say, show, table

if TYPE_CHECKING:
    from tsarchive.decompiler import DecompileReport

_STEPS = 3


@click.command(cls=Command)
@file_argument
@click.option(
    "-o", "--output", "directory", required=True, type=OutputPath(), help="The package to write."
)
@click.option("--force", is_flag=True, help="Write into a directory that is not empty.")
@click.option("--full-paths", is_flag=True, help="Name original files with their folders.")
@click.option("--map-location", metavar="DEVICE", help="Write the code for another device.")
@import_option
@policy_options
@json_option
def command(
    file: str,
    directory: str,
    *,
    force: bool,
    full_paths: bool,
    map_location: str | None,
    allow: tuple[str, ...],
    trust: bool,
    as_json: bool,
) -> None:
    """Write a file as a Python package that needs torch alone.

    The package has the classes of the archive with their methods, the weights in a safetensors
    file, and a function 'load' that gives the model. Comments name the original lines. Devices
    that the code names stay, unless --map-location moves them.

    \b
    Examples:
      tsarchive decompile model.pt -o model
      python -c "import model; print(model.load())"
    """
    with progress(_STEPS) as step:
        report = tsarchive.decompile(
            file,
            directory,
            force=force,
            full_paths=full_paths,
            map_location=map_location,
            policy=chosen_policy(allow, trust=trust),
            step=step,
        )
    if as_json:
        print_json({"file": file, **asdict(report)})
    else:
        _show(report)


def _show(report: DecompileReport) -> None:
    files = table("file", "bytes", right=("bytes",))
    for written in report.files:
        files.add_row(written.name, f"{written.size:,}")
    show(files.lines())
    for call in report.untranslated:
        say(f"not translated: {call}")
    for name, advice in report.libraries.items():
        rest = advice.removeprefix("It ")
        said = f"{name} {rest}" if rest != advice else f"{name}. {advice}"
        say(f"The package needs a library before it is called: {said}")
    say(f"{report.root} and load() are in {report.directory}")
