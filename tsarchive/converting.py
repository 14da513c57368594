"""Converting: TorchScript archives to PT2 archives and back, and old layouts to those of today.

Archives also become programs of torch.export, and of ExecuTorch.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast

import torch

from tsarchive.container import Container
from tsarchive.container.opening import open_source
from tsarchive.errors import CallError, UnsupportedError
from tsarchive.formats.base import (
    FileFormat,
    Format,
    LoadOptions,
    OpenedArchive,
    ZipFormat,
    leave_out,
)
from tsarchive.formats.pt2.exporter import exported_program
from tsarchive.formats.pt2.importer import sample_values
from tsarchive.formats.pt2.records import Records
from tsarchive.formats.pt2.tracing import Traced, traced_program
from tsarchive.formats.registry import FORMATS, file_format, format_of, opened_zip, zip_format
from tsarchive.formats.requests import Example, Note, RewrittenCalls, SaveOptions, Written
from tsarchive.formats.torchscript.tensors import given_device
from tsarchive.loading import load, load_opened
from tsarchive.operators.releases import Release, release_named
from tsarchive.policy import Guard, Policy
from tsarchive.remote import is_url, located
from tsarchive.run.modules import ArchiveModule
from tsarchive.saving import format_of_module, save
from tsarchive.steps import no_step

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from tsarchive.executorch_export import Agreement, ExampleCall

_FORWARD: Final = "forward"
_EXPORTED: Final = "exported program"
_NO_BYTECODE: Final = (
    ". Bytecode is not made here: torch's _save_for_lite_interpreter makes it; tsarchive.save "
    "keeps that of a file"
)
_FIXED_SIZES: Final = "the sizes of an exported program are as they were exported"


@dataclass(frozen=True, slots=True)
class Conversion:
    """A conversion: the kind of the archive that was read, and that of the one written.

    ``kind`` and ``source_kind`` are ``torchscript``, ``torchscript-legacy`` (of before torch
    1.3), ``pt2`` or ``pte``, or ``exported program`` where no archive was read; ``nbytes`` is the
    size of the file that was written.

    ``rewritten`` tells of TorchScript which calls were written with other operators, ``left_out``
    which records were not written: the bytecode for phones, where the code is another now.
    ``extra_files_left_out`` are the names of extra files that the new file has not. ``notes`` tell
    what a traced program has of the call that it was traced with, and what it does otherwise.

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
    rewritten: tuple[RewrittenCalls, ...] = ()
    left_out: tuple[str, ...] = ()
    extra_files_left_out: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()


def convert(
    src: str | os.PathLike[str] | ExportedProgram | Mapping[str, ExportedProgram],
    dst: str | os.PathLike[str],
    *,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    specialize: bool = False,
    dequantize: bool = False,
    model: str | None = None,
    policy: Policy | None = None,
    map_location: str | torch.device | None = None,
    data: str | os.PathLike[str] | None = None,
    backends: Sequence[str] = (),
    for_torch: str | None = None,
    canonical: bool = False,
    debug: bool = True,
    step: Callable[[str], None] = no_step,
) -> Conversion:
    """Write the model of one archive, or an exported program, as one of the kind ``dst`` says.

    ``.pt2`` is a PT2 archive, which torch.export loads; ``.pt``, ``.pth`` and ``.ts`` are
    TorchScript, which torch.jit and libtorch load; ``.pte`` is a program of ExecuTorch. The ways:

    * PT2 to TorchScript: the graph of the program is printed as TorchScript code, with its
      checks of arguments, branches and loops. All buffers become attributes that are saved.
    * TorchScript to PT2: torch.export traces one call, of ``args`` and ``kwargs``;
      ``dynamic_shapes``, ``specialize`` and ``dequantize`` are those of
      :func:`to_exported_program`; ``notes`` of the result tell what the program has of the call.
    * PT2 to PT2: archives of earlier torch are written in the layout of today, with all models;
      ``map_location`` moves one alone, the ``model``.
    * TorchScript to TorchScript: a save of what was loaded, with operators that torch has.
      Records that name no others are kept as they are.
    * to ExecuTorch: the executorch package, an optional extra, lowers what torch.export traced of
      TorchScript, or the programs of a PT2 archive, whose models become methods where there are
      several. ``data`` is where constants go instead of into the program, a ``.ptd``;
      ``backends`` (``"xnnpack"``) are delegated to. Initial values of buffers are kept. Each
      method is run for ``args`` and ``kwargs``, or the inputs that its program was exported
      with, by our runner, the runtime, and as it was: the result tells whether they agree.

    TorchScript is written for the newest torch, or the version that ``for_torch`` names, such as
    "2.9": the format version, the operators with their overloads and defaults, and the spelling
    are those that its torch.jit reads. ``rewritten`` of the result tells which calls were written
    otherwise.

    ``canonical`` and ``debug`` are those of ``save``: the canonical form has no extra files of the
    source, and neither it nor a file without ``debug`` says where code came from. They serve as
    well where source and destination are of one kind. Programs of ExecuTorch have no such forms.

    Extra files are kept, but by ExecuTorch, which has none. ``model`` is one of those in a PT2
    archive; ``policy`` and ``map_location`` are those of ``load``; ``step`` is called with what is
    being done. ``dst`` is replaced only when the new file is complete; it may be ``src``. Each may
    be a URL.

    Raises CallError for a ``dst`` of another name and for arguments that the way does not take
    or lacks, and for a version of torch whose operators are not known; UnsupportedError for what
    the other format cannot hold, TargetError for all that the other torch cannot read; what
    ``load`` and ``save`` raise.
    """
    to, beside = located(dst), located(data)
    example = Example(args, kwargs, dynamic_shapes, specialize, dequantize)
    options = SaveOptions({}, debug, canonical)
    with ExitStack() as uploads:
        written = _converted(
            located(src), _to_write(to, uploads), beside and _to_write(beside, uploads),
            example, options, model=model, policy=policy, map_location=map_location,
            backends=backends, for_torch=for_torch, step=step,
        )  # fmt: skip
    shown = os.fsdecode(beside) if beside and written.data is not None else None
    return replace(written, destination=os.fspath(to), data=shown)


