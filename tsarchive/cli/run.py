"""``tsarchive run``: call a method of a model and show or write what it gives."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

import tsarchive
from tsarchive.describing.text import duration
from tsarchive.errors import ArchiveError, CallError, ScriptError, UnsupportedError
from tsarchive.formats.registry import format_named
from tsarchive.policy import Limits

from .command import FINDINGS, ModelError, json_option
from .inputs import Inputs, InputsCommand, gather, input_options
from .options import chosen_policy, import_option, limit_options, policy_options
from .output import print_json, say
from .results import check_path, lines, summary, write_output

if TYPE_CHECKING:
    from tsarchive.formats.executorch.modules.comparing import CaseResult

_HOW_TO_CALL = (
    "Give INPUTS, --arg or --random; 'tsarchive tree FILE --signatures' shows what methods take"
)


@click.command(cls=InputsCommand)
@click.argument("arguments", nargs=-1, metavar="FILE [INPUTS]...")
@click.option("--method", default="forward", show_default=True, help="Which method to call.")
@input_options
@click.option("--model", "model_name", metavar="NAME", help="Which model of a PT2 archive.")
@click.option(
    "--map-location",
    metavar="DEVICE",
    default="cpu",
    show_default=True,
    help="The device of model and inputs.",
)
@import_option
@policy_options
@limit_options
@click.option(
    "--out", type=click.Path(), metavar="FILE", help="Write the output to this .npy, .npz or .pt."
)
@click.option(
    "--data", multiple=True, type=click.Path(), help="A data file (.ptd) beside a program (.pte)."
)
@click.option("--bundled", is_flag=True, help="Make the calls that a .bpte brings, and compare.")
@click.option("--rtol", default=1e-5, show_default=True, help="Relative tolerance of --bundled.")
@click.option("--atol", default=1e-8, show_default=True, help="Absolute tolerance of --bundled.")
@json_option
def command(
    file: str | None,
    arguments: list[str],
    *,
    method: str,
    seed: int,
    model_name: str | None,
    map_location: str,
    allow: tuple[str, ...],
    trust: bool,
    max_steps: int | None,
    max_seconds: float | None,
    max_bytes: int | None,
    out: str | None,
    data: tuple[str, ...],
    bundled: bool,
    rtol: float,
    atol: float,
    as_json: bool,
) -> int:
    """Run a model and show its output.

    torch.jit takes no part in it. INPUTS are files: .npy is one tensor; .npz holds arg_0,
    arg_1, ... and keyword arguments by name; .pt holds a tensor, a tuple of arguments or a dict
    of keyword arguments. Files, --arg and --random are arguments in the order of the command
    line; NAME= makes a keyword argument.

    \b
    --random takes SHAPE[:DTYPE][<HIGH]:
      1x3x64x64            float32, standard normal distribution
      2x5:int64<100        integers from 0 to 99
      scalar:bool          one truth value

    \b
    Examples:
      tsarchive run model.pt image.npy
      tsarchive run model.pt --random 1x3x224x224 --out scores.npz
      tsarchive run model.pt prompt.pt --arg '"greedy"' --arg limit=5
      tsarchive run exported.pt2 image.npy --model encoder
      tsarchive run program.pte image.npy --data program.ptd
      tsarchive run program.bpte --bundled
      tsarchive run detector.pt image.npy --import torchvision --allow "torchvision::*"
    """
    if file is None:
        raise click.MissingParameter(param_hint="'FILE'", param_type="argument")
    if out is not None:
        check_path(out)
    _require_usable(map_location)
    if bundled:
        _require_calls(file)
    model = tsarchive.load(
        file,
        map_location=map_location,
        policy=chosen_policy(allow, trust=trust),
        limits=Limits(max_steps, max_seconds, max_bytes),
        model=model_name,
        data=data or None,
    )
    if bundled:
        if arguments:
            raise click.UsageError("--bundled takes no inputs: the file brings them.")
        is_fine = run_bundled(model, file, rtol=rtol, atol=atol, as_json=as_json)
        return 0 if is_fine else FINDINGS
    inputs = _on_device(gather(arguments, seed), map_location)
    output, seconds = _call(_method(model, method), inputs, seed)
    if out is not None:
        write_output(output, out)
    named = {**{str(n): x for n, x in enumerate(inputs.args)}, **inputs.kwargs}
    document = {
        "file": file,
        "method": method,
        "inputs": {name: summary(value) for name, value in named.items()},
        "output": summary(output),
        "seconds": seconds,
        "written": out,
    }
    if as_json:
        print_json(document)
    else:
        _show(document)
    return 0


def _require_calls(file: str) -> None:
    with tsarchive.open(file) as archive:
        found = format_named(archive.kind)
    if not found.brings_calls:
        reason = "only bundled programs of ExecuTorch (.bpte) bring calls"
        raise found.not_taken("bundled", reason, UnsupportedError)


def _require_usable(device: str) -> None:
    from tsarchive.formats.torchscript.tensors import why_unusable

    reason = why_unusable(device)
    if reason is not None:
        raise click.BadParameter(
            f"torch cannot use the device {device!r}: {reason}", param_hint="--map-location"
        )


def _show(document: dict[str, Any]) -> None:
    for name, value in document["inputs"].items():
        for line in lines(f"input {name}", value):
            say(line, "dim", keep="\n")
    for line in lines("output", document["output"]):
        say(line, keep="\n")
    say(f"{document['method']} took {duration(document['seconds'])}", "dim")
    if document["written"] is not None:
        say(f"written to {document['written']}", "green")


def _method(model: Any, name: str) -> Any:
    methods = sorted(model.tsarchive_class.methods)
    if name not in methods:
        raise click.BadParameter(
            f"the model has no method {name!r}; it has: {', '.join(methods) or 'none'}.",
            param_hint="--method",
        )
    return model if name == "forward" else getattr(model, name)


def _on_device(inputs: Inputs, device: str) -> Inputs:
    import torch
    from torch.utils._pytree import tree_map_only

    if device == "cpu":
        return inputs
    args, kwargs = tree_map_only(
        torch.Tensor, lambda tensor: tensor.to(device), (inputs.args, inputs.kwargs)
    )
    return Inputs(args, kwargs)


def _call(function: Any, inputs: Inputs, seed: int) -> tuple[Any, float]:
    """Call with random operators seeded; give the output and the seconds it took.

    Raises click.ClickException when the model raises.
    """
    import torch

    from tsarchive.run.tracebacks import innermost_origin

    torch.manual_seed(seed)
    started = time.perf_counter()
    try:
        output = function(*inputs.args, **inputs.kwargs)
    # An operator of torch raises almost any class for arguments it does not like.
    except Exception as error:
        if isinstance(error, CallError) and not error.hint:
            error.hint = _HOW_TO_CALL
        if isinstance(error, ArchiveError) and not isinstance(error, ScriptError):
            raise
        reason = str(error).strip() or "no message"
        origin = innermost_origin(error)
        raise ModelError(
            f"the model raised {type(error).__name__}: {reason}",
            None if origin is None else str(origin),
        ) from error
    return output, time.perf_counter() - started


def run_bundled(model: Any, file: str, *, rtol: float, atol: float, as_json: bool) -> bool:
    """Make the calls and print what came of them; true where all are as expected."""
    from tsarchive.formats.executorch.modules.comparing import check_cases

    results = list(check_cases(model, rtol=rtol, atol=atol))
    if not results:
        raise UnsupportedError("the bundled program brings no calls to compare")
    is_fine = all(result.ok for result in results)
    if not as_json:
        _show_cases(results)
        return is_fine
    cases = [
        {
            "method": result.method,
            "case": result.number,
            "ok": result.ok,
            "max_difference": result.max_difference,
            "problem": result.problem,
        }
        for result in results
    ]
    print_json({"file": file, "ok": is_fine, "cases": cases})
    return is_fine


def _show_cases(results: list[CaseResult]) -> None:
    for result in results:
        name = f"{result.method} case {result.number}"
        if result.problem is not None:
            say(f"{name}: {result.problem}", "red")
        elif result.max_difference is None:
            say(f"{name}: as expected")
        else:
            say(f"{name}: as expected, up to {result.max_difference:.3g} apart")
    failed = sum(not result.ok for result in results)
    style = "red" if failed else "green"
    say(f"{len(results) - failed:,} of {len(results):,} as expected", style)
