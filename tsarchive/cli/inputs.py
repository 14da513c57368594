"""The arguments of a model on the command line: files, literals and random tensors, in order.

Files are .npy, .npz and .pt, read without running anything that is in them.
"""

from __future__ import annotations

import ast
import pickle
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import click
from click.core import augment_usage_errors

from tsarchive.remote import is_url

from .command import Command
from .options import together

if TYPE_CHECKING:
    import numpy
    import torch


@dataclass(slots=True)
class Inputs:
    """Arguments of one call, and the calls they came from."""

    args: list[Any] = field(default_factory=list)
    kwargs: dict[str, Any] = field(default_factory=dict)

    def add(self, value: Any, name: str | None = None) -> None:
        if name is None:
            self.args.append(value)
        elif name in self.kwargs:
            raise click.UsageError(f"The argument {name!r} is given twice.")
        else:
            self.kwargs[name] = value


_POSITION = re.compile(r"arg_(\d+)")


def read_inputs(path: str, inputs: Inputs) -> None:
    """Add what the file holds. Raises OSError, click.BadParameter for what is not an input.

    ``.npy``: one tensor. ``.npz``: ``arg_0``, ``arg_1``, ... are arguments in this order,
    other names are keyword arguments. ``.pt``: a tensor, a tuple of arguments, or a dict of
    keyword arguments.
    """
    if is_url(path):
        raise _not_inputs(path, "is a URL, from which models are read, but no inputs")
    read = _READERS.get(Path(path).suffix)
    if read is None:
        raise _not_inputs(path, f"has none of the endings {', '.join(_READERS)}")
    try:
        read(path, inputs)
    except (OSError, click.UsageError):
        raise
    # The errors of these readers for malformed files are many, and not documented.
    except Exception as error:
        raise _not_inputs(path, f"cannot be read: {str(error).partition(chr(10))[0]}") from error


def _read_npy(path: str, inputs: Inputs) -> None:
    import numpy

    with open(path, "rb") as file:
        inputs.add(_tensor(numpy.load(file, allow_pickle=False)))


def _read_npz(path: str, inputs: Inputs) -> None:
    import numpy

    with open(path, "rb") as file, numpy.load(file, allow_pickle=False) as arrays:
        found = {name: _tensor(arrays[name]) for name in arrays.files}
    numbered = {int(place[1]): name for name in found if (place := _POSITION.fullmatch(name))}
    if sorted(numbered) != list(range(len(numbered))):
        raise _not_inputs(path, f"lacks an argument: it has {', '.join(sorted(numbered.values()))}")
    for _, name in sorted(numbered.items()):
        inputs.add(found.pop(name))
    for name, value in found.items():
        inputs.add(value, name)


def _tensor(array: numpy.ndarray[Any, Any]) -> torch.Tensor:
    import torch

    # torch takes arrays of the machine's own byte order only.
    return torch.from_numpy(array.astype(array.dtype.newbyteorder("="), copy=True))


def _read_pt(path: str, inputs: Inputs) -> None:
    import torch

    if _is_model(path):
        raise _not_inputs(path, "is a model, not inputs")
    try:
        value = torch.load(path, weights_only=True, map_location="cpu")
    except pickle.UnpicklingError as error:
        raise _not_inputs(path, "holds more than tensors and plain values") from error
    if isinstance(value, tuple):
        inputs.args += value
    elif isinstance(value, dict):
        for name, item in value.items():
            inputs.add(item, _keyword(path, name))
    else:
        inputs.add(value)


def _is_model(path: str) -> bool:
    """Return whether a file has a model; ``torch.load`` says something else of it, at length."""
    from tsarchive.archive import open as opened
    from tsarchive.errors import ArchiveError

    with suppress(ArchiveError), opened(path) as archive:
        return archive.view.has_modules
    return False


def _keyword(path: str, name: Any) -> str:
    if not isinstance(name, str) or not name.isidentifier():
        raise _not_inputs(path, f"has the key {name!r}, which is no argument name")
    return name


_READERS: dict[str, Callable[[str, Inputs], None]] = {
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".pt": _read_pt,
}


def _not_inputs(path: str, problem: str) -> click.BadParameter:
    return click.BadParameter(f"{path!r} {problem}.", param_hint="INPUTS")


# Of integers when the description gives no bound: small enough for most tables of embeddings.
DEFAULT_HIGH = 10

_SPEC = re.compile(
    r"(?P<shape>scalar|\d+(?:x\d+)*)(?::(?P<dtype>\w+))?(?:<(?P<high>\d+(?:\.\d+)?))?", re.ASCII
)
_GRAMMAR = "SHAPE[:DTYPE][<HIGH], such as 1x3x64x64, 2x5:int64<100 or scalar:bool"


def random_tensor(spec: str, generator: torch.Generator) -> torch.Tensor:
    """Make the tensor that ``SHAPE[:DTYPE][<HIGH]`` describes.

    Floating point (float32 unless DTYPE says otherwise) and complex numbers are of the standard
    normal distribution or, with HIGH, uniform in [0, HIGH); integers are uniform in [0, HIGH),
    HIGH being 10 unless given; bool is even odds. Raises click.BadParameter.
    """
    parts = _SPEC.fullmatch(spec.strip())
    if parts is None:
        raise _not_random(f"{spec!r} is not {_GRAMMAR}.")
    shape = [] if parts["shape"] == "scalar" else [int(size) for size in parts["shape"].split("x")]
    dtype = _dtype(parts["dtype"] or "float32")
    try:
        return _fill(shape, dtype, parts["high"], generator)
    except (RuntimeError, TypeError, ValueError, OverflowError) as error:
        reason = str(error).partition("\n")[0]
        raise _not_random(f"torch cannot make {spec!r}: {reason}") from error


