"""``tsarchive stub``: the classes of an archive as a stub file."""

from __future__ import annotations

from pathlib import Path

import click

import tsarchive
from tsarchive.describing.text import size

from .command import Command, OutputPath, file_argument, json_option
from .options import remote_limit_options
from .output import print_json, say


@click.command(cls=Command)
@file_argument
@click.option("-o", "--output", "path", type=OutputPath(), help="The .pyi file to write.")
@remote_limit_options
@json_option
def command(file: str, *, path: str | None, as_json: bool) -> None:
    """Write the types of a model as a stub file.

    Type checkers and editors then know its classes and methods, as in
    'net: Net = tsarchive.load("net.pt")'. Without -o it is printed. Runs nothing
    of the file, and does not import torch.

    \b
    Examples:
      tsarchive stub net.pt
      tsarchive stub net.pt -o net_types.pyi
    """
    text = tsarchive.stub(file)
    if path is not None:
        Path(path).write_text(text, encoding="utf-8")
    if as_json:
        print_json({"file": file, "path": path, "text": text})
    elif path is None:
        click.echo(text, nl=False)
    else:
        say(f"{path}: {size(len(text.encode()))}")
