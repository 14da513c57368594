"""Converting: TorchScript archives to PT2 archives and back, and old layouts to those of today.

Archives also become programs of torch.export and of ExecuTorch, ONNX files, and weights as
safetensors.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import torch

from tsarchive.container import Container
from tsarchive.container.opening import open_source
from tsarchive.describing.text import plural
from tsarchive.errors import CallError, UnsupportedError
from tsarchive.formats.base import (
    FileFormat,
    Format,
    LoadOptions,
    OpenedArchive,
    ZipFormat,
    leave_out,
)
from tsarchive.formats.destinations import ONNX, SAFETENSORS, Destination, destination_of
from tsarchive.formats.pt2.exporter import exported_program
from tsarchive.formats.pt2.importer import sample_values
from tsarchive.formats.pt2.records import Records
from tsarchive.formats.pt2.tracing import Traced, traced_program
from tsarchive.formats.registry import (
    FORMATS,
    file_format,
    format_of,
    opened_file,
    opened_zip,
    zip_format,
)
from tsarchive.formats.requests import Example, Note, RewrittenCalls, SaveOptions, Written
from tsarchive.formats.torchscript.tensors import given_device
from tsarchive.loading import load, load_opened
from tsarchive.operators.releases import Release, release_named
from tsarchive.policy import Guard, Policy
from tsarchive.remote import is_url, located
from tsarchive.renaming import renamed, renamed_fields
from tsarchive.reports import Report
from tsarchive.run.modules import ArchiveModule
from tsarchive.saving import format_of_module, save
from tsarchive.steps import Step, no_step

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from tsarchive.executorch_export import Agreement
    from tsarchive.lowering import ExampleCall
    from tsarchive.onnx_export import OnnxAgreement

_FORWARD: Final = "forward"
_EXPORTED: Final = "exported program"
_NO_BYTECODE: Final = (
    ". Bytecode is not made here: torch's _save_for_lite_interpreter makes it; tsarchive.save "
    "keeps that of a file"
)
_UNCHECKED: Final = (
    "it asserts no decisions: a call that would be decided otherwise gives wrong results"
)
_FIXED_SIZES: Final = "the sizes of an exported program are as they were exported"


@renamed_fields(source="file", destination="out", source_kind="file_kind")
@dataclass(frozen=True, slots=True, repr=False)
class Conversion(Report):
    """A conversion: the kind of the archive that was read, and that of the one written.

    ``kind`` and ``file_kind`` are ``torchscript``, ``torchscript-legacy`` (of before torch
    1.3), ``pt2`` or ``pte``, or ``exported program`` where no archive was read; ``kind`` may be
    ``onnx`` or ``safetensors`` as well. ``nbytes`` is the size of the file that was written.

    ``rewritten`` tells of TorchScript which calls were written with other operators, ``left_out``
    which records were not written: the bytecode for phones, where the code is another now.
    ``extra_files_left_out`` are the names of extra files that the new file has not. ``notes`` tell
    what a traced program has of the call that it was traced with, what it does otherwise, and what
    the new file does not have as the source has it.

    ``data`` is the file that was written beside it: constants of a program of ExecuTorch, large
    weights of an ONNX file, the structure that belongs to weights. ``agreements`` tell of each
    method with an example call whether the runtime, the source and, for ExecuTorch, our runner
    give the same. ``opset`` is the version of the operators of an ONNX file.

        >>> done = tsarchive.convert("net.pt", "net.safetensors")
        >>> done.kind, done.extra_files_left_out
        ('safetensors', ('labels.txt',))
    """

    _COLUMNS = "note", "text", "place"

    file: str
    file_kind: str
    out: str
    kind: str
    nbytes: int
    data: str | None = None
    agreements: tuple[Agreement | OnnxAgreement, ...] = ()
    rewritten: tuple[RewrittenCalls, ...] = ()
    left_out: tuple[str, ...] = ()
    extra_files_left_out: tuple[str, ...] = ()
    opset: int | None = None
    notes: tuple[Note, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether all methods that were run give the same before and after."""
        return all(found.ok for found in self.agreements)

    def _headline(self) -> str:
        return f"{self.out}: {self.kind}, {plural(self.nbytes, 'byte')}"

    def _rows(self) -> Sequence[Sequence[object]]:
        return [(note.kind, note.text, note.place) for note in self.notes]


