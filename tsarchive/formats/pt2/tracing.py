"""Loaded modules as programs of torch.export, traced from one call of ``forward``."""

from __future__ import annotations

import copy
import inspect
import io
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from itertools import chain
from typing import Any, Final, NamedTuple

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree

from tsarchive.errors import ArchiveError, CallError, UnsupportedError
from tsarchive.formats.requests import Example, Note
from tsarchive.run.calls_from_python import Signature
from tsarchive.run.exporting.affine import Affine, Floats, Form, Integers
from tsarchive.run.exporting.branches import Branching
from tsarchive.run.exporting.decisions import Recording, Replaying
from tsarchive.run.exporting.packed import standing_for, standing_in, unmarked
from tsarchive.run.exporting.quantized import Quantization
from tsarchive.run.exporting.state import (
    following_state,
    keeping_attributes,
    keeping_tensors,
    watching,
)
from tsarchive.run.exporting.watching import storage_of
from tsarchive.run.modules import ArchiveModule
from tsarchive.run.operators import exporting
from tsarchive.run.tracebacks import origin_of_error, place_of_error, with_user_lines

from .metadata import user_line, without_runner


class Traced(NamedTuple):
    """A program, and what it has of the call that it was traced with."""

    program: ExportedProgram
    notes: tuple[Note, ...]


def traced_program(module: ArchiveModule, example: Example) -> Traced:
    """Return the program of one call of ``forward``. Raises CallError and UnsupportedError as
    :func:`tsarchive.to_exported_program` says."""
    keywords = dict(example.kwargs or {})
    arguments = _checked(module, () if example.args is None else example.args, keywords)
    try:
        return _traced(module, arguments, keywords, example)
    except ArchiveError:
        raise
    except Exception as error:  # torch.export raises errors of many unrelated classes
        raise _refusal(module, error, is_specialized=example.specialize) from error


def _traced(
    module: ArchiveModule, arguments: tuple[Any, ...], keywords: dict[str, Any], example: Example
) -> Traced:
    form: Form = Floats() if example.dequantize else Integers()
    quantization = Quantization(form)
    deciding: Branching | Replaying
    if example.specialize:
        deciding = Replaying(_recorded(module, arguments, keywords, form))
    else:
        deciding = Branching(module)
    flow = deciding if isinstance(deciding, Branching) else None
    given, named = standing_for((arguments, keywords), form)
    with (
        exporting(deciding, quantization, flow=flow),
        keeping_attributes(module),
        standing_in(module, form, (given, named)) as stand,
        watching(module) as assigned,
        keeping_tensors(module),
        following_state(module),
        _finishing(module, deciding),
        _without_dump(),
    ):
        program = torch.export.export(
            module, given, named or None, dynamic_shapes=example.dynamic_shapes, strict=False
        )
    program.example_inputs = unmarked(program.example_inputs)
    _check_text(module, program)
    _drop_empty_regions(program.graph_module)
    _tell_user_lines(program)
    _check_memory(program)
    notes = [*_argument_notes(module, arguments, keywords, form)]
    notes += _quantized_notes(quantization, stand.results)
    notes += [_lost(name) for name in assigned]
    notes += _decision_notes(deciding)
    return Traced(program, tuple(notes))


@contextmanager
def _finishing(module: ArchiveModule, deciding: Branching | Replaying) -> Iterator[None]:
    """Let what decides finish the result of the call."""
    hook = module.register_forward_hook(deciding.finish)
    try:
        yield
    finally:
        hook.remove()


@contextmanager
def _without_dump() -> Iterator[None]:
    """Keep back the graph that torch.export prints of a trace that fails: the error names the
    line. All else that is written to stderr comes through at the end."""
    dump = ""
    written = io.StringIO()
    try:
        with redirect_stderr(written):
            yield
    except Exception as error:
        graph = getattr(error, "partial_fx_graph", None)
        dump = "" if graph is None else f"{graph}\n"
        raise
    finally:
        sys.stderr.write(written.getvalue().replace(dump, ""))


def _drop_empty_regions(module: GraphModule) -> None:
    """Drop regions with or without gradients in which nothing runs: torch.export.load fails on
    them."""
    for node in [*module.graph.nodes]:
        if node.target is not torch.ops.higher_order.wrap_with_set_grad_enabled or node.users:
            continue
        region = node.args[1]
        inner: Any = module.get_submodule(region.target)
        if all(each.op in ("placeholder", "output") for each in inner.graph.nodes):
            module.graph.erase_node(node)
            module.graph.erase_node(region)
            module.delete_submodule(region.target)
    module.recompile()


