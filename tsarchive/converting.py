"""Converting: TorchScript archives to PT2 archives and back, and old layouts to those of today."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from tsarchive.container import Container, write_container
from tsarchive.errors import CallError
from tsarchive.garbage import not_collecting
from tsarchive.kinds import LEGACY_TORCHSCRIPT, PT2, TORCHSCRIPT, kind_of
from tsarchive.loading import load
from tsarchive.policy import Policy
from tsarchive.saving import save

if TYPE_CHECKING:
    import torch

    from tsarchive.run.classes import ArchiveModule

__all__ = ["Conversion", "convert", "kind_of_name"]

_KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {".pt": TORCHSCRIPT, ".pth": TORCHSCRIPT, ".ts": TORCHSCRIPT, ".pt2": PT2}
)
_EXTRA: Final = "extra/"


@dataclass(frozen=True, slots=True)
class Conversion:
    """What was converted: the kind of the archive that was read, that of the one written.

    ``kind`` and ``source_kind`` are ``torchscript``, ``torchscript-legacy`` (of before torch
    1.3) or ``pt2``; ``nbytes`` is the size of the file that was written.
    """

    source: str
    source_kind: str
    destination: str
    kind: str
    nbytes: int


def convert(
    src: str | os.PathLike[str],
    dst: str | os.PathLike[str],
    *,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    model: str | None = None,
    policy: Policy | None = None,
    map_location: str | torch.device | None = None,
    step: Callable[[str], None] = lambda description: None,
) -> Conversion:
    """Write the model of one archive as another, whose kind its name says.

    ``.pt2`` is a PT2 archive, which torch.export loads; ``.pt``, ``.pth`` and ``.ts`` are
    TorchScript, which torch.jit and libtorch load. The four ways:

    * PT2 to TorchScript: the graph of the program is printed as TorchScript code, with its
      checks of arguments, branches and loops. All buffers become attributes that are saved.
    * TorchScript to PT2: torch.export traces one call, of ``args`` and ``kwargs``;
      ``dynamic_shapes`` says which sizes stay open, as for :func:`to_exported_program`.
    * PT2 to PT2: archives of earlier torch are written in the layout of today, with all models;
      ``map_location`` moves one alone, the ``model``.
    * TorchScript to TorchScript: a save of what was loaded.

    Extra files are kept. ``model`` is one of those in a PT2 archive; ``policy`` and
    ``map_location`` are those of ``load``; ``step`` is called with what is being done. ``dst``
    is replaced only when the new file is complete; it may be ``src``.

    Raises CallError for a ``dst`` of another name and for arguments that the way does not take
    or lacks; UnsupportedError for what the other format cannot hold; what ``load`` and ``save``
    raise.
    """
    kind = kind_of_name(dst)
    if kind == PT2 and model is None and map_location is None:
        model = _any_model(src)
    step(f"loading {os.fspath(src)}")
    module = load(src, policy=policy, model=model, map_location=map_location)
    source_kind = kind_of(module.tsarchive_classes.container.records)
    exports = kind == PT2 != source_kind
    _check_arguments(exports, args, kwargs, dynamic_shapes)
    if exports:
        step("exporting")
        _export(module, dst, args or (), kwargs, dynamic_shapes)
    elif kind == source_kind or source_kind == LEGACY_TORCHSCRIPT:
        step(f"writing {os.fspath(dst)}")
        save(module, dst)
    else:
        step("printing TorchScript code")
        _script(module, dst)
    return Conversion(os.fspath(src), source_kind, os.fspath(dst), kind, os.path.getsize(dst))


def kind_of_name(path: str | os.PathLike[str]) -> str:
    """The kind of archive that a file of this name is written as. Raises CallError for others."""
    suffix = os.path.splitext(os.fspath(path))[1]
    kind = _KINDS.get(suffix.lower())
    if kind is None:
        raise CallError(
            f"the name {os.path.basename(os.fspath(path))!r} does not say what to write",
            hint="Names of PT2 archives end in .pt2, those of TorchScript in .pt, .pth or .ts",
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


def _check_arguments(
    exports: bool, args: Sequence[Any] | None, kwargs: Mapping[str, Any] | None, dynamic_shapes: Any
) -> None:
    if exports and args is None and kwargs is None:
        raise CallError(
            "torch.export traces a call, so TorchScript is converted with example arguments",
            hint="Give those of one call as args and kwargs",
        )
    if not exports and (args, kwargs, dynamic_shapes) != (None, None, None):
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
