"""Operators and classes bound from C++ that calls in archive code can reach in this process.

An operator runs as a native Python function where there is one, else through ``torch.ops``.
"""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

import torch
from torch._C import _len_torch_dispatch_stack
from torch._ops import _len_torch_dispatch_stack_pre_dispatch
from torch.utils._python_dispatch import _disable_current_modes

from tsarchive.errors import ArchiveError, UnknownOperatorError, UnsupportedError
from tsarchive.ir.classes import ClassType
from tsarchive.ir.types import Type, VarType
from tsarchive.operators.overloads import builtins_of, parsed, with_methods

from .checks import registered_schemas
from .guards import guarded
from .packed import checked_state

if TYPE_CHECKING:
    from tsarchive.ir.graph import Node
    from tsarchive.ir.schema import FunctionSchema

F = TypeVar("F", bound=Callable[..., Any])


def called_by_tracers(function: F) -> F:
    """Let torch.compile call ``function`` itself; the result must be a bool or None."""
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


def assumed(condition: Any) -> Any:
    """The condition; for a symbol of a tracer True, which the tracer then assumes."""
    if not isinstance(condition, torch.SymBool):
        return condition
    check: Any = torch._check
    check(condition)
    return True


sym_not: Any = torch.sym_not


def without_modes() -> AbstractContextManager[Any]:
    """Leave the modes of tracers, and those that look at operators, while constants are read."""
    before: int = _len_torch_dispatch_stack_pre_dispatch()  # type: ignore[no-untyped-call]
    if not (before or _len_torch_dispatch_stack()):
        return nullcontext()  # torch imports all its modes to find out
    return _disable_current_modes()


Implementation = Callable[..., Any]
Layer = Callable[..., Any]

# XNNPACK trusts shapes, and torch 2.13 left its layers out: ours run with every torch.
_PACKED_LAYERS: Final = "prepacked::"
_NATIVE_CLASS_NAME = r"__torch__\.torch\.classes(\.[A-Za-z_][A-Za-z_0-9]*){2,}"
_known: dict[str, tuple[tuple[Any, ...], tuple[FunctionSchema, ...]]] = {}
_native_classes: dict[str, ClassType] = {}


def operator_schemas(name: str) -> tuple[FunctionSchema, ...]:
    """Every overload of ``name`` ("aten::add"): torch's registry first, in its order.

    Behind them stand the functions that TorchScript itself defines under that name. Empty when
    the process knows no such operator; one that is registered later is found later, and one that
    is registered anew is read anew.
    """
    registered = () if name.startswith(_PACKED_LAYERS) else registered_schemas(name)
    known = _known.get(name)
    if known is not None and known[0] is registered:
        return known[1]
    found = (*(parsed(str(schema), native_class) for schema in registered), *builtins_of(name))
    if found:
        _known[name] = registered, found
    return found


def runs_here(name: str) -> bool:
    """Return whether this process has an operator, or has functions that stand for it."""
    from tsarchive.operators.removed import removed

    return bool(operator_schemas(name)) or any(entry.upgrader for entry in removed(name))


def has_class(qualified_name: str) -> bool:
    """Return the same for a class bound from C++."""
    from tsarchive.operators.removed import defined_classes

    return qualified_name in defined_classes() or native_class(qualified_name) is not None


def schema_without_text(node: Node) -> FunctionSchema:
    """The schema of a node of variable arguments, such as prim::Print."""
    for schema in operator_schemas(node.kind):
        if schema.is_vararg:
            return schema
    raise UnknownOperatorError.of(node.kind, f"no operator fits a node of kind {node.kind}")


def implementation(schema: FunctionSchema) -> Implementation:
    """The function that runs an operator.

    It takes arguments by position up to the first keyword-only one, those by name. Raises
    UnknownOperatorError when this process has no such operator.
    """
    run = find_native(schema)
    return registered(schema) if run is None else guarded(schema, run)


def registered(schema: FunctionSchema) -> Implementation:
    """The function that runs an operator that is no native one."""
    run = _registered(schema)
    if type(run) is torch._ops.OpOverload:
        run = run.op  # the function of C++ that it calls with all that it is given
    return guarded(schema, run)