def _tell_user_lines(program: ExportedProgram) -> None:
    """Let nodes tell lines of the user's source, known only as long as the module is loaded."""
    graphs = (each for each in program.graph_module.modules() if isinstance(each, GraphModule))
    for node in chain.from_iterable(graph.graph.nodes for graph in graphs):
        stack = node.meta.get("stack_trace")
        if stack:
            node.meta["stack_trace"] = with_user_lines(without_runner(stack))


def _check_text(module: ArchiveModule, program: ExportedProgram) -> None:
    """Raise UnsupportedError for a program that torch cannot run: its code is text to torch.fx."""
    try:
        program.module()
    except SyntaxError as error:
        raise UnsupportedError(
            f"torch.export cannot run what it traced of {type(module).__name__}: {error.msg}",
            hint="Names of tensors and strings among the arguments become Python code there: "
            "rename what is a keyword, and leave out quotes and line breaks",
        ) from error


def _check_memory(program: ExportedProgram) -> None:
    """Raise UnsupportedError for a write to memory that a parameter or buffer shares with a
    constant: programs have these apart."""
    shared = _sharing_inputs(program)
    for node in program.graph.nodes if shared else ():
        if _writes(node) and _base_of(node).name in shared:
            line = user_line(node.meta.get("stack_trace") or "")
            where = "" if line is None else f" at {line.location}"
            raise UnsupportedError(
                f"torch.export cannot export the write{where}: the tensor is an attribute, and a "
                "parameter or buffer as well, and a program has them apart",
                hint="Let the attribute be a buffer, or give it a memory of its own",
            )


def _sharing_inputs(program: ExportedProgram) -> set[str]:
    """The names of inputs for parameters, buffers and constants on the same memory."""
    signature = program.graph_signature
    constants = signature.inputs_to_lifted_tensor_constants
    state = signature.inputs_to_parameters | signature.inputs_to_buffers
    values = {**program.constants, **program.state_dict}
    tensors = [(key, values.get(name)) for key, name in (state | constants).items()]
    memory = {key: storage_of(value) for key, value in tensors if isinstance(value, torch.Tensor)}
    shared = {memory.get(key) for key in state} & {memory.get(key) for key in constants}
    return {key for key, value in memory.items() if value in shared}


