"""A loaded program as torch.export's ExportedProgram, read from its archive or traced.

torch's own loader unpickles what a file tells it to. It is given records that were read and checked
here, of one model, with nothing pickled among them.
"""

from __future__ import annotations

import importlib
import inspect
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.export import ExportedProgram

from tsarchive.container import NewRecord, write_container
from tsarchive.errors import ArchiveError, CallError, UnsupportedError
from tsarchive.run.modules import ArchiveModule

from .exporter import config_record, end_records
from .json_codec import read_json
from .records import FLAT_STATES, MODELS, SAMPLE_INPUTS, USUAL_NAME, Records, config_name
from .resaving import forward_of, resaved_records
from .schema import PayloadConfig

_ARCHIVE_NAME = "model"
_MOST_LETTERS = 300


def exported_program(module: ArchiveModule) -> ExportedProgram:
    """Return the program of a module from a PT2 archive, with the module's present state.

    It has no example inputs, and holds a copy of the weights. Raises SaveError for a part of a
    program and for weights that only a pickle describes; UnsupportedError for pickled objects, and
    for what torch itself cannot read, such as unregistered operators, or the layout before torch
    2.9.
    """
    load_pt2 = _loader()
    forward = forward_of(module)
    records = Records(module.tsarchive_classes.container)
    model = records.model_of(forward.record)
    written = {
        record.name: record
        for record in resaved_records(module, {}, debug=True, keeps_extras=False)
    }
    stream = io.BytesIO()
    write_container(stream, _of_model(written, model), root=_ARCHIVE_NAME)
    stream.seek(0)
    try:
        program: ExportedProgram = load_pt2(stream).exported_programs[USUAL_NAME]
        return program
    except Exception as error:  # torch raises errors of many unrelated classes
        lines = [line for line in str(error).splitlines() if line.strip()] or [""]
        raise UnsupportedError(
            f"torch.export cannot read the program: {lines[-1][:_MOST_LETTERS]}",
            record=forward.record,
            hint="Import what registers its operators and named tuples",
        ) from error


def _loader() -> Callable[[io.BytesIO], Any]:
    """Return torch's loader of archives whose weights are records of their own."""
    try:
        constants = importlib.import_module("torch.export.pt2_archive.constants")
        package: Any = importlib.import_module("torch.export.pt2_archive._package")
    except ModuleNotFoundError:
        constants = None
    if not hasattr(constants, "WEIGHTS_CONFIG_FILENAME_FORMAT"):
        raise UnsupportedError(
            "this torch does not read the layout in which programs are handed to torch.export",
            hint="torch 2.9 and later read it",
        )
    loader: Callable[[io.BytesIO], Any] = package.load_pt2
    return loader


def _of_model(written: Mapping[str, NewRecord], model: str) -> Iterator[NewRecord]:
    """Yield the records of one model, under the name that torch expects."""
    for folder in FLAT_STATES:
        name = config_name(folder, model)
        found = read_json(PayloadConfig, bytes(written[name].data), name)
        _check(found, name)
        paths = dict.fromkeys(meta.path_name for meta in found.config.values())
        names = (f"{folder}{path}" for path in paths)
        yield from (written[name] for name in names if name in written)
        yield config_record(folder, USUAL_NAME, found.config)
    program = written[f"{MODELS}{model}.json"]
    yield replace(program, name=f"{MODELS}{USUAL_NAME}.json")
    yield NewRecord(f"{SAMPLE_INPUTS}{USUAL_NAME}.pt", b"")
    yield from end_records()


def _check(config: PayloadConfig, record: str) -> None:
    for name, meta in config.config.items():
        if meta.use_pickle:
            raise UnsupportedError(
                f"{name!r} is pickled, and torch would run what its pickle names",
                record=record,
                hint="Export the model again from its source, or save it where you trust the file",
            )


def traced_program(
    module: ArchiveModule,
    example_inputs: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
) -> ExportedProgram:
    """The program of one call of ``forward``. Raises CallError and UnsupportedError as
    :func:`tsarchive.to_exported_program` says."""
    given = dict(kwargs) if kwargs else None
    arguments = _checked(module, example_inputs, given or {})
    try:
        return torch.export.export(
            module, arguments, given, dynamic_shapes=dynamic_shapes, strict=False
        )
    except ArchiveError:
        raise
    except Exception as error:  # torch.export raises errors of many unrelated classes
        raise UnsupportedError(
            f"torch.export cannot export {type(module).__name__}: {_first_lines(error)}",
            hint="The traceback of its cause names the line of code; sizes that stay open need "
            "examples of 2 or more",
        ) from error


def _checked(
    module: ArchiveModule, inputs: Sequence[Any], keywords: Mapping[str, Any]
) -> tuple[Any, ...]:
    """The arguments of the example call. Raises CallError where they are none."""
    if not isinstance(inputs, tuple | list):
        raise CallError(
            f"example_inputs is a {type(inputs).__name__}, not a tuple of arguments",
            hint="Pass (x,) for a forward that takes x",
        )
    forward: Any = module.forward
    try:
        inspect.signature(forward).bind(*inputs, **keywords)
    except TypeError as error:
        raise CallError(f"forward{inspect.signature(forward)}: {error}") from None
    return tuple(inputs)


def _first_lines(error: Exception) -> str:
    """What an error says first: a line, and after a colon the one that it announces."""
    name = type(error).__name__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return name
    first = " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]
    return f"{name}: {first.rstrip('.')}"
