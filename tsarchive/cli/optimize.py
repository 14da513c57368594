"""``tsarchive optimize``: a model that answers sooner, as an archive."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

import tsarchive
from tsarchive.describing.text import duration

from .command import json_option
from .inputs import InputsCommand, gather, input_options
from .options import chosen_policy, import_option, policy_options
from .output import print_json, say

if TYPE_CHECKING:
    from tsarchive.optimizing import OptimizeReport


@click.command(cls=InputsCommand)
@click.argument("arguments", nargs=-1, metavar="FILE [INPUTS]...")
@input_options
@click.option(
    "-o", "--output", required=True, type=click.Path(), metavar="FAST.pt", help="What to write."
)
@click.option("--model", metavar="NAME", help="Which model of a PT2 archive.")
@import_option
@policy_options
@json_option
def command(
    file: str | None,
    arguments: list[str],
    *,
    seed: int,
    output: str,
    model: str | None,
    allow: tuple[str, ...],
    trust: bool,
    as_json: bool,
) -> None:
    """Write a model that answers sooner.

    It gives the same results, for evaluation alone.

    Weights become constants, batch normalization goes into the layers before it, dropout goes, and
    oneDNN computes the layers that it is quicker at, with weights that are packed when the file is
    loaded. Results are equal to rounding. torch.jit and libtorch load the file.

    INPUTS, --arg and --random are the arguments of a call, as for 'tsarchive run': layers are
    measured with them, and results compared. Without them less is done.

    \b
    Examples:
      tsarchive optimize model.pt --random 1x3x224x224 -o fast.pt
      tsarchive optimize model.pt image.npy -o fast.pt
      tsarchive optimize model.pt -o fast.pt
    """
    if file is None:
        raise click.MissingParameter(param_hint="'FILE'", param_type="argument")
    inputs = gather(arguments, seed) if arguments else None
    if inputs is not None and inputs.kwargs:
        raise click.UsageError("An example has no keyword arguments: give them by position.")
    module = tsarchive.load(file, policy=chosen_policy(allow, trust=trust), model=model)
    example = None if inputs is None else tuple(inputs.args)
    optimized = tsarchive.optimize(module.eval(), example=example)
    tsarchive.save(optimized, output)
    report = tsarchive.optimize_report(optimized)
    if as_json:
        print_json({"source": file, "destination": output, **asdict(report)})
    else:
        _show(report, output)


def _show(report: OptimizeReport, output: str) -> None:
    say(f"{output} ({os.path.getsize(output):,} bytes)")
    for change in report.done:
        say(f"  {change.what}: {change.count}")
    for change in report.left:
        say(f"  left as it is: {change.what}: {change.count}")
    if report.seconds_before is None or report.seconds_after is None:
        say("nothing was measured: give the INPUTS of a call")
        return
    times = f"{duration(report.seconds_before)} before, {duration(report.seconds_after)} now"
    ratio = report.seconds_after / report.seconds_before
    say(f"a call takes {times} ({ratio:.2f}); results are {report.difference:.3g} apart")
