"""``tsarchive leave``: which formats a model can move to, tried on the file."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import click

import tsarchive
from tsarchive.describing.text import duration, in_commands, size

from .command import FINDINGS, OutputPath, json_option
from .convert import dynamic_option, example_of, silencing_torch
from .inputs import InputsCommand, input_options, typed
from .options import chosen_policy, import_option, policy_options
from .output import print_json, progress, say

if TYPE_CHECKING:
    from tsarchive.leaving import LeavingPlan, WayOut

# Of a command, which people copy.
_PROMPT: Final = "$ "
_STYLES: Final = {
    "equal": "green", "close": "green", "written": "green", "differs": "red", "fails": "red",
    "untried": "yellow",
}  # fmt: skip


@click.command(cls=InputsCommand)
@click.argument("arguments", nargs=-1, metavar="FILE [INPUTS]...")
@input_options
@dynamic_option
@click.option("--only", multiple=True, metavar="WAY", help="Try this way alone; may be repeated.")
@click.option(
    "--report", "page", type=OutputPath(), help="Write the page of 'tsarchive report' too."
)
@click.option("--model", metavar="NAME", help="Which model of a PT2 archive.")
@click.option("--map-location", metavar="DEVICE", help="Where to run the model.")
@import_option
@policy_options
@json_option
def command(
    file: str | None,
    arguments: list[str],
    *,
    seed: int,
    sizes: tuple[str, ...],
    only: tuple[str, ...],
    page: str | None,
    model: str | None,
    map_location: str | None,
    allow: tuple[str, ...],
    trust: bool,
    as_json: bool,
) -> int:
    """Try the ways out of TorchScript, and say which work.

    Each way is written to a temporary folder, run, and compared with the file: a package of Python
    source (decompile), a torch.export program (pt2), ONNX, ExecuTorch (pte), and the weights with
    the structure (safetensors). Each is told with what it keeps and loses, its size, and its
    command. INPUTS, --arg and --random are the arguments of the call, as for 'tsarchive run';
    without them, the inputs that the file was traced or exported with serve where it has them.

    The exit code is 1 where no way works.

    \b
    Examples:
      tsarchive leave model.pt --random 1x3x224x224
      tsarchive leave model.pt tokens.npy --only pt2 --only onnx
      tsarchive leave model.pt --random 1x16 --dynamic x:0 --json
      tsarchive leave model.pt --random 1x16 --report model.html
    """
    if file is None:
        raise click.MissingParameter(param_hint="'FILE'", param_type="argument")
    example = example_of(file, arguments, seed, sizes)
    with silencing_torch(), progress(None) as step:
        plan = tsarchive.leave(
            file,
            **example,
            model=model,
            map_location=map_location,
            policy=chosen_policy(allow, trust=trust),
            only=only,
            seed=seed,
            step=step,
        )
    opened = [f"--dynamic={place}" for place in sizes]
    allowed = ["--trust"] if trust else [f"--allow={name}" for name in allow]
    plan = _with_words(plan, [*typed(arguments), *opened], allowed)
    if page is not None:
        tsarchive.report(file, page, plan=plan)
    if as_json:
        print_json(plan.document())
    else:
        _show(plan)
    return 0 if plan.ok else FINDINGS


def _with_words(plan: LeavingPlan, call: Sequence[str], options: Sequence[str]) -> LeavingPlan:
    """Return the plan with the arguments of the call in its commands, as they were typed, and
    options behind them."""
    from tsarchive.leaving.plan import CALL

    def typed_in(command: str) -> str:
        shown = command.replace(CALL, shlex.join(call)) if call else command
        return " ".join([shown, *map(shlex.quote, options)])

    ways = (replace(way, command=typed_in(way.command)) for way in plan.ways)
    return replace(plan, ways=tuple(ways))


_INPUTS: Final = {
    "given": "the arguments given",
    "stored": "the inputs that it was exported with",
    "drawn": "random inputs of the sizes that it was traced with",
    "needless": "a call without arguments, since it needs none",
    "none": "nothing, since no inputs are given or known",
}


def _show(plan: LeavingPlan) -> None:
    say(f"{plan.file} ({plan.kind}), compared for {_INPUTS[plan.inputs]}", "bold")
    if plan.arguments:
        say(f"  {', '.join(plan.arguments)}", "dim")
    for way in plan.ways:
        say("")
        say(f"{way.name}: {way.title}, {way.summary}", _STYLES[way.outcome])
        for line in _details(way):
            say(f"  {line}", is_data=line.startswith(_PROMPT))


def _details(way: WayOut) -> Sequence[str]:
    lines = []
    if way.origin is not None:
        lines.append(f"at {way.origin}")
    if way.hint is not None:
        lines.append(f"hint: {in_commands(way.hint)}")
    if way.works:
        made = "" if way.nbytes is None else f"{size(way.nbytes)}, "
        lines += [
            f"costs: {made}{duration(way.seconds or 0.0)} to make; needs {way.needs}",
            f"keeps: {'; '.join(way.keeps)}",
        ]
        if way.loses:
            lines.append(f"loses: {'; '.join(way.loses)}")
        lines.append(f"{_PROMPT}{way.command}")
    return lines
