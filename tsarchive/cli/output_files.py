"""Writing what a model gave to .npy, .npz or .pt."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click


def check_path(path: str) -> None:
    """Raise click.BadParameter when nothing can be written under this name."""
    if Path(path).suffix not in _WRITERS:
        raise _bad(f"{path!r} has none of the endings {', '.join(_WRITERS)}.")
    if not Path(path).absolute().parent.is_dir():
        raise _bad(f"the folder of {path!r} does not exist.")


def write_output(output: Any, path: str) -> None:
    """Write the output; the ending of the name says how.

    ``.npy``: one tensor. ``.npz``: every tensor and number under its place, such as
    ``output.0.scores``. ``.pt``: plain containers of tensors, for ``torch.load``.
    """
    _WRITERS[Path(path).suffix](output, path)


def _write_npy(output: Any, path: str) -> None:
    import numpy
    import torch

    if not isinstance(output, torch.Tensor):
        raise _bad(f"the output is a {type(output).__name__}, no tensor: use .npz or .pt.")
    numpy.save(path, _array(output), allow_pickle=False)


def _write_npz(output: Any, path: str) -> None:
    import numpy

    from tsarchive.cli.values import leaves

    arrays = {name: _array(value) for name, value in leaves(output) if value is not None}
    with Path(path).open("wb") as file:
        numpy.savez(file, **arrays)


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


def _write_pt(output: Any, path: str) -> None:
    import torch

    from tsarchive.cli.values import plain

    torch.save(plain(output), path)


_WRITERS: dict[str, Callable[[Any, str], None]] = {
    ".npy": _write_npy,
    ".npz": _write_npz,
    ".pt": _write_pt,
}


def _bad(message: str) -> click.BadParameter:
    return click.BadParameter(message, param_hint="--out")