def _fill(
    shape: list[int], dtype: torch.dtype, high: str | None, generator: torch.Generator
) -> torch.Tensor:
    import torch

    if dtype is torch.bool:
        if high is not None:
            raise ValueError("bool takes no bound")
        return torch.randint(0, 2, shape, generator=generator).bool()
    if dtype.is_floating_point or dtype.is_complex:
        # Narrow types have no generator of their own, so all are converted.
        wide = torch.complex64 if dtype.is_complex else torch.float32
        wide = dtype if dtype in (torch.float64, torch.complex128) else wide
        if high is None:
            return torch.randn(shape, generator=generator, dtype=wide).to(dtype)
        return (torch.rand(shape, generator=generator, dtype=wide) * float(high)).to(dtype)
    bound = DEFAULT_HIGH if high is None else int(high)
    if bound - 1 > torch.iinfo(dtype).max:
        raise ValueError(f"{bound - 1} does not fit into {dtype}")
    return torch.randint(0, bound, shape, generator=generator, dtype=torch.int64).to(dtype)


def _dtype(name: str) -> torch.dtype:
    import torch

    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise _not_random(f"torch has no dtype {name!r}.")
    return found


def _not_random(message: str) -> click.BadParameter:
    return click.BadParameter(message, param_hint="--random")


# No argument of a process holds a NUL, so no file name is mistaken for a marked option.
_MARK = "\0"
_NAMED = re.compile(r"(?:(?P<name>[A-Za-z_]\w*)=(?!=))?(?P<rest>.*)", re.DOTALL)


class InputsCommand(Command):
    """Keeps files, --arg and --random in the order of the command line.

    click collects each option on its own and forgets the order between them, so the options
    become marked positional arguments before click sees them. The first file among ``arguments``
    is taken out of them, and becomes the parameter ``file``.
    """

    marked: ClassVar[Sequence[str]] = ("--arg", "--random")
    """The options whose order counts."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        left = super().parse_args(ctx, list(_marked(args, self.marked)))
        with augment_usage_errors(ctx):
            self.split(ctx.params)
        return left

    def split(self, params: dict[str, Any]) -> None:
        """Take files of models out of ``arguments``."""
        params["file"], params["arguments"] = split_file(params["arguments"])


def _marked(args: list[str], options: Sequence[str]) -> Iterator[str]:
    pending = iter(args)
    for arg in pending:
        option, equals, value = arg.partition("=")
        if arg == "--":
            yield arg
            yield from pending
        elif option not in options:
            yield arg
        elif equals:
            yield f"{_MARK}{option}={value}"
        else:
            following = next(pending, None)
            # click itself says that the value is missing.
            yield option if following is None else f"{_MARK}{option}={following}"


def split_file(arguments: Sequence[str]) -> tuple[str | None, list[str]]:
    """Return the first argument that is not an option, and the others in order."""
    rest = list(arguments)
    for index, argument in enumerate(rest):
        if is_file(argument):
            return rest.pop(index), rest
    return None, rest


def is_file(argument: str) -> bool:
    """Return whether one of ``arguments`` is no option."""
    return not argument.startswith(_MARK)


def typed(arguments: Sequence[str]) -> list[str]:
    """Return arguments as they were typed on the command line."""
    return [argument.removeprefix(_MARK) for argument in arguments]


# The options of a command that calls a model.
input_options = together(
    click.option(
        "--random",
        multiple=True,
        expose_value=False,
        metavar="[NAME=]SHAPE[:DTYPE][<HIGH]",
        help="A random tensor, such as 1x3x64x64 or '2x5:int64<100'.",
    ),
    click.option(
        "--arg",
        multiple=True,
        expose_value=False,
        metavar="[NAME=]LITERAL",
        help="A Python literal, such as 3, '[1, 2]' or '\"greedy\"'.",
    ),
    click.option("--seed", type=int, default=0, show_default=True, help="Of random numbers."),
)


def gather(arguments: list[str], seed: int) -> Inputs:
    """Read and make the arguments. Raises click.UsageError, OSError."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    inputs = Inputs()
    for argument in arguments:
        _add(inputs, argument, generator)
    return inputs


def _add(inputs: Inputs, argument: str, generator: torch.Generator) -> None:
    if is_file(argument):
        read_inputs(argument, inputs)
        return
    option, _, text = argument.removeprefix(_MARK).partition("=")
    if option == "--run":
        read_inputs(text, inputs)
        return
    named = _NAMED.fullmatch(text)
    name, rest = (named["name"], named["rest"]) if named else (None, text)
    value = random_tensor(rest, generator) if option == "--random" else _literal(rest)
    inputs.add(value, name)


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise click.BadParameter(
            f"{text!r} is not a Python literal. Strings need quotes of their own: '\"text\"'.",
            param_hint="--arg",
        ) from error