def _writes(node: Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.is_mutable


def _base_of(node: Node) -> Node:
    """The input of a program that an operator writes to, itself or by way of views."""
    while node.op == "call_function" and node.args and isinstance(node.args[0], Node):
        node = node.args[0]
    return node


def _recorded(
    module: ArchiveModule, arguments: tuple[Any, ...], keywords: dict[str, Any], form: Form
) -> Recording:
    """Call a copy of the module with copies of the arguments; return what decided."""
    recording = Recording()
    copies = pytree.tree_map_only(
        torch.Tensor, lambda tensor: tensor.detach().clone(), (arguments, keywords)
    )
    given, named = standing_for(copies, form)
    copied = copy.deepcopy(module)
    layers = (recording, Quantization(form))
    with exporting(*layers), standing_in(copied, form, (given, named)), torch.random.fork_rng():
        copied(*given, **named)
    return recording


def _argument_notes(
    module: ArchiveModule, arguments: tuple[Any, ...], keywords: Mapping[str, Any], form: Form
) -> Iterator[Note]:
    """Tell of arguments whose values the program has, and of quantized ones.

    torch.export checks the values of all that are not None, and takes any value for these.
    """
    forward: Any = module.forward
    bound = inspect.signature(forward).bind(*arguments, **keywords).arguments
    for path, value in pytree.tree_flatten_with_path(dict(bound))[0]:
        first: Any = path[0]
        name = f"{first.key}{pytree.keystr(path[1:])}"
        if not isinstance(value, torch.Tensor):
            text = f"{name} is {value!r}"
            if value is None:
                text += ", and any other value is taken as None"
            yield Note("argument", text, is_checked=value is not None)
        elif value.is_quantized:
            yield _taken_apart(name, Affine.of(value), form)


def _decision_notes(deciding: Branching | Replaying) -> Iterator[Note]:
    """Tell what values of tensors decide in the program, and of bools that they tell."""
    if isinstance(deciding, Replaying):
        yield from (Note("decision", str(found), found.place) for found in deciding.decisions)
        return
    for message, place in deciding.assertions:
        yield Note("decision", f"the code does not raise {message!r}", place)
    for position in deciding.bools:
        text = f"result {position} is a tensor that holds the bool"
        yield Note("result", text, is_checked=False)


def _lost(name: str) -> Note:
    text = f"calls assign {name}, and calls of the program leave it as it is"
    return Note("state", text, is_checked=False)


def _quantized_notes(
    quantization: Quantization, results: Sequence[Affine | None]
) -> Iterator[Note]:
    """Tell of operators on quantized values, and of results that are quantized."""
    form = quantization.form
    if quantization.operators:
        shown = ", ".join(quantization.operators)
        yield Note("quantized", f"{form.accuracy}: {shown}", is_checked=False)
    for position, affine in enumerate(results):
        if affine is not None:
            yield _taken_apart(f"result {position}", affine, form)


def _taken_apart(name: str, affine: Affine, form: Form) -> Note:
    text = f"{name} is {form.word} of a quantized tensor, {affine}"
    return Note("quantized", text, is_checked=False)


_OF_DATA: Final = ("data-dependent", "DataDependent", "Could not extract specialized")
_FIXED: Final = re.compile(
    r"marked (\w+) as dynamic but your code specialized it to be a constant \((\d+)\)"
)
_BEYOND_RANGE: Final = "in the specified range satisfy the generated guard"
_ABOUT_LOGS: Final = " For more information, run with TORCH_LOGS"
_OF_CLASS: Final = "register_fake_class"
_OF_GRADIENTS: Final = "fake tensor in the exported program constant's list"


def _refusal(module: ArchiveModule, error: Exception, *, is_specialized: bool) -> UnsupportedError:
    """Return the error for a module that torch.export cannot trace."""
    told = _first_lines(error)
    place = place_of_error(error)
    where = "" if place is None else f" at {place}".removesuffix(":")
    refusal = UnsupportedError(
        f"torch.export cannot export {type(module).__name__}{where}: {told}",
        hint=_hint(told, is_specialized=is_specialized),
    )
    origin = origin_of_error(error)
    refusal.origin = None if origin is None else str(origin)
    return refusal


def _hint(told: str, *, is_specialized: bool) -> str:
    """Return what can be done where torch.export fails with a message."""
    if not is_specialized and any(word in told for word in _OF_DATA):
        return (
            "The values of tensors decide here: with the argument specialize, the program "
            "is that of the example, and asserts what they decide"
        )
    if _OF_CLASS in told:
        return (
            "Register a class of Python with the methods that the code calls, by "
            "torch._library.register_fake_class, and export again in the same process"
        )
    if _OF_GRADIENTS in told:
        return (
            "A forward that takes gradients by torch.autograd.grad can have no form in a program: "
            "take them outside of it, in the model that the archive was made from"
        )
    fixed = _FIXED.search(told)
    if fixed is not None:
        return _hint_on_size(*fixed.groups())
    if _BEYOND_RANGE in told:
        return "Narrow the range of the size in the argument dynamic_shapes"
    return "The traceback of its cause names the line of code"


def _hint_on_size(name: str, size: str) -> str:
    """Return what can be done where a size is to stay open that the code fixes."""
    if int(size) < _LEAST_OPEN:
        return f"Sizes that stay open, such as {name}, need examples of {_LEAST_OPEN} or more"
    return (
        f"Leave {name} out of the argument dynamic_shapes: the code fixes it at {size}. So do LSTM "
        "and GRU with the number of steps, which torch.export unrolls"
    )


_LEAST_OPEN: Final = 2
"""Tracers take sizes of 0 and 1 for what they are."""


def _checked(
    module: ArchiveModule, inputs: Sequence[Any], keywords: Mapping[str, Any]
) -> tuple[Any, ...]:
    """Return the arguments of the example call. Raises CallError where they are none."""
    if not isinstance(inputs, tuple | list):
        raise CallError(
            f"args is a {type(inputs).__name__}, not a tuple of arguments",
            hint="Pass (x,) for a forward that takes x",
        )
    forward: Any = module.forward
    try:
        inspect.signature(forward).bind(*inputs, **keywords)
    except TypeError as error:
        raise CallError(f"forward{inspect.signature(forward)}: {error}") from None
    _check_types(module, inputs, keywords)
    return tuple(inputs)


def _check_types(module: ArchiveModule, inputs: Sequence[Any], keywords: Mapping[str, Any]) -> None:
    """Raise CallError for values of other types than ``forward`` takes, before tracers wrap
    them."""
    archived = module.tsarchive_class.methods.get("forward")
    if archived is not None:
        compiler = module.tsarchive_classes.compiler
        signature = Signature("forward", archived.schema, compiler, is_method=True)
        signature.bind(inputs, dict(keywords))


def _first_lines(error: Exception) -> str:
    """Return what an error says first: a line, and what it announces, which is the next one after
    a colon, or a list of reasons."""
    name = type(error).__name__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return name
    first = " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]
    said = first.partition(_ABOUT_LOGS)[0].rstrip(".!")
    reasons = [line[2:].partition(". ")[0] for line in lines[1:] if line.startswith("- ")]
    return f"{name}: {': '.join([said, '; '.join(reasons)] if reasons else [said])}"