def _to_write(place: str | os.PathLike[str], uploads: ExitStack) -> str | os.PathLike[str]:
    """Return where to write what belongs to a place: a file that is uploaded, for a URL."""
    if not is_url(place):
        return place
    from tsarchive.remote.opening import uploaded

    return uploads.enter_context(uploaded(place))


def _converted(
    src: Any,
    dst: str | os.PathLike[str],
    data: str | os.PathLike[str] | None,
    example: Example,
    options: SaveOptions,
    *,
    model: str | None,
    policy: Policy | None,
    map_location: str | torch.device | None,
    backends: Sequence[str],
    for_torch: str | None,
    step: Callable[[str], None],
) -> Conversion:
    destination = _format_of_name(dst)
    release = None if for_torch is None else _release(for_torch)
    _require(
        release is None or destination.has_releases,
        "for_torch",
        "only TorchScript is written for other versions of torch",
    )
    if destination.is_lowered:
        _require(
            not options.canonical, "canonical", "programs of ExecuTorch have no canonical form"
        )
        _require(
            options.debug, "debug", "programs of ExecuTorch have no debug records to leave out"
        )
        _require(
            map_location is None, "map_location", "programs of ExecuTorch run on the CPU alone"
        )
        notes: list[Note] = []
        methods, examples, kind = _methods_of(
            src, example, model=model, policy=policy, told=notes.append
        )
        from tsarchive.executorch_export import check, write

        beside = data if write(methods, dst, data, backends=backends, step=step) else None
        step("comparing with the runtime")
        agreements = check(methods, examples, dst, beside)
        shown = None if beside is None else os.fsdecode(beside)
        done = _conversion(src, kind, dst, destination, Written(notes=tuple(notes)))
        return replace(done, data=shown, agreements=agreements)
    _require(data is None, "data", "only programs of ExecuTorch (.pte) have data beside them")
    _require(not backends, "backends", "only programs of ExecuTorch (.pte) have parts for backends")
    if _is_program(src):
        return _from_programs(src, dst, destination, example, release, options)
    guard = Guard() if policy is None else Guard(policy)
    loading = LoadOptions(given_device(map_location), guard, model)
    path = cast("str | os.PathLike[str]", src)
    return _from_archive(path, dst, destination, loading, example, step, release, options)


