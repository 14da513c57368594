"""Programs of torch.export as ONNX files, which are run beside their source.

torch.onnx translates the graph, and onnxruntime runs the file. Names are made readable here, what
the file cannot say is told, and the file is what was asked for or is not written.
"""

from __future__ import annotations

import importlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import count
from pathlib import Path
from traceback import walk_tb
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch
from torch._ops import HigherOrderOperator
from torch.export.graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    OutputKind,
    OutputSpec,
)
from torch.fx import Node
from torch.utils._pytree import tree_flatten, tree_flatten_with_path, tree_unflatten

from tsarchive.container.writer import replacing
from tsarchive.errors import CallError, UnsupportedError
from tsarchive.formats.executorch.modules.comparing import Comparison, compare_outputs
from tsarchive.formats.pt2.metadata import user_line
from tsarchive.lowering import (
    ExampleCall,
    call_of_other_sizes,
    copy_of_graph,
    declared_inputs,
    flat_arguments,
    graphs_of,
    quietly,
    random_call,
    refuse_packed_constants,
    source_outputs,
    user_inputs,
    with_core_operators,
)
from tsarchive.steps import no_step

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from tsarchive.ir.source_ranges import Location

_PACKAGES: Final = ("onnx", "onnxscript", "onnxruntime")
# Of weights in the file itself: a message of protobuf ends at 2 GiB.
_MOST_INLINE: Final = 1536 << 20
_COPIED_AT_ONCE: Final = 16 << 20
_ONNX_DOMAIN: Final = ""
_OUTPUT: Final = "output"
# The kernels of onnxruntime add in another order than torch's.
_RELATIVE, _ABSOLUTE = 1e-3, 1e-4
# Of element types with fewer digits: so many units in the last place.
_ULPS: Final = 8
_CHANGED: Final[Mapping[OutputKind, str]] = MappingProxyType(
    {OutputKind.BUFFER_MUTATION: "buffers", OutputKind.USER_INPUT_MUTATION: "arguments"}
)
_QUANTIZED: Final = "quantized_decomposed::"
_BATCH_NORM: Final = "batch_norm"
_OPERATOR_OF: Final = "original_aten"
# How messages of onnxruntime name a node, and where torch.onnx keeps the stack of its source.
_NODE: Final = re.compile(r"node with name '([^']+)'")
_STACK: Final = "pkg.torch.onnx.stack_trace"


@dataclass(frozen=True, slots=True)
class OnnxAgreement:
    """The agreement of onnxruntime with the program that an ONNX file was made from, for one call.

    ``inputs`` are ``given``, ``stored`` with the program, or ``random``; ``is_resized`` says that
    sizes which the program leaves open are others in this call. Elements agree within
    ``absolute_tolerance + relative_tolerance * |expected|``. ``max_difference`` is the largest
    difference of an element, ``relative_difference`` the largest as a part of the largest element
    of its output; None where there are none to compare. ``problem`` says what disagrees, or fails;
    ``has_run`` is False where onnxruntime does not run the file.
    """

    method: str
    inputs: str
    max_difference: float | None
    relative_difference: float | None
    absolute_tolerance: float
    relative_tolerance: float
    problem: str | None
    is_resized: bool = False
    has_run: bool = True

    @property
    def ok(self) -> bool:
        return self.problem is None

    @property
    def summary(self) -> str:
        """The difference in words."""
        apart = f"{self.max_difference or 0.0:.3g}"
        given = f"{self.inputs} inputs{' of other sizes' if self.is_resized else ''}"
        return f"results for {given} are {apart} from those of onnxruntime"


@dataclass(frozen=True, slots=True)
class OnnxFile:
    """What was written: the version of the operators, whether weights went to a file of their own,
    what the program does and the file does not, and the agreement for each call that was
    compared."""

    opset: int
    has_data: bool
    notes: tuple[str, ...]
    agreements: tuple[OnnxAgreement, ...]


