"""``tsarchive convert``: an archive of one format as one of another."""

from __future__ import annotations

import logging
import os
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

import tsarchive
from tsarchive.describing.text import in_commands, plural
from tsarchive.errors import ArchiveWarning
from tsarchive.formats.destinations import ONNX, SAFETENSORS, destination_named
from tsarchive.formats.registry import format_named
from tsarchive.operators.registry import schema_texts
from tsarchive.operators.releases import Release, newest_release, release_named
from tsarchive.remote import is_url

from .command import FINDINGS, json_option
from .inputs import Inputs, InputsCommand, gather, input_options, split_file
from .options import chosen_policy, import_option, policy_options
from .output import print_json, progress, say

if TYPE_CHECKING:
    from tsarchive.converting import Conversion
    from tsarchive.executorch_export import Agreement
    from tsarchive.formats.requests import Note, RewrittenCalls
    from tsarchive.onnx_export import OnnxAgreement

# What stands beside a file, of whatever kind it is not constants.
_BESIDE = {ONNX.kind: "weights", SAFETENSORS.kind: "modules and values"}
_RAISE = "prim::RaiseException"
_NO_OPERATOR = "code without operators"
_MOST_OF_LINE = 3
_STEPS = 2
_STEPS_OF_OTHERS = {".pte": 3, ".onnx": 3, ".safetensors": 1}
_SIZE = re.compile(
    r"(?P<place>[^:]+):(?P<dimension>\d+)(=(?P<name>[A-Za-z_]\w*))?"
    r"((?(name):|=)((?P<least>\d+)\.\.)?(?P<most>\d+))?",
    re.ASCII,
)

dynamic_option = click.option(
    "--dynamic",
    "sizes",
    multiple=True,
    metavar="PLACE:DIM[=NAME|=[NAME:][MIN..]MAX]",
    help="Leave a size open: the argument, such as x or x.key.0, which of its dimensions, a name "
    "for it, and the sizes that it may have: x:0, x:0=8, x:0=batch, x:0=batch:1..8. Sizes of one "
    "name are equal.",
)


@click.command(cls=InputsCommand)
@click.argument("arguments", nargs=-1, metavar="FILE OUT [INPUTS]...")
@input_options
@dynamic_option
@click.option(
    "--specialize",
    is_flag=True,
    help="Let values of tensors decide as they do in this call; the program asserts them.",
)
@click.option(
    "--dequantize",
    is_flag=True,
    help="Make floats of quantized weights and values.",
)
@click.option(
    "--data",
    metavar="FILE.ptd",
    help="Where constants of a program of ExecuTorch go that no backend takes.",
)
@click.option(
    "--backend", "backends", multiple=True, metavar="NAME", help="Delegate to it: xnnpack."
)
@click.option("--model", metavar="NAME", help="Which model of a PT2 archive.")
@click.option("--map-location", metavar="DEVICE", help="Convert for another device.")
@click.option(
    "--for-torch",
    metavar="VERSION",
    help="Write TorchScript that this version of torch loads, such as 2.9; by default the newest.",
)
@click.option(
    "--canonical",
    is_flag=True,
    help="Write the canonical form: bytes that depend on the model alone.",
)
@click.option("--no-debug", is_flag=True, help="Leave out where code came from.")
@click.option(
    "--opset",
    type=int,
    metavar="N",
    help="The version of the operators of an ONNX file; by default that of torch.onnx.",
)
@import_option
@policy_options
@json_option
def command(
    file: str | None,
    arguments: list[str],
    *,
    seed: int,
    sizes: tuple[str, ...],
    opset: int | None,
    specialize: bool,
    dequantize: bool,
    data: str | None,
    backends: tuple[str, ...],
    model: str | None,
    map_location: str | None,
    for_torch: str | None,
    canonical: bool,
    no_debug: bool,
    allow: tuple[str, ...],
    trust: bool,
    as_json: bool,
) -> int:
    """Write the model of one archive as another.

    The name of OUT says which kind it is: .pt2 for torch.export, .pt, .pth or .ts for
    TorchScript, which torch.jit and libtorch load, .pte for ExecuTorch, .onnx for ONNX,
    .safetensors for the weights alone. Of TorchScript, torch.export traces one call: INPUTS, --arg
    and --random are its arguments, as for 'tsarchive run'. Sizes are those of this call unless
    --dynamic leaves them open; in arguments that are containers, keys and positions lead to the
    tensor. Where values of tensors decide what is run, the program holds both sides if these give
    alike results; --specialize makes the program of this call, which fails where another would be
    decided otherwise. Quantized weights and values become integers,
    with operators that round as these do, or floats with --dequantize. What the program has of the
    call is told. OUT is replaced when the new file is complete; it may be FILE.

    TorchScript is written with operators that the newest torch has, or the one of --for-torch,
    back to 1.4. Where code cannot be said with them, nothing is written: each line that stands in
    the way is named, and the exit code is 1.

    Programs of ExecuTorch are made by its package, and run for one call here, in its runtime, and
    as they were: the exit code is 1 where the results do not agree. So are ONNX files, by
    onnxruntime: for INPUTS, or those that a PT2 archive holds, or random ones. Operators that ONNX
    lacks are named with the line that calls them. With weights goes a .json file of modules,
    signatures, constants and tensors; nothing of the archive runs. For Core ML, TensorRT, OpenVINO
    and LiteRT, the error tells the command of their own tools.

    \b
    Examples:
      tsarchive convert model.pt2 model.pt
      tsarchive convert model.pt model.pt2 --random 2x3x224x224 --dynamic x:0
      tsarchive convert model.pt model.pt2 --random 2x3x224x224 --specialize
      tsarchive convert old.pt2 new.pt2
      tsarchive convert model.pt older.pt --for-torch 2.9
      tsarchive convert model.pt same.pt --canonical
      tsarchive convert model.pt model.pte --random 1x8 --dynamic x:0=1..16 --data model.ptd
      tsarchive convert model.pt model.onnx --random 2x3x224x224 --dynamic x:0=batch --opset 20
      tsarchive convert model.pt model.safetensors
    """
    destination, rest = split_file(arguments)
    if file is None or destination is None:
        missing = "'FILE'" if file is None else "'OUT'"
        raise click.MissingParameter(param_hint=missing, param_type="argument")
    example = example_of(file, rest, seed, sizes)
    steps = _STEPS_OF_OTHERS.get(os.path.splitext(destination)[1], _STEPS)
    try:
        with silencing_torch(), progress(steps) as step:
            done = tsarchive.convert(
                file,
                destination,
                **example,
                specialize=specialize,
                dequantize=dequantize,
                model=model,
                policy=chosen_policy(allow, trust=trust),
                map_location=map_location,
                data=data,
                backends=backends,
                for_torch=for_torch,
                opset=opset,
                canonical=canonical,
                debug=not no_debug,
                step=step,
            )
    except tsarchive.TargetError as error:
        return _refuse(error, file, as_json=as_json)
    if as_json:
        print_json(done)
    else:
        _show(done, data, for_torch)
    return 0 if done.ok else FINDINGS


