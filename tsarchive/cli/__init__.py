"""The ``tsarchive`` command. Each command has a module of its own, imported when it is used.

May import every room; no room imports it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from tsarchive.garbage import not_collecting

from .output import guarded

_COMMANDS = (
    "info", "tree", "code", "decompile", "convert", "optimize", "edit", "tensors", "report", "run",
    "verify", "audit", "jitter", "cache",
)  # fmt: skip
# The demo is a program of its own, in a package beside this one.
_MODULES = {
    "demo": "tsarchive.demo.command",
    **{command: f"tsarchive.cli.{command}" for command in _COMMANDS},
}


class _LazyGroup(click.Group):
    """Imports the module of a command when the command is asked for."""

    def main(self, *args: Any, **extra: Any) -> Any:
        with guarded():
            return super().main(*args, **extra)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = _MODULES.get(cmd_name)
        if module is None:
            return None
        with not_collecting():
            found: click.Command = import_module(module).command
        return found


def _show_versions(ctx: click.Context, _option: click.Parameter, given: bool) -> None:
    if not given or ctx.resilient_parsing:
        return
    import platform

    from tsarchive import __version__
    from tsarchive.operators.registry import installed_torch, untried_torch

    torch = installed_torch()
    click.echo(f"tsarchive, version {__version__}")
    click.echo(f"Python {platform.python_version()}, {f'torch {torch}' if torch else 'no torch'}")
    if untried := untried_torch():
        click.echo(untried)
    ctx.exit()


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_versions,
    help="Show the versions of tsarchive, Python and torch.",
)
@click.option("--traceback", is_flag=True, help="Let errors end in a Python traceback.")
@click.pass_context
def main(ctx: click.Context, *, traceback: bool) -> None:
    """Look into, run, check and convert files of TorchScript, torch.export and ExecuTorch.

    \b
    Examples:
      tsarchive demo
      tsarchive info model.pt
      tsarchive run model.pt --random 1x3x224x224

    Exit codes: 0 fine; 1 findings (files that are not sound,
    code that does more than compute, bytes that change, outputs that differ); 2 unusable input or
    arguments; 3 a defect of tsarchive itself.
    """
    ctx.obj = traceback
