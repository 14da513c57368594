"""Converting: TorchScript archives to PT2 archives and back, and old layouts to those of today."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast

from tsarchive.container import Container, write_container
from tsarchive.errors import CallError, UnsupportedError
from tsarchive.garbage import not_collecting
from tsarchive.kinds import (
    HEAD_BYTES,
    LEGACY_TORCHSCRIPT,
    PT2,
    PTE,
    TORCHSCRIPT,
    executorch_kind,
    kind_of,
)
from tsarchive.loading import load
from tsarchive.policy import Policy
from tsarchive.preparing.sources import EXPORTED, Call, Source, is_program, require_call, source_of
from tsarchive.saving import save

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

    from tsarchive.preparing.agreement import Agreement
    from tsarchive.run.classes import ArchiveModule

__all__ = ["Conversion", "convert", "kind_of_name"]

_KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {".pt": TORCHSCRIPT, ".pth": TORCHSCRIPT, ".ts": TORCHSCRIPT, ".pt2": PT2, ".pte": PTE}
)
_EXTRA: Final = "extra/"


@dataclass(frozen=True, slots=True)
class Conversion:
    """What was converted: the kind of the archive that was read, that of the one written.

    ``kind`` and ``source_kind`` are ``torchscript``, ``torchscript-legacy`` (of before torch
    1.3), ``pt2`` or ``pte``, or ``exported program`` where no archive was read; ``nbytes`` is the
    size of the file that was written.

    Of a program of ExecuTorch, ``data`` is the data file that was written beside it, and
    ``agreements`` tell of each method with an example call whether our runner, the runtime and
    the source give the same.
    """

    source: str
    source_kind: str
    destination: str
    kind: str
    nbytes: int
    data: str | None = None
    agreements: tuple[Agreement, ...] = ()


def convert(
    src: str | os.PathLike[str] | ExportedProgram | Mapping[str, ExportedProgram],
    dst: str | os.PathLike[str],
    *,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    model: str | None = None,
    policy: Policy | None = None,
    map_location: str | torch.device | None = None,
    data: str | os.PathLike[str] | None = None,
    backends: Sequence[str] = (),
    step: Callable[[str], None] = lambda description: None,
) -> Conversion:
    """Write the model of one archive, or an exported program, as one of the kind ``dst`` says.

    ``.pt2`` is a PT2 archive, which torch.export loads; ``.pt``, ``.pth`` and ``.ts`` are
    TorchScript, which torch.jit and libtorch load; ``.pte`` is a program of ExecuTorch. The ways:

    * PT2 to TorchScript: the graph of the program is printed as TorchScript code, with its
      checks of arguments, branches and loops. All buffers become attributes that are saved.
    * TorchScript to PT2: torch.export traces one call, of ``args`` and ``kwargs``;
      ``dynamic_shapes`` says which sizes stay open, as for :func:`to_exported_program`.
    * PT2 to PT2: archives of earlier torch are written in the layout of today, with all models;
      ``map_location`` moves one alone, the ``model``.
    * TorchScript to TorchScript: a save of what was loaded.
    * to ExecuTorch: the executorch package, an optional extra, lowers what torch.export traced of
      TorchScript, or the programs of a PT2 archive, whose models become methods where there are
      several. ``data`` is where constants go instead of into the program, a ``.ptd``;
      ``backends`` (``"xnnpack"``) are delegated to. Initial values of buffers are kept. Each
      method is run for ``args`` and ``kwargs``, or the inputs that its program was exported
      with, by our runner, the runtime, and as it was: the result tells whether they agree.

    Extra files are kept, but by ExecuTorch, which has none. ``model`` is one of those in a PT2
    archive; ``policy`` and ``map_location`` are those of ``load``; ``step`` is called with what is
    being done. ``dst`` is replaced only when the new file is complete; it may be ``src``.

    Raises CallError for a ``dst`` of another name and for arguments that the way does not take
    or lacks; UnsupportedError for what the other format cannot hold; what ``load`` and ``save``
    raise.
    """
    kind = kind_of_name(dst)
    call = Call(args, kwargs, dynamic_shapes)
    if kind == PTE:
        _require(map_location is None, "map_location", "programs of ExecuTorch run on the CPU")
        source = source_of(src, call, model=model, policy=policy)
        return _prepared(source, dst, data, backends, step)
    _require(data is None and not backends, "data and backends", "only .pte files have them")
    if is_program(src):
        return _from_programs(src, dst, kind, call)
    options = _Options(call, model, policy, map_location, step)
    return _from_archive(cast("str | os.PathLike[str]", src), dst, kind, options)


@dataclass(frozen=True, slots=True)
class _Options:
    call: Call
    model: str | None
    policy: Policy | None
    map_location: str | torch.device | None
    step: Callable[[str], None]


def _from_archive(
    src: str | os.PathLike[str], dst: str | os.PathLike[str], kind: str, options: _Options
) -> Conversion:
    _require_zip(src)
    call, model, step = options.call, options.model, options.step
    if kind == PT2 and model is None and options.map_location is None:
        model = _any_model(src)
    step(f"loading {os.fspath(src)}")
    module = load(src, policy=options.policy, model=model, map_location=options.map_location)
    source_kind = kind_of(module.tsarchive_classes.container.records)
    exports = kind == PT2 != source_kind
    _check_call(exports, call)
    if exports:
        step("exporting")
        _export(module, dst, call.args or (), call.kwargs, call.dynamic_shapes)
    elif kind == source_kind or source_kind == LEGACY_TORCHSCRIPT:
        step(f"writing {os.fspath(dst)}")
        save(module, dst)
    else:
        step("printing TorchScript code")
        _script(module, dst)
    return Conversion(os.fspath(src), source_kind, os.fspath(dst), kind, os.path.getsize(dst))


def _from_programs(src: Any, dst: str | os.PathLike[str], kind: str, call: Call) -> Conversion:
    """Exported programs as the archive that they are saved as, or as TorchScript."""
    _check_call(False, call)
    if kind == PT2:
        save(src, dst)
    else:
        stream = io.BytesIO()
        save(src, stream)
        stream.seek(0)
        _script(load(stream), dst)
    return Conversion(EXPORTED, EXPORTED, os.fspath(dst), kind, os.path.getsize(dst))


def _require_zip(src: str | os.PathLike[str]) -> None:
    """Raise UnsupportedError for files of ExecuTorch."""
    with open(src, "rb") as file:
        kind = executorch_kind(file.read(HEAD_BYTES))
    if kind is not None:
        raise UnsupportedError(
            f"a .{kind} file is not converted: what it was made from had more in it",
            hint="Convert the archive or program that it was made from",
        )


def _require(holds: bool, names: str, reason: str) -> None:
    if not holds:
        raise CallError(f"{names} cannot be given here: {reason}")


def _prepared(
    source: Source,
    dst: str | os.PathLike[str],
    data: str | os.PathLike[str] | None,
    backends: Sequence[str],
    step: Callable[[str], None],
) -> Conversion:
    from tsarchive.preparing.writing import check, write

    has_data = write(source, dst, data, backends=backends, step=step)
    beside = data if has_data else None
    step("comparing with the runtime")
    agreements = check(source, dst, beside)
    size = os.path.getsize(dst)
    shown = None if beside is None else os.fsdecode(beside)
    return Conversion(source.name, source.kind, os.fspath(dst), PTE, size, shown, agreements)


def kind_of_name(path: str | os.PathLike[str]) -> str:
    """The kind of archive that a file of this name is written as. Raises CallError for others."""
    suffix = os.path.splitext(os.fspath(path))[1]
    kind = _KINDS.get(suffix.lower())
    if kind is None:
        raise CallError(
            f"the name {os.path.basename(os.fspath(path))!r} does not say what to write",
            hint="Names of PT2 archives end in .pt2, those of TorchScript in .pt, .pth or .ts, "
            "those of programs of ExecuTorch in .pte",
        )
    return kind


def _any_model(path: str | os.PathLike[str]) -> str | None:
    """A model of a PT2 archive, with which the others are saved; None for other archives."""
    from tsarchive.pt2.records import Records

    container = Container.open(path)
    try:
        models = Records(container).models if kind_of(container.records) == PT2 else ()
        return next(iter(models), None)
    finally:
        container.close()


def _check_call(exports: bool, call: Call) -> None:
    if exports:
        require_call(call)
    elif call != Call():
        raise CallError(
            "nothing is traced on this way, so it takes no arguments",
            hint="Leave out args, kwargs and dynamic_shapes",
        )


def _export(
    module: ArchiveModule,
    dst: str | os.PathLike[str],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None,
    dynamic_shapes: Any,
) -> None:
    from tsarchive.exporting import to_exported_program

    program = to_exported_program(module, args, kwargs, dynamic_shapes=dynamic_shapes)
    container = module.tsarchive_classes.container
    extras = {
        name.removeprefix(_EXTRA): container.read(name)
        for name in container.records
        if name.startswith(_EXTRA)
    }
    save(program, dst, extra_files=extras)


def _script(module: ArchiveModule, dst: str | os.PathLike[str]) -> None:
    from tsarchive.pt2.scripting import scripted_records

    with not_collecting():
        records = scripted_records(module)
    write_container(dst, records)