def traceable(schema: FunctionSchema) -> Implementation:
    """Like ``implementation``, for code that torch.compile or torch.export traces.

    What looks at values of tensors before an operator breaks the graph of torch.compile. Programs
    that torch.export makes are torch's own, and hold no checks.
    """
    run = _unchecked(schema)
    checked = guarded(schema, run)
    if checked is run:
        return run

    def run_traced(*args: Any, **kwargs: Any) -> Any:
        chosen = run if _is_exporting() else checked
        return chosen(*args, **kwargs)

    return run_traced


class _Unset:
    """A value that no path of a valid program reads."""


UNSET: Final = _Unset()
Operands = tuple[Any, ...]
BlockFunction = Callable[..., tuple[Any, ...]]


class ControlFlow(Protocol):
    """What becomes of branches and loops in an export."""

    def choose(self, branch: Branch) -> Operands:
        """Return the results of one side, or of either."""

    def repeat(self, loop: Loop) -> Operands:
        """Return the values that a loop carries at its end."""


class Branch(NamedTuple):
    """A branch of a program. Its sides take the operands, and give results of one length.

    ``raising`` is the condition with which a side always raises an exception, None without one.
    """

    condition: Any
    on_true: BlockFunction
    on_false: BlockFunction
    operands: Operands
    raising: bool | None

    def side(self, condition: bool) -> BlockFunction:
        return self.on_true if condition else self.on_false

    def taken(self) -> Operands:
        """Run the side that the condition selects; for a symbol that which does not raise."""
        condition = self.condition
        if self.raising is not None and isinstance(condition, torch.SymBool):
            holds = sym_not(condition) if self.raising else condition
            condition = assumed(holds) is not self.raising
        return self.side(condition)(*self.operands)


class Loop(NamedTuple):
    """A loop of a program. ``body`` takes the number of the turn, the values that are carried and
    those that stay, and gives the condition of the next turn and the values to carry.

    ``count`` is None where the condition alone ends the loop. ``shows_turn`` tells whether the body
    uses the number.
    """

    count: Any
    condition: Any
    body: BlockFunction
    carried: Operands
    free: Operands
    shows_turn: bool

    def unrolled(self) -> Operands:
        """Run the loop."""
        condition, carried = self.condition, [*self.carried]
        for turn in itertools.count() if self.count is None else range(self.count):
            if not condition:
                break
            condition, *carried = self.body(turn, *carried, *self.free)
        return tuple(carried)


class _Export(threading.local):
    """The layers of the export that this thread makes, None without one, and its control flow,
    None where values of tensors decide nothing."""

    layers: tuple[Layer, ...] | None = None
    flow: ControlFlow | None = None


_export = _Export()


@contextmanager
def exporting(*layers: Layer, flow: ControlFlow | None = None) -> Iterator[None]:
    """Let code of archives that this thread calls run operators through these layers.

    A layer is called with the schema of an operator, the function that runs it, and its arguments.
    The first layer is asked first, and runs the operator by way of the others. ``flow`` is asked at
    branches and loops.
    """
    before = _export.layers, _export.flow
    _export.layers, _export.flow = layers, flow
    try:
        yield
    finally:
        _export.layers, _export.flow = before


def chosen(*branch: Any) -> Operands:
    """The results of a :class:`Branch` of these fields."""
    taken, flow = Branch(*branch), _export.flow
    if flow is None or isinstance(taken.condition, bool):
        return taken.taken()
    return flow.choose(taken)


def repeated(*loop: Any) -> Operands:
    """The values that a :class:`Loop` of these fields carries at its end."""
    run = Loop(*loop)
    return run.unrolled() if _export.flow is None else _export.flow.repeat(run)


@called_by_tracers
def is_exporting() -> bool:
    """Return whether this thread runs operators through layers."""
    return _export.layers is not None