def write(
    program: ExportedProgram,
    call: ExampleCall | None,
    dst: str | os.PathLike[str],
    data: str | os.PathLike[str],
    *,
    is_stored: bool = False,
    opset: int | None = None,
    dynamic_shapes: Any = None,
    step: Callable[[str], None] = no_step,
) -> OnnxFile:
    """Translate a program, write it, and compare what onnxruntime gives for a call.

    ``call`` is compared, random arguments without one; ``is_stored`` says that it came with the
    program. ``data`` is where weights go that are too large for one file, and has the name of
    ``dst`` with ``.data`` behind it. ``opset`` is the version of ONNX's operators, by default that
    of torch.onnx. ``dynamic_shapes`` are those that the program was exported with: open sizes have
    the names given there. Either both files are replaced, or none.

    Raises CallError where the packages are not installed, for an opset that ONNX does not have,
    and for arguments that the program does not take; UnsupportedError for a program that has no
    form in ONNX, with the operator and its line; OSError.
    """
    _require_packages()
    _require_translator()
    _check_opset(opset)
    refuse_packed_constants(program)
    step("translating to ONNX")
    source = _Source(program)
    made = _translated(source.graph, opset)
    _rename(made, source, dynamic_shapes)
    with tempfile.TemporaryDirectory(prefix="tsarchive-") as folder:
        path = Path(folder, os.path.basename(os.fspath(dst)))
        has_data = _weight_bytes(made.model) > _MOST_INLINE
        made.save(path, external_data=has_data)
        step("comparing with onnxruntime")
        inputs = "random" if call is None else "stored" if is_stored else "given"
        with torch.random.fork_rng(devices=()):
            agreements, unheld = _compared(source, call, path, inputs)
        step(f"writing {os.fspath(dst)}")
        beside = Path(f"{path}.data")
        _place([(path, dst), *([(beside, data)] if has_data else [])])
    notes = (*source.notes, *_lost_state(made.exported_program), *unheld)
    return OnnxFile(made.model.opset_imports[_ONNX_DOMAIN], has_data, notes, agreements)


def _require_packages() -> None:
    """Raise CallError unless all packages can be imported."""
    for name in _PACKAGES:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise CallError(
                f"ONNX files are made with the packages {', '.join(_PACKAGES)}, and {name} cannot "
                f"be imported: {error}",
                hint='pip install "tsarchive[onnx]"',
            ) from error


def _require_translator() -> None:
    """Raise UnsupportedError for a torch whose translator lacks what is needed here."""
    if not hasattr(torch.onnx.ONNXProgram, "rename_axes"):
        raise UnsupportedError(
            f"the torch.onnx of torch {torch.__version__} does not name open sizes",
            hint="torch 2.13 was tried, and does",
        )


def _check_opset(opset: int | None) -> None:
    import onnx

    newest = onnx.defs.onnx_opset_version()
    if opset is not None and not 1 <= opset <= newest:
        raise CallError(f"ONNX has no opset {opset}", hint=f"The installed onnx has 1 to {newest}")


def _place(files: Iterable[tuple[Path, str | os.PathLike[str]]]) -> None:
    with ExitStack() as streams:
        for written, target in files:
            stream = streams.enter_context(replacing(os.fsdecode(target)))
            with written.open("rb") as content:
                shutil.copyfileobj(content, stream, _COPIED_AT_ONCE)


def _weight_bytes(model: Any) -> int:
    values = model.graph.initializers.values()
    return sum(value.const_value.nbytes for value in values if value.const_value is not None)


# Outputs that are constants, which torch.onnx does not take


class _Output(NamedTuple):
    name: str
    spec: OutputSpec

    @property
    def is_constant(self) -> bool:
        return isinstance(self.spec.arg, ConstantArgument)

    @property
    def note(self) -> str:
        """A sentence on a constant."""
        value = getattr(self.spec.arg, "value", None)
        return f"{self.name} is left out: it is always {value!r}"


