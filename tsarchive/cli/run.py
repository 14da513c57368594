"""``tsarchive run``: call a method of a model and show or write what it gives.

Results become summaries, lines of text, plain copies, and files .npy, .npz and .pt.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import tsarchive
from tsarchive.describing.text import duration, shape
from tsarchive.errors import ArchiveError, CallError, ScriptError, UnsupportedError
from tsarchive.formats.registry import format_named
from tsarchive.policy import Limits
from tsarchive.remote import is_url, located

from .command import FINDINGS, FilePath, ModelError, json_option, out_option
from .inputs import Inputs, InputsCommand, gather, input_options
from .options import chosen_policy, import_option, limit_options, policy_options
from .output import print_json, progress, say

if TYPE_CHECKING:
    import torch

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
@out_option("Write the output to this .npy, .npz or .pt.", click.Path(), metavar="FILE")
@click.option(
    "--data", multiple=True, type=FilePath(), help="A data file (.ptd) beside a program (.pte)."
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
    with progress(None):
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
    output, seconds = call_model(_method(model, method), inputs, seed)
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


def call_model(function: Any, inputs: Inputs, seed: int) -> tuple[Any, float]:
    """Call with random operators seeded; give the output and the seconds it took.

    Raises click.ClickException when the model raises.
    """
    import torch

    torch.manual_seed(seed)
    started = time.perf_counter()
    with errors_of_model():
        output = function(*inputs.args, **inputs.kwargs)
    return output, time.perf_counter() - started


@contextmanager
def errors_of_model(hint: str | None = None) -> Iterator[None]:
    """Raise ModelError, with this hint, for what a model raises."""
    from tsarchive.run.tracebacks import innermost_origin

    try:
        yield
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
            hint,
        ) from error


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
    print_json({"file": file, "ok": is_fine, "cases": cases}, "run-bundled")
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


_FIRST = 5
_ENDINGS = (".npy", ".npz", ".pt")
_SCALARS = (bool, int, float, complex, str, type(None))


def summary(value: Any) -> dict[str, Any]:
    """Describe a value as a document: nested like the value, with figures for tensors."""
    import torch

    if isinstance(value, torch.Tensor):
        return {"type": "tensor", **_tensor_summary(value)}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        fields = dict(zip(value._fields, map(summary, value), strict=True))
        return {"type": "namedtuple", "name": type(value).__name__, "fields": fields}
    if isinstance(value, (tuple, list)):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {"type": kind, "items": [summary(item) for item in value]}
    if isinstance(value, dict):
        items = [{"key": _scalar(key), "value": summary(item)} for key, item in value.items()]
        return {"type": "dict", "items": items}
    if isinstance(value, _SCALARS):
        return {"type": type(value).__name__, "value": _scalar(value)}
    return {"type": type(value).__name__, "text": str(value)[:200]}


def _scalar(value: Any) -> Any:
    """As JSON has it; a complex number and a tensor as key become text."""
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)


def _tensor_summary(tensor: torch.Tensor) -> dict[str, Any]:
    import torch

    facts: dict[str, Any] = {
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "shape": list(tensor.shape),
        "device": str(tensor.device),
        "min": None,
        "mean": None,
        "max": None,
        "first": [],
    }
    values = _plain_numbers(tensor)
    facts["first"] = [_scalar(item) for item in values[:_FIRST].tolist()]
    if values.numel() and not values.is_complex():
        wide = values.to(torch.float64)
        mean = wide.mean().item()
        facts.update(min=values.min().item(), mean=mean, max=values.max().item())
    return facts


def _plain_numbers(tensor: torch.Tensor) -> torch.Tensor:
    """Return the elements as a dense vector on the CPU, in a dtype that has min and max."""
    import torch

    tensor = tensor.detach().cpu()
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    flat = tensor.resolve_conj().resolve_neg().reshape(-1)
    if flat.dtype.is_floating_point:
        return flat if flat.dtype is torch.float64 else flat.to(torch.float32)
    return flat if flat.is_complex() else flat.to(torch.int64)


def plain(value: Any) -> Any:
    """Copy plain containers, scalars and tensors to the CPU, so that torch.load reads them safely.

    Named tuples become tuples; of other objects only the fact that there is one is left.
    """
    import torch

    if isinstance(value, torch.Tensor):
        return value.detach().cpu()
    if isinstance(value, (tuple, list)):
        items = [plain(item) for item in value]
        return tuple(items) if isinstance(value, tuple) else items
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items()}
    return value if isinstance(value, _SCALARS) else "<object>"


def leaves(value: Any, path: str = "output") -> Iterator[tuple[str, Any]]:
    """Tensors and scalars with a dotted path each: ``output.0.scores``."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        pairs = list(zip(value._fields, value, strict=True))
    elif isinstance(value, (tuple, list)):
        pairs = list(enumerate(value))
    elif isinstance(value, dict):
        pairs = list(value.items())
    else:
        yield path, value
        return
    for key, item in pairs:
        yield from leaves(item, f"{path}.{key}")