def _from_archive(
    src: str | os.PathLike[str],
    dst: str | os.PathLike[str],
    destination: Format,
    loading: LoadOptions,
    example: Example,
    step: Callable[[str], None],
    release: Release | None,
    options: SaveOptions,
) -> Conversion:
    opened, source = _opened_archive(src)
    extra_files = [*OpenedArchive(opened, source).extra_files]
    is_saved = source.saved_kind == destination.kind
    if is_saved and loading.model is None and loading.device is None:
        # With any of the models, all others are saved.
        loading = loading._replace(model=next(iter(source.models(opened)), None))
    step(f"loading {os.fspath(src)}")
    module = load_opened(opened, loading)
    _check_example(example, is_traced=destination.has_programs and not source.has_programs)
    written = Written()
    if is_saved and not destination.has_releases:
        step(f"writing {os.fspath(dst)}")
        destination.save(module, dst, options)
    else:
        step(f"writing {os.fspath(dst)}" if is_saved else destination.conversion)
        written = destination.convert(module, source, dst, example, release, options)
    kept = _extra_files(dst) if extra_files else ()
    left_out = tuple(name for name in extra_files if name not in kept)
    done = _conversion(src, source.kind, dst, destination, written)
    return replace(done, extra_files_left_out=left_out)


def _extra_files(path: str | os.PathLike[str]) -> Sequence[str]:
    opened, found = _opened_archive(path)
    with closing(opened):
        return [*OpenedArchive(opened, found).extra_files]


def _from_programs(
    src: Any,
    dst: str | os.PathLike[str],
    destination: Format,
    example: Example,
    release: Release | None,
    options: SaveOptions,
) -> Conversion:
    """Exported programs as the archive that they are saved as, or as TorchScript."""
    _check_example(example, is_traced=False)
    written = Written()
    if destination.holds(src):
        destination.save(src, dst, options)
    else:
        stream = io.BytesIO()
        save(src, stream)
        stream.seek(0)
        loaded = load(stream)
        own = format_of_module(loaded)
        written = destination.convert(loaded, own, dst, example, release, options)
    return _conversion(src, _EXPORTED, dst, destination, written)


def _conversion(
    src: Any,
    source_kind: str,
    dst: str | os.PathLike[str],
    destination: Format,
    written: Written | None = None,
) -> Conversion:
    source = _EXPORTED if source_kind == _EXPORTED else os.fspath(src)
    size = os.path.getsize(dst)
    path = os.fspath(dst)
    kinds = source_kind, path, destination.kind
    return Conversion(source, *kinds, size, **(written or Written())._asdict())


def _release(for_torch: Any) -> Release:
    if not isinstance(for_torch, str):
        given = f"the {type(for_torch).__name__} {for_torch!r}"
        raise CallError(f'for_torch is a string, such as "1.13", not {given}')
    return release_named(for_torch)


def _require(holds: bool, argument: str, reason: str) -> None:
    if not holds:
        raise CallError(reason, hint=leave_out(argument))


def _format_of_name(path: str | os.PathLike[str]) -> Format:
    """Return the format that a file of this name is written in. Raises CallError for others."""
    suffix = os.path.splitext(os.fspath(path))[1].lower()
    found = next((each for each in FORMATS if suffix in each.suffixes), None)
    if found is None:
        raise CallError(
            f"the name {os.path.basename(os.fspath(path))!r} does not say what to write",
            hint="Names of PT2 archives end in .pt2, those of TorchScript in .pt, .pth or .ts, "
            "those of programs of ExecuTorch in .pte" + (_NO_BYTECODE if suffix == ".ptl" else ""),
        )
    return found


def _check_example(example: Example, *, is_traced: bool) -> None:
    if is_traced and not example.is_given:
        raise CallError(
            "torch.export traces a call, so TorchScript is converted with example arguments",
            hint="Give them as args and kwargs",
        )
    if not is_traced and example != Example():
        raise CallError(
            "nothing is traced on this way, so it takes no arguments",
            hint="Leave out args, kwargs and dynamic_shapes",
        )


def _is_program(value: Any) -> bool:
    """Return whether the value is a program of torch.export, or several by name."""
    if isinstance(value, Mapping):
        return bool(value) and all(map(_is_program, value.values()))
    return isinstance(value, torch.export.ExportedProgram)


def _methods_of(
    src: Any,
    call: Example,
    *,
    model: str | None,
    policy: Policy | None,
    told: Callable[[Note], object],
) -> tuple[Mapping[str, ExportedProgram], Mapping[str, ExampleCall], str]:
    """Return programs by method, example arguments of those that have any, and the kind of source.

    They are the given programs, those of a PT2 archive, or what torch.export traces of TorchScript.
    Several models of a PT2 archive become methods of their names, unless ``model`` selects one.
    Raises CallError for missing or surplus arguments, and what ``load`` raises.
    """
    if _is_program(src):
        methods = dict(src) if isinstance(src, Mapping) else {_FORWARD: src}
        _require(call.dynamic_shapes is None, "dynamic_shapes", _FIXED_SIZES)
        return methods, _examples(methods, call), _EXPORTED
    opened, found = _opened_archive(src)
    options = LoadOptions(None, Guard() if policy is None else Guard(policy), model)
    if found.has_programs:
        _require(call.dynamic_shapes is None, "dynamic_shapes", _FIXED_SIZES)
        methods, samples = _models(opened, options)
    else:
        _check_example(call, is_traced=True)
        module = load_opened(opened, options)
        methods, samples = {_FORWARD: _told(traced_program(module, call), told)}, {}
    return methods, _examples(methods, call) if call.is_given else samples, found.kind