class _Source:
    """A program, with the names of its arguments and results; ``graph`` gives tensors alone."""

    def __init__(self, program: ExportedProgram) -> None:
        self.program = with_core_operators(program)
        self.inputs = [
            spec for spec in user_inputs(program) if not isinstance(spec.arg, ConstantArgument)
        ]
        self.outputs = _named_outputs(program, {spec.arg.name for spec in self.inputs})
        self.graph = _with_plain_scales(self._with_tensors_alone())

    @property
    def notes(self) -> Iterator[str]:
        """Sentences on arguments and results that are constants."""
        for spec in user_inputs(self.program):
            if isinstance(spec.arg, ConstantArgument) and spec.arg.value is not None:
                yield f"the argument {spec.arg.name} is no input: it is always {spec.arg.value!r}"
        yield from (output.note for output in self.outputs if output.is_constant)

    def _with_tensors_alone(self) -> ExportedProgram:
        program = self.program
        if self.outputs and not any(output.is_constant for output in self.outputs):
            return program
        if not self.outputs:
            raise UnsupportedError(
                "the program has no results, and a program of ONNX has to have some",
                hint="Let forward return a tensor; a .pt2 archive holds the program as it is",
            )
        if all(output.is_constant for output in self.outputs):
            raise UnsupportedError(
                "all results of the program are constants, and ONNX has tensors alone",
                hint="A .pt2 archive holds such results",
            )
        signature = program.graph_signature
        kept = [
            not isinstance(spec.arg, ConstantArgument) or spec.kind is not OutputKind.USER_OUTPUT
            for spec in signature.output_specs
        ]
        module = copy_of_graph(program.graph_module)
        node = module.graph.output_node()
        node.args = (_kept(node.args[0], kept),)
        module.recompile()
        specs = list(_kept(signature.output_specs, kept))
        made = program._update(module, ExportGraphSignature(signature.input_specs, specs))
        made._module_call_graph = _with_flat_results(program, self._number_of_tensors)
        return made

    @property
    def _number_of_tensors(self) -> int:
        return sum(not output.is_constant for output in self.outputs)


# Quantization by scales that are tensors, which torch.onnx does not translate


def _with_plain_scales(program: ExportedProgram) -> ExportedProgram:
    """Return the program with numbers as scales where these are constants, and arithmetic where
    they are not.

    It is the program itself where it has no scale that is a tensor.
    """
    forms = _arithmetic()
    nodes = [n for each in graphs_of(program.graph_module) for n in each.graph.nodes]
    if not any(node.target in forms for node in nodes):
        return program
    module = copy_of_graph(program.graph_module)
    constants = _constant_placeholders(program)
    for node in module.graph.nodes:
        names = [getattr(each, "name", "") for each in node.args[1:3]]
        if node.target in _with_numbers() and constants.keys() >= set(names):
            node.target = _with_numbers()[node.target]
            node.args = (node.args[0], *(constants[name].item() for name in names), *node.args[3:])
    module.recompile()
    made: ExportedProgram = program._update(module, program.graph_signature)
    decomposed: ExportedProgram = made.run_decompositions(forms)
    return decomposed


def _constant_placeholders(program: ExportedProgram) -> dict[str, torch.Tensor]:
    """Return the single numbers that a program has as parameters, buffers and constants, by node.

    Buffers that it changes are none.
    """
    signature = program.graph_signature
    changed = signature.buffers_to_mutate.values()
    known = {**program.state_dict, **program.constants}
    found = {
        spec.arg.name: known.get(spec.target or "")
        for spec in signature.input_specs
        if spec.target not in changed
    }
    return {
        name: value
        for name, value in found.items()
        if isinstance(value, torch.Tensor) and value.numel() == 1
    }


@cache
def _with_numbers() -> dict[Any, Any]:
    quantized = _quantized_operators()
    return {
        quantized.quantize_per_tensor.tensor: quantized.quantize_per_tensor.default,
        quantized.dequantize_per_tensor.tensor: quantized.dequantize_per_tensor.default,
    }


@cache
def _arithmetic() -> dict[Any, Callable[..., Any]]:
    quantized = _quantized_operators()
    return {
        quantized.quantize_per_tensor.tensor: _quantize,
        quantized.dequantize_per_tensor.tensor: _dequantize,
        quantized.choose_qparams.tensor: _choose_scale,
    }


def _quantized_operators() -> Any:
    importlib.import_module("torch.ao.quantization.fx._decomposed")  # which registers them
    return torch.ops.quantized_decomposed