@renamed(src="f", dst="out")
def convert(
    f: str | os.PathLike[str] | ExportedProgram | Mapping[str, ExportedProgram],
    out: str | os.PathLike[str],
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
    opset: int | None = None,
    canonical: bool = False,
    debug: bool = True,
    step: Step | None = None,
) -> Conversion:
    """Write the model of one archive, or an exported program, as one of the kind ``out`` says.

    ``.pt2`` is a PT2 archive, which torch.export loads; ``.pt``, ``.pth`` and ``.ts`` are
    TorchScript, which torch.jit and libtorch load; ``.pte`` is a program of ExecuTorch, ``.onnx``
    an ONNX file, ``.safetensors`` the weights alone. The ways:

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
    * to ONNX: torch.onnx translates what torch.export traced of TorchScript, or one program, with
      the operators of ``opset``; packages of the extra ``onnx`` do the work. Open sizes have the
      names of their ``torch.export.Dim``. Weights of more than 1.5 GiB go to a file beside it,
      ``.onnx.data``. onnxruntime runs it for ``args`` and ``kwargs``, the inputs that the program
      was exported with, or random ones, and for other sizes where they are open: the result tells
      whether its results are those of the program, and the file is written in any case.
    * to safetensors: every tensor by its name, from archives of any kind, programs of ExecuTorch
      among them, and beside it a ``.json`` with modules, signatures, constants, attributes and
      tensors, of which it tells which are one. Nothing of the archive runs.

    Files of Core ML, TensorRT, OpenVINO and LiteRT are written by their own tools: the error for
    such a name tells the command.

    TorchScript is written for the newest torch, or the version that ``for_torch`` names, such as
    "2.9": the format version, the operators with their overloads and defaults, and the spelling
    are those that its torch.jit reads. ``rewritten`` of the result tells which calls were written
    otherwise.

    ``canonical`` and ``debug`` are those of ``save``: the canonical form has no extra files of the
    source, and neither it nor a file without ``debug`` says where code came from. They serve as
    well where source and destination are of one kind. Programs of ExecuTorch have no such forms.

    Extra files are kept, but by ExecuTorch, ONNX and safetensors, which have none. ``model`` is
    one of those in a PT2 archive; ``policy`` and ``map_location`` are those of ``load``; ``step``
    is called with what is being done. ``out`` is replaced only when the new file is complete, and
    the file beside it with it; it may be ``f``. Each may be a URL.

    Raises CallError for a ``out`` of another name and for arguments that the way does not take
    or lacks, for packages that are not installed, and for a version of torch whose operators are
    not known; UnsupportedError for what the other format cannot hold, by operator and line of the
    user's source where they are known; TargetError for all that the other torch cannot read; what
    ``load`` and ``save`` raise.

        >>> tsarchive.convert("net.pt", "net.pt2", args=(x,)).kind
        'pt2'
        >>> torch.equal(torch.export.load("net.pt2").module()(x), net(x))
        True
    """
    step = step or no_step
    to, beside = located(out), located(data)
    request = _Request(
        Example(args, kwargs, dynamic_shapes, specialize, dequantize),
        SaveOptions({}, debug, canonical), model, policy, map_location, tuple(backends), for_torch,
        opset, step,
    )  # fmt: skip
    other = destination_of(os.fspath(to))
    if other is not None:
        request.require_taken(other, data)
        beside = other.path_beside(os.fspath(to))
    with ExitStack() as uploads:
        paths = _to_write(to, uploads), beside and _to_write(beside, uploads)
        if other is None:
            written = _converted(located(f), *paths, request)
        else:
            written = _written_as(other, located(f), *paths, request)
    shown = os.fsdecode(beside) if beside and written.data is not None else None
    return replace(written, out=os.fspath(to), data=shown)


@dataclass(frozen=True, slots=True)
class _Request:
    """The arguments of ``convert`` that say how."""

    example: Example
    options: SaveOptions
    model: str | None
    policy: Policy | None
    map_location: str | torch.device | None
    backends: tuple[str, ...]
    for_torch: str | None
    opset: int | None
    step: Callable[[str], None]

    def require_taken(self, other: Destination, data: object) -> None:
        """Raise CallError for an argument that files of another kind do not take."""
        given = {
            "args": self.example.args is not None,
            "kwargs": self.example.kwargs is not None,
            "dynamic_shapes": self.example.dynamic_shapes is not None,
            "specialize": self.example.specialize,
            "dequantize": self.example.dequantize,
            "model": self.model is not None,
            "policy": self.policy is not None,
            "map_location": self.map_location is not None,
            "data": data is not None,
            "backends": bool(self.backends),
            "for_torch": self.for_torch is not None,
            "opset": self.opset is not None,
            "canonical": self.options.canonical,
            "debug": not self.options.debug,
        }
        for argument in (name for name, is_given in given.items() if is_given):
            other.require(argument)


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
    request: _Request,
) -> Conversion:
    destination = _format_of_name(dst)
    for_torch, options = request.for_torch, request.options
    release = None if for_torch is None else _release(for_torch)
    _require(
        release is None or destination.has_releases,
        "for_torch",
        "only TorchScript is written for other versions of torch",
    )
    _require(request.opset is None, "opset", "only ONNX files have an opset")
    if destination.is_lowered:
        return _to_executorch(src, dst, data, destination, request)
    _require(data is None, "data", "only programs of ExecuTorch (.pte) have data beside them")
    _require(
        not request.backends,
        "backends",
        "only programs of ExecuTorch (.pte) have parts for backends",
    )
    if _is_program(src):
        return _from_programs(src, dst, destination, request.example, release, options)
    guard = Guard() if request.policy is None else Guard(request.policy)
    loading = LoadOptions(given_device(request.map_location), guard, request.model)
    path = cast("str | os.PathLike[str]", src)
    return _from_archive(
        path, dst, destination, loading, request.example, request.step, release, options
    )