def lines(label: str, document: dict[str, Any], indent: str = "") -> Iterator[str]:
    """Yield the lines of a document of ``summary``: one per tensor, scalar and container."""
    kind = document["type"]
    if kind == "tensor":
        yield f"{indent}{label}: {_tensor(document)}"
        return
    parts = _parts(document)
    if parts is None:
        shown = repr(document["value"]) if "value" in document else document["text"]
        yield f"{indent}{label}: {kind} {shown}" if kind != "NoneType" else f"{indent}{label}: None"
        return
    yield f"{indent}{label}: {document.get('name', kind)} of {len(parts)}"
    for name, part in parts:
        yield from lines(name, part, indent + "  ")


def _parts(document: dict[str, Any]) -> list[tuple[str, dict[str, Any]]] | None:
    """Return the named parts of a container; None when it is none."""
    if "fields" in document:
        return list(document["fields"].items())
    if "items" not in document:
        return None
    if document["type"] == "dict":
        return [(repr(item["key"]), item["value"]) for item in document["items"]]
    return [(str(index), item) for index, item in enumerate(document["items"])]


def _tensor(document: dict[str, Any]) -> str:
    text = f"{document['dtype']} {shape(document['shape'])}"
    if document["device"] != "cpu":
        text += f" on {document['device']}"
    if document["mean"] is not None:
        text += f", min {_number(document['min'])}, mean {_number(document['mean'])}"
        text += f", max {_number(document['max'])}"
    first = ", ".join(map(_number, document["first"]))
    more = ", ..." if prod(document["shape"]) > len(document["first"]) else ""
    return f"{text}, values [{first}{more}]"


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def check_path(path: str) -> None:
    """Raise click.BadParameter when nothing can be written under this name."""
    if is_url(located(path)):
        raise _bad("outputs are written to paths, not to URLs.")
    if Path(path).suffix not in _ENDINGS:
        raise _bad(f"{path!r} has none of the endings {', '.join(_ENDINGS)}.")
    if not Path(path).absolute().parent.is_dir():
        raise _bad(f"the folder of {path!r} does not exist.")


def write_output(output: Any, path: str) -> None:
    """Write the output; the ending of the name says how.

    ``.npy``: one tensor. ``.npz``: every tensor and number under its place, such as
    ``output.0.scores``. ``.pt``: plain containers of tensors, for ``torch.load``.
    """
    import numpy
    import torch

    match Path(path).suffix:
        case ".npy":
            if not isinstance(output, torch.Tensor):
                raise _bad(f"the output is a {type(output).__name__}, no tensor: use .npz or .pt.")
            numpy.save(path, _array(output), allow_pickle=False)
        case ".npz":
            arrays = {name: _array(value) for name, value in leaves(output) if value is not None}
            with Path(path).open("wb") as file:
                numpy.savez(file, **arrays)
        case ".pt":
            torch.save(plain(output), path)


def _array(value: Any) -> Any:
    import numpy
    import torch

    if isinstance(value, (bool, int, float, complex, str)):
        return numpy.asarray(value)
    try:
        if isinstance(value, torch.Tensor):
            return value.detach().cpu().resolve_conj().resolve_neg().numpy()
    except (TypeError, RuntimeError) as error:
        raise _bad(f"NumPy has no array of dtype {value.dtype}: use .pt.") from error
    raise _bad(f"a {type(value).__name__} cannot be written to it: use .pt.")


def _bad(message: str) -> click.BadParameter:
    return click.BadParameter(message, param_hint="--out")