def _quantize(
    tensor: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor,
    least: int,
    most: int,
    dtype: torch.dtype,
) -> torch.Tensor:
    steps = torch.round(tensor * (1.0 / scale)) + zero_point
    return steps.clamp(least, most).to(dtype)


def _dequantize(
    tensor: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor,
    _least: int,
    _most: int,
    _dtype: torch.dtype,
    *,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    dtype = out_dtype or torch.float32
    return (tensor.to(dtype) - zero_point) * scale


def _choose_scale(
    tensor: torch.Tensor, least: int, most: int, eps: float, _dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return scale and zero point by which the numbers of a tensor, and 0, are in range."""
    low, high = tensor.min().clamp(max=0.0), tensor.max().clamp(min=0.0)
    scale = ((high - low) / (most - least)).clamp(min=eps)
    zero_point = (least - torch.round(low / scale)).clamp(least, most)
    return scale.to(torch.float64), zero_point.to(torch.int64)


def _kept(items: Any, kept: Sequence[bool]) -> tuple[Any, ...]:
    return tuple(item for item, is_kept in zip(items, kept, strict=True) if is_kept)


def _with_flat_results(program: ExportedProgram, number: int) -> list[Any]:
    """Return the calls of a program's modules, whose first gives a tuple of so many results."""
    (first, *others) = program.module_call_graph
    assert first.signature is not None
    _, structure = tree_flatten((*range(number),))
    return [replace(first, signature=replace(first.signature, out_spec=structure)), *others]


def _named_outputs(program: ExportedProgram, taken: set[str]) -> list[_Output]:
    """Return the results of a program, in order, under the names of keys that lead to them.

    A result without a key is ``output``, with its positions behind it; names that inputs have are
    changed.
    """
    specs = program.graph_signature.output_specs
    results = [spec for spec in specs if spec.kind is OutputKind.USER_OUTPUT]
    structure = program.call_spec.out_spec
    places, _ = tree_flatten_with_path(tree_unflatten([*range(len(results))], structure))
    found = []
    for (path, _), spec in zip(places, results, strict=True):
        name = _free(_name_at(path), taken)
        taken = taken | {name}
        found.append(_Output(name, spec))
    return found


def _name_at(path: Sequence[Any]) -> str:
    keys = [str(getattr(key, "key", getattr(key, "idx", key))) for key in path]
    name = re.sub(r"\W", "_", "_".join(keys))
    return name if name[:1].isalpha() else "_".join(filter(None, [_OUTPUT, name]))


def _free(name: str, taken: Iterable[str]) -> str:
    """Return a name, with a number behind it where it is taken."""
    numbered = (f"{name}_{number}" for number in count(1))
    return name if name not in taken else next(free for free in numbered if free not in taken)


# Names


def _rename(made: Any, source: _Source, dynamic_shapes: Any) -> None:
    """Give inputs, outputs and open sizes of a translation the names that people know."""
    graph = made.model.graph
    names = [spec.arg.name for spec in source.inputs]
    names += [output.name for output in source.outputs if not output.is_constant]
    wanted = dict(zip([*graph.inputs, *graph.outputs], names, strict=True))
    known = [*_values(graph)]
    taken = {value.name for value in known} | set(names)
    for value in known:
        if value in wanted or value.name in names:
            value.name = _free(f"{value.name}_value", taken)
            taken.add(value.name)
    for value, name in wanted.items():
        value.name = name
    made.rename_axes(_names_of_sizes(source.program, dynamic_shapes))


def _values(graph: Any) -> Iterator[Any]:
    """Yield every value of a graph and of the graphs inside it, once."""
    from onnx_ir.traversal import RecursiveGraphIterator

    nodes = [*RecursiveGraphIterator(graph)]
    found: dict[int, Any] = {}
    for inner in {id(graph): graph, **{id(node.graph): node.graph for node in nodes}}.values():
        found |= {id(value): value for value in (*inner.inputs, *inner.initializers.values())}
    found |= {id(value): value for node in nodes for value in node.outputs}
    yield from found.values()


def _names_of_sizes(program: ExportedProgram, dynamic_shapes: Any) -> dict[str, str]:
    """Return the name of each open size by its symbol: the one given, or that of its place.

    The first name of a size counts.
    """
    declared = declared_inputs(program)
    names: dict[str, str] = {}
    for spec, value in zip(user_inputs(program), declared, strict=True):
        for place, symbol in _open_sizes(value):
            names.setdefault(symbol, f"{spec.arg.name}_dim_{place}")
    args, kwargs = tree_unflatten(declared, program.call_spec.in_spec)
    arguments: Any = [*args, *kwargs.values()]
    if isinstance(dynamic_shapes, Mapping):
        arguments = dict(zip(_argument_names(program), arguments, strict=True))
    given: dict[str, str] = {}
    for symbol, name in _given_names(arguments, dynamic_shapes):
        given.setdefault(symbol, name)
    return names | given


def _argument_names(program: ExportedProgram) -> list[str]:
    signature = program.module_call_graph[0].signature
    return list(signature.forward_arg_names or ()) if signature is not None else []


def _open_sizes(value: Any) -> Iterator[tuple[int, str]]:
    """Yield the dimensions of a tensor whose size is a symbol, and the symbol."""
    for place, size in enumerate(getattr(value, "shape", ())):
        if isinstance(size, torch.SymInt) and size.node.expr.is_symbol:
            yield place, str(size)


def _given_names(value: Any, shapes: Any) -> Iterator[tuple[str, str]]:
    """Yield symbols of sizes and the names that ``dynamic_shapes`` of torch.export has for them."""
    if not shapes:
        return
    if isinstance(value, torch.Tensor):
        sizes = shapes if isinstance(shapes, Mapping) else dict(enumerate(shapes))
        for place, symbol in _open_sizes(value):
            name = getattr(sizes.get(place), "__name__", None)
            if name is not None:
                yield symbol, name
        return
    pairs = [(value[key], shapes.get(key)) for key in value] if isinstance(value, Mapping) else []
    for item, inner in pairs or zip(value, shapes, strict=True):
        yield from _given_names(item, inner)


# Translation


def _translated(program: ExportedProgram, opset: int | None) -> Any:
    with quietly():
        try:
            made = torch.onnx.export(program, dynamo=True, opset_version=opset, verbose=False)
        except Exception as error:  # torch.onnx raises errors of many unrelated classes
            raise _refusal(error, program) from error
    assert made is not None
    written = made.model.opset_imports[_ONNX_DOMAIN]
    if opset is not None and written != opset:
        raise UnsupportedError(
            f"the program cannot be said with the operators of opset {opset}",
            hint=f"With those of opset {written} it can",
        )
    return made


def _refusal(error: Exception, program: ExportedProgram) -> UnsupportedError:
    """Return the error for what torch.onnx cannot translate, with the operator and its line."""
    node = _failing_node(error)
    reason = str(_first_cause(error)).strip().partition("\n")[0].rstrip(".")
    hint = "Another opset may have it; a .pt2 archive holds the program as it is"
    if any(isinstance(each.target, HigherOrderOperator) for each in program.graph.nodes):
        hint = (
            "With the argument specialize, the program is that of the example, without branches "
            "and loops; a .pt2 archive holds it as it is"
        )
    if node is None:
        return UnsupportedError(f"torch.onnx cannot translate the program: {reason}", hint=hint)
    location = _location(node.meta.get("stack_trace"))
    called = f"{_operator_text(node)}{_where(location)}"
    if _operator_name(node.target).startswith(_QUANTIZED):
        hint = "With the argument dequantize, quantized weights and values are floats"
    refusal = UnsupportedError(f"torch.onnx cannot translate {called} ({reason})", hint=hint)
    refusal.origin = None if location is None else str(location)
    return refusal


def _location(stack: str | None) -> Location | None:
    """Return the line of the source in the text of a stack; None where that is not recorded."""
    range_ = user_line(stack or "")
    location = None if range_ is None else range_.location
    if location is None or location.text != location.filename:
        return location
    return location._replace(text="")  # the name stands for a text that is not recorded


def _where(location: Location | None) -> str:
    return "" if location is None else f", called at {location}"


def _operator_text(node: Node) -> str:
    """Return the operator that the source calls, and the one in it that a node stands for."""
    name, original = _operator_name(node.target), node.meta.get(_OPERATOR_OF)
    whole = name if original is None else _operator_name(original)
    return name if whole == name else f"{whole} ({name} in it)"


def _operator_name(target: Any) -> str:
    schema = getattr(target, "_schema", None)
    return str(target) if schema is None else schema.name


def _first_cause(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _failing_node(error: BaseException | None) -> Node | None:
    """Return the node that torch.onnx was translating when an error was raised, if any.

    Its errors tell the text of the node alone, so the frames of the traceback are asked. Those of
    causes are nearer to the node, and the last of each.
    """
    if error is None:
        return None
    found = _failing_node(error.__cause__)
    if found is not None:
        return found
    nodes = [frame.f_locals.get("node") for frame, _ in walk_tb(error.__traceback__)]
    calls = (each for each in nodes if isinstance(each, Node) and each.op == "call_function")
    return next(reversed([*calls]), None)


def _lost_state(program: ExportedProgram) -> Iterator[str]:
    """Yield sentences on what calls of a program change, and those of an ONNX model do not."""
    changed: dict[OutputKind, list[str]] = {}
    for spec in program.graph_signature.output_specs:
        changed.setdefault(spec.kind, []).append(spec.target or "")
    for kind, what in _CHANGED.items():
        if kind in changed:
            names = ", ".join(changed[kind])
            yield f"calls do not change {what}, as those of the source do: {names}"


# Comparison


def _compared(
    source: _Source, call: ExampleCall | None, path: Path, inputs: str
) -> tuple[tuple[OnnxAgreement, ...], list[str]]:
    """Return how a file agrees with its source, or why they were not compared."""
    given = random_call(source.program) if call is None else call
    try:
        expected = source_outputs(source.program, given)
        random = _random_operator(source.program, given, expected)
    except Exception as error:  # whatever code of the model raises
        reason = str(error).strip().partition("\n")[0]
        if inputs == "given":
            raise CallError(f"the program does not take these arguments: {reason}") from error
        why = f"the program does not take {inputs} arguments ({reason})"
        return (), [f"results were not compared: {why}; give the inputs of a call"]
    if random is not None:
        return (), [f"results were not compared: {random} gives random numbers"]
    lacking = _dtype_without_numpy([*flat_arguments(source.program, given), *expected])
    if lacking is not None:
        return (), [f"results were not compared: onnxruntime takes and gives no {lacking} here"]
    first = _agreement(source, path, given, expected, inputs)
    return (first, *_with_other_sizes(source, path, given, inputs)), []


def _dtype_without_numpy(values: Iterable[Any]) -> torch.dtype | None:
    """Return the dtype of a tensor that NumPy lacks, through which onnxruntime takes them."""
    for dtype in {value.dtype for value in values if isinstance(value, torch.Tensor)}:
        try:
            torch.empty(0, dtype=dtype).numpy()
        except TypeError:
            return dtype
    return None


def _with_other_sizes(
    source: _Source, path: Path, call: ExampleCall, inputs: str
) -> Iterator[OnnxAgreement]:
    """Yield how the file agrees for other sizes: they must not be those of the call for good.

    Sizes that the program does not take are not compared, as when one has to be a multiple.
    """
    other = call_of_other_sizes(source.program, call)
    if other is None:
        return
    try:
        expected = source_outputs(source.program, other)
    except Exception:  # whatever code of the model raises
        return
    yield replace(_agreement(source, path, other, expected, inputs), is_resized=True)


def _random_operator(
    program: ExportedProgram, call: ExampleCall, outputs: Sequence[Any]
) -> str | None:
    """Return the operator that lets two calls give other results, None where they are the same."""
    drawing = [
        _operator_name(node.target)
        for graph in graphs_of(program.graph_module)
        for node in graph.graph.nodes
        if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
    ]
    if not drawing:
        return None
    torch.seed()
    again = source_outputs(program, call)
    return None if compare_outputs(again, outputs, rtol=0, atol=0).problem is None else drawing[0]


def _feeds(source: _Source, call: ExampleCall) -> dict[str, Any]:
    """Return the arguments of a call as onnxruntime takes them, by the names of inputs."""
    given = zip(user_inputs(source.program), flat_arguments(source.program, call), strict=True)
    return {
        spec.arg.name: _real(torch.as_tensor(value)).numpy(force=True)
        for spec, value in given
        if not isinstance(spec.arg, ConstantArgument)
    }


def _real(tensor: torch.Tensor) -> torch.Tensor:
    """Return complex numbers as pairs, which they are in ONNX."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def _agreement(
    source: _Source, path: Path, call: ExampleCall, outputs: Sequence[Any], inputs: str
) -> OnnxAgreement:
    """Return how a file agrees with the outputs of its source for a call."""
    named = zip(outputs, source.outputs, strict=True)
    expected = [output for output, place in named if not place.is_constant]
    rtol = _relative_tolerance(expected)
    feeds = _feeds(source, call)
    try:
        found = _run(path, feeds)
    except Exception as error:  # onnxruntime raises errors of many unrelated classes
        failure = f"onnxruntime: {str(error).strip().partition(chr(10))[0]}"
        failure += _where(_location_of_node(path, failure))
        return OnnxAgreement(
            "forward", inputs, None, None, _ABSOLUTE, rtol, failure, has_run=False
        )  # fmt: skip
    wanted = [
        _real(value) if isinstance(value, torch.Tensor) else torch.tensor(value, dtype=like.dtype)
        for value, like in zip(expected, found, strict=True)
    ]
    outcome = _within(wanted, rtol, found)
    problem = outcome.problem
    if problem is not None and _normalizes_in_training(source.program):
        problem += (
            ", since ONNX has batch normalization as in evaluation, and the module is in training: "
            "call eval() before it is saved"
        )
    elif problem is not None:
        problem += _if_optimized(path, feeds, partial(_within, wanted, rtol))
    return OnnxAgreement(
        "forward", inputs, outcome.max_difference, outcome.relative_difference,
        _ABSOLUTE, rtol, problem,
    )  # fmt: skip


def _within(wanted: Sequence[Any], rtol: float, found: Sequence[Any]) -> Comparison:
    return compare_outputs(found, wanted, rtol=rtol, atol=_ABSOLUTE)


def _if_optimized(
    path: Path, feeds: Mapping[str, Any], compared: Callable[[list[torch.Tensor]], Comparison]
) -> str:
    """Return what a message adds where results agree as long as onnxruntime optimizes nothing."""
    if compared(_run(path, feeds, is_optimized=False)).problem is not None:
        return ""
    return (
        ", and agrees where onnxruntime optimizes nothing: it fuses operators, and fused ones "
        "round otherwise, mostly of quantized layers"
    )


def _location_of_node(path: Path, message: str) -> Location | None:
    """Return the line of the source of the node of a file that a message names, if it names one."""
    import onnx

    named = _NODE.search(message)
    if named is None:
        return None
    nodes = onnx.load(path, load_external_data=False).graph.node
    stacks = (
        entry.value
        for node in nodes
        for entry in node.metadata_props
        if node.name == named[1] and entry.key == _STACK
    )
    return _location(next(stacks, None))


def _normalizes_in_training(program: ExportedProgram) -> bool:
    """Return whether batch normalization updates the statistics that it has for evaluation."""
    return any(map(_updates_statistics, program.graph.nodes))


def _updates_statistics(node: Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    if schema is None or _BATCH_NORM not in schema.name:
        return False
    names = (argument.name for argument in schema.arguments)
    given = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    is_training = given.get("training", given.get("train", False))
    return is_training is True and given.get("running_mean") is not None


def _run(path: Path, feeds: Mapping[str, Any], *, is_optimized: bool = True) -> list[torch.Tensor]:
    import numpy
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors alone: it would print warnings
    if not is_optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    providers = ["CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(os.fspath(path), options, providers=providers)
    return [torch.from_numpy(numpy.asarray(output)) for output in session.run(None, dict(feeds))]


def _relative_tolerance(expected: Iterable[Any]) -> float:
    dtypes = {value.dtype for value in expected if isinstance(value, torch.Tensor)}
    epsilons = [torch.finfo(dtype).eps for dtype in dtypes if dtype.is_floating_point]
    return max(_RELATIVE, _ULPS * max(epsilons, default=0.0))