def _opened_archive(src: str | os.PathLike[str]) -> tuple[Container, ZipFormat]:
    """Open a file to convert; return its format, too. Raises UnsupportedError for ExecuTorch."""
    source = open_source(src)
    source.fetch_all()
    own = file_format(source)
    if own is not None:
        source.close()
        raise UnsupportedError(
            f"a .{own.kind} file is not converted: what it was made from had more in it",
            hint="Convert the archive or program that it was made from",
        )
    container = opened_zip(source)
    return container, zip_format(container.records)


def _models(
    opened: Container, options: LoadOptions
) -> tuple[dict[str, ExportedProgram], dict[str, ExampleCall]]:
    methods: dict[str, ExportedProgram] = {}
    samples: dict[str, ExampleCall] = {}
    records = Records(opened)
    # Loading reports an unknown ``model``.
    names = records.models if options.model is None else [options.model]
    for name in names:
        method = name if len(names) > 1 else _FORWARD
        methods[method] = exported_program(load_opened(opened, options._replace(model=name)))
        found = sample_values(records, name)
        if found is not None:
            samples[method] = found
    return methods, samples


def _examples(methods: Mapping[str, ExportedProgram], call: Example) -> dict[str, ExampleCall]:
    """Return the given arguments, for a single method; else those that programs have."""
    if call.is_given:
        if len(methods) > 1:
            raise CallError("there are several methods, and arguments of one call")
        return {name: (call.args or (), call.kwargs or {}) for name in methods}
    return {
        name: program.example_inputs for name, program in methods.items() if program.example_inputs
    }


def to_exported_program(
    module: ArchiveModule | str | os.PathLike[str],
    example_inputs: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    specialize: bool = False,
    dequantize: bool = False,
    policy: Policy | None = None,
    told: Callable[[Note], object] = lambda note: None,
) -> ExportedProgram:
    """Export the ``forward`` of a loaded module, or of the archive at a path, by torch.export.

    ``example_inputs`` and ``kwargs`` are arguments of one call, which decide what is traced: the
    branches that these arguments take, in the mode (train or eval) that the module is in.
    ``dynamic_shapes`` says which sizes stay open, as for torch.export.export; all others become
    constants. The keys of the state_dict are those of the module, which is left as it was.
    ``policy`` is that of ``load``, for a path.

    With ``specialize``, values of tensors decide branches, loops and sizes as they do in this call,
    which is made once on a copy of the module. The program asserts each decision, so it raises a
    RuntimeError where another call would be decided otherwise.

    Quantized tensors become their integers, and operators on them those of
    ``quantized_decomposed`` and of floats, as in torch.ao's reference modules: results can be one
    step of their scale from those of torch's kernels. Weights that were packed are buffers of the
    program. A quantized argument is given as its ``int_repr()``, and a result is that of the
    quantized tensor. With ``dequantize`` all of these are floats, and nothing is rounded.

    ``told`` is called with a :class:`Note` for each thing that the program has of the call, or does
    otherwise: arguments that are constants, decisions, quantized values.

    Raises CallError for arguments that ``forward`` does not take; UnsupportedError where
    torch.export cannot follow the code, such as a branch on the values of a tensor, with the place
    in the code, and what stopped it as the cause; what ``load`` raises for a path.
    """
    if isinstance(module, str | os.PathLike):
        module = load(module, policy=policy)
    if not isinstance(module, ArchiveModule):
        raise CallError(
            f"a {type(module).__name__} is neither a loaded module nor a path",
            hint="torch.export.export takes modules that are written in Python",
        )
    if isinstance(format_of(module.tsarchive_classes.container), FileFormat):
        raise UnsupportedError("a program of ExecuTorch is no longer what torch.export knows")
    example = Example(example_inputs, kwargs, dynamic_shapes, specialize, dequantize)
    return _told(traced_program(module, example), told)


def _told(traced: Traced, told: Callable[[Note], object]) -> ExportedProgram:
    """Return a traced program, and tell its notes."""
    for note in traced.notes:
        told(note)
    return traced.program
