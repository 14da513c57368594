"""``tsarchive tensors``: the tensors that an archive holds."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import click

import tsarchive
from tsarchive.describing.contents import totals_of, totals_text
from tsarchive.describing.text import plural, shape

from .command import Command, chosen_model, file_argument, json_option, model_option
from .output import print_json, say, show, table

if TYPE_CHECKING:
    from tsarchive import TensorInfo

    Named = tuple[str, TensorInfo]

_ORDERS: dict[str, Callable[[Named], Any]] = {
    "size": lambda named: (-named[1].nbytes, named[0]),
    "name": lambda named: named[0],
}


@click.command(cls=Command)
@file_argument
@click.option(
    "--sort",
    type=click.Choice([*_ORDERS]),
    help="By bytes, largest first, or by name.",
)
@click.option("--match", metavar="GLOB", help="Only names that fit, such as 'layer1.*.weight'.")
@model_option
@json_option
def command(
    file: str, *, sort: str | None, match: str | None, model: str | None, as_json: bool
) -> None:
    """List the tensors in a file.

    Name, dtype, shape, bytes, record, device, and whether it is a parameter, a buffer, a plain
    attribute or a constant of the code. Packed weights stand under the attribute or constant
    that they are packed in. Tensors that share a storage are listed each; the total counts the
    bytes of storages, each once. Does not import torch.

    \b
    Examples:
      tsarchive tensors model.pt --sort size
      tsarchive tensors model.pt --match '*.weight'
    """
    with tsarchive.open(file) as archive:
        found = list(chosen_model(archive, model).tensors.items())
    if match is not None:
        found = [named for named in found if fnmatchcase(named[0], match)]
    if sort is not None:
        found.sort(key=_ORDERS[sort])
    if as_json:
        rows = [_document(name, info) for name, info in found]
        print_json({"file": file, "tensors": rows, "total": totals_of(info for _, info in found)})
    elif match is not None and not found:
        say(f"no tensor has a name that fits {match}")
    else:
        _show(found)


def _document(name: str, info: TensorInfo) -> dict[str, Any]:
    return {
        "name": name,
        "dtype": info.dtype,
        "shape": info.shape,
        "strides": info.strides,
        "bytes": info.nbytes,
        "record": info.storage,
        "storages": info.storages,
        "device": info.device,
        "role": info.role,
    }


def _show(found: list[Named]) -> None:
    headings = ("name", "dtype", "shape", "bytes", "record", "device", "role")
    rows = table(*headings, right=("bytes",), whole=("name",))
    for name, info in found:
        rows.add_row(
            name,
            info.dtype,
            shape(info.shape),
            f"{info.nbytes:,}",
            info.storage or "several",
            info.device or "",
            info.role,
        )
    total = totals_of(info for _, info in found)
    show(rows.lines())
    say(f"total: {totals_text(total)}, {plural(total.elements, 'element')}", "bold")