def _to_executorch(
    src: Any,
    dst: str | os.PathLike[str],
    data: str | os.PathLike[str] | None,
    destination: Format,
    request: _Request,
) -> Conversion:
    options, step = request.options, request.step
    _require(not options.canonical, "canonical", "programs of ExecuTorch have no canonical form")
    _require(options.debug, "debug", "programs of ExecuTorch have no debug records to leave out")
    _require(
        request.map_location is None,
        "map_location",
        "programs of ExecuTorch run on the CPU alone",
    )
    methods, examples, kind, extras, notes = _methods_of(src, request)
    from tsarchive.executorch_export import check, write

    beside = data if write(methods, dst, data, backends=request.backends, step=step) else None
    step("comparing with the runtime")
    agreements = check(methods, examples, dst, beside)
    shown = None if beside is None else os.fsdecode(beside)
    done = _conversion(src, kind, dst, destination.kind)
    return replace(
        done, data=shown, agreements=agreements, extra_files_left_out=extras,
        notes=_lowered_notes(notes),
    )  # fmt: skip


def _written_as(
    other: Destination,
    src: Any,
    dst: str | os.PathLike[str],
    beside: str | os.PathLike[str] | None,
    request: _Request,
) -> Conversion:
    """Write a model as what is no archive, with a file beside it."""
    assert beside is not None
    way = {ONNX.kind: _to_onnx, SAFETENSORS.kind: _to_safetensors}[other.kind]
    return way(src, dst, beside, request)


def _to_onnx(
    src: Any, dst: str | os.PathLike[str], data: str | os.PathLike[str], request: _Request
) -> Conversion:
    from tsarchive.onnx_export import write

    methods, examples, kind, extras, told = _methods_of(src, request)
    if len(methods) > 1:
        raise CallError(
            f"an ONNX file holds one model, and there are several: {', '.join(methods)}",
            hint="Choose one with the argument model, or give one program",
        )
    ((name, program),) = methods.items()
    example = request.example
    done = write(
        program, examples.get(name), dst, data, is_stored=not example.is_given,
        opset=request.opset, dynamic_shapes=example.dynamic_shapes, step=request.step,
    )  # fmt: skip
    # What is checked has become no input, which the notes of the file say.
    kept = (note for note in told if note.kind != "argument" or not note.is_checked)
    notes = (*_lowered_notes(kept), *_file_notes(done.notes))
    return replace(
        _conversion(src, kind, dst, ONNX.kind), data=os.fsdecode(data) if done.has_data else None,
        opset=done.opset, agreements=done.agreements, notes=notes,
        extra_files_left_out=extras,
    )  # fmt: skip


def _to_safetensors(
    src: Any, dst: str | os.PathLike[str], structure: str | os.PathLike[str], request: _Request
) -> Conversion:
    from tsarchive.weights_export import write

    source, is_program = src, _is_program(src)
    if is_program:
        source = io.BytesIO()
        save(src, source)
        source.seek(0)
    opened = opened_file(source, whole=True)
    with closing(opened):
        found = format_of(opened)
        notes = write(opened, found, dst, structure, model=request.model, step=request.step)
        extras = tuple(OpenedArchive(opened, found).extra_files)
    kind = _EXPORTED if is_program else found.kind
    done = _conversion(src, kind, dst, SAFETENSORS.kind)
    return replace(
        done,
        data=os.fsdecode(structure),
        notes=_file_notes(notes),
        extra_files_left_out=extras,
    )


def _file_notes(sentences: Iterable[str]) -> tuple[Note, ...]:
    return tuple(Note("file", sentence) for sentence in sentences)


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
    done = _conversion(src, source.kind, dst, destination.kind, written)
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
    return _conversion(src, _EXPORTED, dst, destination.kind, written)


