"""``tsarchive optimize``: a faster version of a model, as an archive."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

import tsarchive
from tsarchive.container.writer import is_same_file
from tsarchive.describing.text import duration
from tsarchive.errors import CallError
from tsarchive.remote import is_url

from .command import json_option, out_option
from .inputs import Inputs, InputsCommand, gather, input_options
from .options import chosen_policy, import_option, policy_options
from .output import print_json, say
from .run import errors_of_model

if TYPE_CHECKING:
    from tsarchive.optimizing import OptimizeReport


@click.command(cls=InputsCommand)
@click.argument("arguments", nargs=-1, metavar="FILE [INPUTS]...")
@input_options
@out_option("What to write.", required=True, metavar="FAST.pt")
@click.option("--force", is_flag=True, help="Let FAST.pt replace FILE.")
@click.option("--model", metavar="NAME", help="Which model of a PT2 archive.")
@import_option
@policy_options
@json_option
def command(
    file: str | None,
    arguments: list[str],
    *,
    seed: int,
    out: str,
    force: bool,
    model: str | None,
    allow: tuple[str, ...],
    trust: bool,
    as_json: bool,
) -> None:
    """Write a faster version of a model.

    It is for inference alone, and its results are those of FILE up to rounding. Weights
    become constants, batch normalization is folded into the layers before it, dropout is removed,
    and oneDNN runs the layers that it is faster at, with weights that are packed when the file is
    loaded. torch.jit and libtorch load the file.

    INPUTS, --arg and --random are the arguments of an example call, as for 'tsarchive run'. Each
    layer is timed on it, and the results are compared. Without one less is done.

    \b
    Examples:
      tsarchive optimize model.pt --random 1x3x224x224 -o fast.pt
      tsarchive optimize model.pt image.npy -o fast.pt
      tsarchive optimize model.pt -o fast.pt
    """
    if file is None:
        raise click.MissingParameter(param_hint="'FILE'", param_type="argument")
    if not force:
        _check_other_file(file, out)
    inputs = gather(arguments, seed) if arguments else None
    if inputs is not None and inputs.kwargs:
        raise click.UsageError("An example has no keyword arguments: give them by position.")
    module = tsarchive.load(file, policy=chosen_policy(allow, trust=trust), model=model).eval()
    optimized = _optimized(module, inputs)
    tsarchive.save(optimized, out)
    report = tsarchive.optimize_report(optimized)
    if as_json:
        print_json({"file": file, "out": out, **asdict(report)})
    else:
        _show(report, out, was_called=inputs is not None)


def _check_other_file(file: str, out: str) -> None:
    """Raise CallError where the result would replace the model, which it does not give back."""
    if is_same_file(file, out):
        raise CallError(
            "the result would replace the file that it is made from",
            hint="Give another name to it, or --force",
        )


def _optimized(module: Any, inputs: Inputs | None) -> Any:
    from tsarchive.optimizing import optimized_for

    example = None if inputs is None else tuple(inputs.args)
    hint = "The call with the example failed: give INPUTS that the model takes"
    return optimized_for(module, example, errors_of_model(hint))


def _show(report: OptimizeReport, out: str, *, was_called: bool) -> None:
    say(out if is_url(out) else f"{out} ({os.path.getsize(out):,} bytes)")
    for change in report.done:
        say(f"  {change.what}: {change.count}")
    for change in report.left:
        say(f"  left as it is: {change.what}: {change.count}")
    if report.seconds_before is None or report.seconds_after is None:
        reason = "nothing was changed" if was_called else "give the INPUTS of a call"
        say(f"nothing was measured: {reason}")
        return
    times = f"{duration(report.seconds_before)} before, {duration(report.seconds_after)} now"
    ratio = report.seconds_after / report.seconds_before
    say(f"a call takes {times} ({ratio:.2f}); results differ by at most {report.difference:.3g}")