def _refuse(error: tsarchive.TargetError, file: str, *, as_json: bool) -> int:
    """Print what stands in the way of an archive for a release of torch."""
    if as_json:
        obstacles = [obstacle._asdict() for obstacle in error.obstacles]
        hint = in_commands(error.hint) if error.hint else None
        print_json({"file": file, "obstacles": obstacles, "hint": hint}, "obstacles")
    else:
        say(f"{file}: {error.message}", keep="\n")
        if error.hint:
            say(f"  hint: {in_commands(error.hint)}")
    return FINDINGS


@contextmanager
def silencing_torch() -> Iterator[None]:
    """Silence logging and warnings of torch and others: the error holds all that torch.export logs
    of a trace that fails, and the notes what it warns of."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", ArchiveWarning)
            yield
    finally:
        logging.disable(before)


def _show(done: Conversion, asked: str | None, for_torch: str | None) -> None:
    release = newest_release() if for_torch is None else release_named(for_torch)
    target = f"the newest torch, {release}," if for_torch is None else f"torch {release}"
    version = "" if done.opset is None else f" opset {done.opset}"
    made = f"{done.out} ({_family(done.kind)}{version}, {done.nbytes:,} bytes)"
    say(f"{done.file} ({_family(done.file_kind)}) is now {made}")
    _tell_all(done.notes)
    for calls in done.rewritten:
        say(_rewritten(calls, release, target))
    if done.left_out:
        say("the bytecode is left out, since the code is not what it was made from any more")
    if done.extra_files_left_out:
        say(f"extra files are left out: {', '.join(done.extra_files_left_out)}", "bold yellow")
    if done.data is not None:
        say(f"its {_BESIDE.get(done.kind, 'constants')} are in {done.data}")
    elif asked is not None:
        say(f"no constants are left for {asked}, which was not written")
    for found in done.agreements:
        say(_agreement(found))
    if _is_lowered(done.kind) and not done.agreements:
        say("results were not compared: give the INPUTS of a call")


def _tell_all(notes: Iterable[Note]) -> None:
    """Say notes, but only the first few of one line of code: those of a loop are hundreds."""
    told: Counter[tuple[str, str]] = Counter()
    for note in notes:
        if note.place is None:
            _tell(note)
            continue
        told[note.kind, note.place] += 1
        if told[note.kind, note.place] <= _MOST_OF_LINE:
            _tell(note)
    for (kind, place), count in told.items():
        if count > _MOST_OF_LINE:
            say(f"{kind}: {count - _MOST_OF_LINE} more in {place}; --json has all")


def _tell(note: Note) -> None:
    if note.kind in ("file", "state"):
        say(f"{note.kind}: {note.text}", "" if note.is_checked else "bold yellow")
    else:
        say(f"{note.kind}: {note.text}" + ("" if note.is_checked else " (not checked)"))


def _family(kind: str) -> str:
    other = destination_named(kind)
    return format_named(kind).family if other is None else other.title


def _is_lowered(kind: str) -> bool:
    return destination_named(kind) is None and format_named(kind).is_lowered


def _rewritten(calls: RewrittenCalls, release: Release, target: str) -> str:
    """Tell of calls and the operators on tensors that stand in their place, if there are any.

    ``target`` is the torch that the archive is written for, in words.
    """
    start = f"{plural(calls.count, 'call')} of {calls.operator}"
    shown = [name for name in calls.written_as if _gives_tensors(name, release)]
    if not shown and _RAISE in calls.written_as and calls.operator != _RAISE:
        raises = "raises" if calls.count == 1 else "raise"
        reached = "it is" if calls.count == 1 else "they are"
        return f"{start}, which {target} lacks, {raises} an error when {reached} reached"
    return f"{start} written as {', '.join(shown or calls.written_as) or _NO_OPERATOR}"


def _gives_tensors(operator: str, release: Release) -> bool:
    texts = schema_texts(operator.partition(".")[0], release.name)
    heads = {text.partition("(")[0]: text.rpartition("->")[2] for text in texts}
    return "Tensor" in heads.get(operator, "")


def _agreement(found: Agreement | OnnxAgreement) -> str:
    if found.problem is not None:
        return f"{found.method}: results do not agree: {found.problem}"
    return f"{found.method}: {found.summary}"


def example_of(
    source: str, arguments: list[str], seed: int, sizes: tuple[str, ...]
) -> dict[str, Any]:
    """Return the call that is traced, as the verbs take it: its arguments, and open sizes.

    Raises OSError for a source that is not there, before torch is imported for the arguments.
    """
    if not is_url(source):
        os.stat(source)
    inputs = gather(arguments, seed) if arguments else None
    return {
        "args": None if inputs is None else inputs.args,
        "kwargs": None if inputs is None else inputs.kwargs,
        "dynamic_shapes": _dynamic_shapes(source, inputs or Inputs(), sizes) if sizes else None,
    }


def _dynamic_shapes(source: str, inputs: Inputs, sizes: Iterable[str]) -> dict[str, Any]:
    """Return the sizes of each given argument that stay open, as torch.export takes them."""
    from torch.utils._pytree import tree_flatten_with_path, tree_unflatten

    given = {**dict(zip(_names(source), inputs.args, strict=False)), **inputs.kwargs}
    leaves, structure = tree_flatten_with_path(given)
    places = [".".join(map(_key_text, path)) for path, _ in leaves]
    placed = zip(places, leaves, strict=True)
    tensors = {place: leaf for place, (_, leaf) in placed if hasattr(leaf, "ndim")}
    shapes: dict[str, dict[int, Any]] = {}
    for size in sizes:
        match = _SIZE.fullmatch(size)
        if match is None:
            raise _not_open(
                f"{size!r} is no PLACE:DIM, PLACE:DIM=MAX, PLACE:DIM=MIN..MAX, PLACE:DIM=NAME or "
                "PLACE:DIM=NAME:MIN..MAX"
            )
        place, dimension = match["place"], int(match["dimension"])
        if place not in tensors:
            known = ", ".join(tensors) or "none"
            raise _not_open(f"no tensor {place!r} is given; there are: {known}")
        rank = tensors[place].ndim
        if dimension >= rank:
            raise _not_open(f"{place!r} has {plural(rank, 'dimension')}, counted from 0")
        shapes.setdefault(place, {})[dimension] = _open_size(match)
    found: dict[str, Any] = tree_unflatten(map(shapes.get, places), structure)
    return found


def _key_text(key: Any) -> str:
    """Return the position in a list or tuple, or the key of a dict."""
    return str(key.idx if hasattr(key, "idx") else key.key)


def _open_size(match: re.Match[str]) -> Any:
    """Return any size, or one under the name given or a name that no other size has."""
    from torch.export import Dim

    if match["most"] is None:
        return Dim.DYNAMIC if match["name"] is None else Dim(match["name"])
    own = re.sub(r"\W", "_", f"size_{match['place']}_{match['dimension']}", flags=re.ASCII)
    return Dim(match["name"] or own, min=int(match["least"] or 1), max=int(match["most"]))


def _not_open(message: str) -> click.BadParameter:
    return click.BadParameter(message, param_hint="--dynamic")


def _names(source: str) -> list[str]:
    """Return the names of the arguments of ``forward``."""
    with tsarchive.open(source) as archive:
        if format_named(archive.kind).has_programs:
            raise _not_open("the sizes of a PT2 archive are as they were exported")
        forward = archive.class_of(archive.root).methods.get("forward")
    return [] if forward is None else [one.name for one in forward.schema.arguments[1:]]
