"""Arguments from .npy, .npz and .pt files, read without running anything that is in them."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy
import torch

from tsarchive.cli.call_inputs import Inputs

_POSITION = re.compile(r"arg_(\d+)")


def read_inputs(path: str, inputs: Inputs) -> None:
    """Add what the file holds. Raises OSError, click.BadParameter for what is not an input.

    ``.npy``: one tensor. ``.npz``: ``arg_0``, ``arg_1``, ... are arguments in this order,
    other names are keyword arguments. ``.pt``: a tensor, a tuple of arguments, or a dict of
    keyword arguments.
    """
    read = _READERS.get(Path(path).suffix)
    if read is None:
        raise _bad(path, f"has none of the endings {', '.join(_READERS)}")
    try:
        read(path, inputs)
    except (OSError, click.UsageError):
        raise
    # The errors of these readers for malformed files are many, and not documented.
    except Exception as error:
        raise _bad(path, f"cannot be read: {str(error).partition(chr(10))[0]}") from error


def _read_npy(path: str, inputs: Inputs) -> None:
    with open(path, "rb") as file:
        inputs.add(_tensor(numpy.load(file, allow_pickle=False)))


def _read_npz(path: str, inputs: Inputs) -> None:
    with open(path, "rb") as file, numpy.load(file, allow_pickle=False) as arrays:
        found = {name: _tensor(arrays[name]) for name in arrays.files}
    numbered = {int(place[1]): name for name in found if (place := _POSITION.fullmatch(name))}
    if sorted(numbered) != list(range(len(numbered))):
        raise _bad(path, f"lacks an argument: it has {', '.join(sorted(numbered.values()))}")
    for _, name in sorted(numbered.items()):
        inputs.add(found.pop(name))
    for name, value in found.items():
        inputs.add(value, name)


def _tensor(array: numpy.ndarray[Any, Any]) -> torch.Tensor:
    # torch takes arrays of the machine's own byte order only.
    return torch.from_numpy(array.astype(array.dtype.newbyteorder("="), copy=True))


def _read_pt(path: str, inputs: Inputs) -> None:
    try:
        value = torch.load(path, weights_only=True, map_location="cpu")
    except pickle.UnpicklingError as error:
        raise _bad(path, "holds more than tensors and plain values") from error
    if isinstance(value, tuple):
        inputs.args += value
    elif isinstance(value, dict):
        for name, item in value.items():
            inputs.add(item, _keyword(path, name))
    else:
        inputs.add(value)


def _keyword(path: str, name: Any) -> str:
    if not isinstance(name, str) or not name.isidentifier():
        raise _bad(path, f"has the key {name!r}, which is no argument name")
    return name


_READERS: dict[str, Callable[[str, Inputs], None]] = {
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".pt": _read_pt,
}


def _bad(path: str, problem: str) -> click.BadParameter:
    return click.BadParameter(f"{path!r} {problem}.", param_hint="INPUTS")
