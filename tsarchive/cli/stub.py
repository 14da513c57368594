"""``tsarchive stub``: the classes of an archive as a stub file."""

from __future__ import annotations

from pathlib import Path

import click

import tsarchive
from tsarchive.describing.text import LAYOUT, size, visible

from .command import Command, file_argument, json_option, out_option
from .options import remote_limit_options
from .output import print_json, print_source, say


@click.command(cls=Command)
@file_argument
@out_option("The .pyi file to write.")
@remote_limit_options
@json_option
def command(file: str, *, out: str | None, as_json: bool) -> None:
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
    if out is not None:
        Path(out).write_text(text, encoding="utf-8")
    if as_json:
        print_json({"file": file, "out": out, "text": text})
    elif out is None:
        print_source(visible(text, keep=LAYOUT).encode())
    else:
        say(f"{out}: {size(len(text.encode()))}")