def exportable(schema: FunctionSchema) -> Implementation:
    """Like ``implementation``, for code that runs operators through the layers of an export."""
    run = _unchecked(schema)

    def call(*arguments: Any, **keywords: Any) -> Any:
        if torch.compiler.is_dynamo_compiling():
            return run(*arguments, **keywords)
        chosen = run
        for layer in reversed(_export.layers or ()):
            chosen = partial(layer, schema, chosen)
        return chosen(*arguments, **keywords)

    return call


def _unchecked(schema: FunctionSchema) -> Implementation:
    """Return the function that runs an operator in code that is traced, without checks."""
    from .natives.symbolic_shapes import SYMBOLIC

    return SYMBOLIC.get(schema.full_name) or find_native(schema) or _registered(schema)


def _is_exporting() -> bool:
    """Return whether torch.export traces, which torch itself tells since 2.7."""
    told: Callable[[], bool] | None = getattr(torch.compiler, "is_exporting", None)
    if told is not None:
        return told()
    return torch.compiler.is_compiling() and not torch.compiler.is_dynamo_compiling()


def find_native(schema: FunctionSchema) -> Implementation | None:
    """The Python function for an operator, None when ``torch.ops`` runs it."""
    name = schema.full_name
    builtins, natives = _tables()
    return builtins.get(name) or natives.get(name)


@cache
def _tables() -> tuple[Mapping[str, Implementation], Mapping[str, Implementation]]:
    from .natives import BUILTINS, NATIVES

    return BUILTINS, NATIVES


def _registered(schema: FunctionSchema) -> Implementation:
    if schema.is_vararg or any(_has_variable(argument.type) for argument in schema.arguments):
        reason = "can only run inside torch's own interpreter"
        name = schema.full_name
        raise UnknownOperatorError.of(name, f"the operator {name} {reason}")
    namespace, _, name = schema.name.partition("::")
    try:
        packet = getattr(getattr(torch.ops, namespace), name)
        overload: Implementation = getattr(packet, schema.overload or "default")
    except AttributeError:
        if not operator_schemas(schema.name):
            from tsarchive.operators.libraries import unregistered

            raise unregistered(schema.name) from None
        message = f"this process has no operator {schema.full_name}"
        hint = "Import the library that registers it before loading the archive"
        raise UnknownOperatorError.of(schema.full_name, message, hint=hint) from None
    return overload


def _has_variable(type_: Type) -> bool:
    return isinstance(type_, VarType) or any(map(_has_variable, type_.parts()))


def native_class(qualified_name: str) -> ClassType | None:
    """The class ``__torch__.torch.classes.…`` bound from C++, None when it is not registered.

    Its methods have schemas and no graph.
    """
    found = _native_classes.get(qualified_name)
    if found is not None or not re.fullmatch(_NATIVE_CLASS_NAME, qualified_name):
        return found
    try:
        empty = _empty_object(qualified_name)
    except RuntimeError:
        return None
    found = ClassType(qualified_name, is_native=True)
    # Known before its methods, whose types may name the class, or classes that name it in turn.
    _native_classes[qualified_name] = found
    texts = {name: str(empty._get_method(name).schema) for name in empty._method_names()}
    try:
        return with_methods(
            found,
            (
                parsed(text, native_class)._replace(name=name, overload="")
                for name, text in texts.items()
            ),
        )
    except ArchiveError:
        del _native_classes[qualified_name]
        raise


def native_object(class_: ClassType, state: Any) -> Any:
    """An object of a class bound from C++, made from its pickled state.

    Raises UnsupportedError for a class that cannot be pickled, ScriptError for a state that it
    cannot take.
    """
    if "__setstate__" not in class_.methods:
        raise UnsupportedError(f"{class_.qualified_name} has no __setstate__")
    state = checked_state(class_.qualified_name, state)
    made = _empty_object(class_.qualified_name)
    made._get_method("__setstate__")(state)
    return made


def _empty_object(qualified_name: str) -> Any:
    schema = torch._C.parse_schema(f"f({qualified_name} x) -> ()")
    type_: Any = schema.arguments[0].type
    return torch._C._create_object_with_type(type_)