def _conversion(
    src: Any,
    file_kind: str,
    dst: str | os.PathLike[str],
    kind: str,
    written: Written | None = None,
) -> Conversion:
    source = _EXPORTED if file_kind == _EXPORTED else os.fspath(src)
    size = os.path.getsize(dst)
    path = os.fspath(dst)
    kinds = file_kind, path, kind
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
            "those of programs of ExecuTorch in .pte, of ONNX files in .onnx, of weights in "
            ".safetensors" + (_NO_BYTECODE if suffix == ".ptl" else ""),
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


class _Programs(NamedTuple):
    """Programs by method, example arguments of those that have any, the kind of the source, the
    names of its extra files, and what was told of tracing, or what the programs assert."""

    methods: Mapping[str, ExportedProgram]
    examples: Mapping[str, ExampleCall]
    kind: str
    extra_files: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()


def _methods_of(src: Any, request: _Request) -> _Programs:
    """Return the programs to lower.

    They are the given programs, those of a PT2 archive, or what torch.export traces of TorchScript.
    Several models of a PT2 archive become methods of their names, unless ``model`` selects one.
    Raises CallError for missing or surplus arguments, and what ``load`` raises.
    """
    call = request.example
    if _is_program(src):
        methods = dict(src) if isinstance(src, Mapping) else {_FORWARD: src}
        _require(call.dynamic_shapes is None, "dynamic_shapes", _FIXED_SIZES)
        return _Programs(
            methods, _examples(methods, call), _EXPORTED, notes=_assertions(methods.values())
        )
    opened, found = _opened_archive(src)
    guard = Guard() if request.policy is None else Guard(request.policy)
    options = LoadOptions(given_device("cpu"), guard, request.model)
    if found.has_programs:
        _require(call.dynamic_shapes is None, "dynamic_shapes", _FIXED_SIZES)
        methods, samples = _models(opened, options)
        notes = _assertions(methods.values())
    else:
        _check_example(call, is_traced=True)
        module = load_opened(opened, options)
        program, notes = traced_program(module, call)
        methods, samples = {_FORWARD: program}, {}
    examples = _examples(methods, call) if call.is_given else samples
    extra_files = tuple(OpenedArchive(opened, found).extra_files)
    return _Programs(methods, examples, found.kind, extra_files, notes)


def _assertions(programs: Iterable[ExportedProgram]) -> tuple[Note, ...]:
    from tsarchive.lowering import assertions_of

    messages = (text for each in programs for text in assertions_of(each))
    return tuple(Note("decision", f"the program asserts {text!r}") for text in messages)


def _lowered_notes(notes: Iterable[Note]) -> tuple[Note, ...]:
    """Return notes of a program as a file for another runtime has them, which asserts nothing."""
    found = tuple(
        replace(note, is_checked=note.is_checked and note.kind != "decision") for note in notes
    )
    if any(note.kind == "decision" for note in found):
        found += (Note("file", _UNCHECKED, is_checked=False),)
    return found


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


@renamed(example_inputs="args")
def to_exported_program(
    module: ArchiveModule | str | os.PathLike[str],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    specialize: bool = False,
    dequantize: bool = False,
    policy: Policy | None = None,
    told: Callable[[Note], object] | None = None,
) -> ExportedProgram:
    """Export the ``forward`` of a loaded module, or of the archive at a path, by torch.export.

    ``args`` and ``kwargs`` are arguments of one call, which decide what is traced: the
    branches that these arguments take, in the mode (train or eval) that the module is in. Branches
    and loops that values of tensors decide become torch.cond and while_loop of the program.
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
    torch.export cannot follow the code, such as a branch on the values of a tensor whose sides do
    not fit each other, with the place in the code, and what stopped it as the cause; what ``load``
    raises for a path.

        >>> program = tsarchive.to_exported_program(net, (x,))
        >>> torch.equal(program.module()(x), net(x))
        True
    """
    told = told or no_step
    if isinstance(module, str | os.PathLike):
        module = load(module, policy=policy)
    if not isinstance(module, ArchiveModule):
        raise CallError(
            f"a {type(module).__name__} is neither a loaded module nor a path",
            hint="torch.export.export takes modules that are written in Python",
        )
    if isinstance(format_of(module.tsarchive_classes.container), FileFormat):
        raise UnsupportedError("a program of ExecuTorch is no longer what torch.export knows")
    example = Example(args, kwargs, dynamic_shapes, specialize, dequantize)
    return _told(traced_program(module, example), told)


def _told(traced: Traced, told: Callable[[Note], object]) -> ExportedProgram:
    """Return a traced program, and tell its notes."""
    for note in traced.notes:
        told(note)
    return traced.program
