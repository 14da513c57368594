"""Calls from Python into archive code: binding of arguments, conversion in and out.

The conversions are torch's: ints for floats, tensors of one element and numpy scalars for
numbers, dtypes for their numbers, any iterable for a list or tuple. Lists, dicts and tuples are
copied on the way in and out, so neither side sees what the other does to them.
"""

from __future__ import annotations

import functools
import inspect
import keyword
import sys
from collections.abc import Callable, Container, Sequence
from types import MethodType
from typing import Any, Final

import torch
from torch.compiler import is_compiling

from tsarchive.errors import ArchiveError, CallError, ScriptError
from tsarchive.ir.classes import ClassType, Function
from tsarchive.ir.names import to_identifier
from tsarchive.ir.schema import FunctionSchema
from tsarchive.ir.types import annotation

from .compiler import Compiler, TracedFunction
from .conversion import Mismatch, changes_on_export, export
from .foreign import is_foreign
from .modules import internal_call, is_internal_call
from .natives.table import fault
from .operators import called_by_tracers, is_exporting
from .own_objects import may_hold_shared, own_value
from .tracebacks import is_of_operator, with_origins

# Messages of Python's syntax in generated code, and torch's words for them.
_AS_TORCH: Final = {"list assignment index out of range": "list index out of range"}


class _Missing:
    """Marks a missing argument or default; a class, because tracers compare those by identity."""


class Signature:
    """The parameters of a function as Python callers see them, ``self`` left out."""

    def __init__(
        self, name: str, schema: FunctionSchema, compiler: Compiler, *, is_method: bool
    ) -> None:
        linkage = compiler.linkage
        self.name = name
        self.is_method = is_method
        self.arguments = schema.arguments[1:] if is_method else schema.arguments
        self._converters = [linkage.table.converter(argument.type) for argument in self.arguments]
        self._defaults = [
            linkage.objects.value(argument.default) if argument.has_default else _Missing
            for argument in self.arguments
        ]
        self._returned = _Annotation(annotation(schema.return_type))
        self._positions = {argument.name: i for i, argument in enumerate(self.arguments)}

    def bind(self, given: Sequence[Any], keywords: dict[str, Any]) -> list[Any]:
        """The arguments in order, converted.

        Raises CallError for missing, surplus and unknown arguments and for values of other types.
        """
        if keywords or len(given) != len(self.arguments):
            given = self._in_order(given, keywords)
        return [
            self._convert(position, value) if value is not _Missing else self._default(position)
            for position, value in enumerate(given)
        ]

    def _in_order(self, given: Sequence[Any], keywords: dict[str, Any]) -> Sequence[Any]:
        if len(given) > len(self.arguments):
            wanted = f"{self.name}() takes {len(self.arguments)} arguments"
            raise CallError(f"{wanted}, {len(given)} were given")
        found = [*given, *(_Missing for _ in self.arguments[len(given) :])]
        for name, value in keywords.items():
            position = self._positions.get(name)
            if position is None:
                raise CallError(f"{self.name}() has no argument {name!r}")
            if position < len(given):
                raise CallError(f"{self.name}() was given the argument {name!r} twice")
            found[position] = value
        return found

    def _default(self, position: int) -> Any:
        """The default itself, as in Python: a list that the function changes stays changed."""
        default = self._defaults[position]
        if default is _Missing:
            name = self.arguments[position].name
            raise CallError(f"{self.name}() is missing the argument {name!r}")
        return default

    def _convert(self, position: int, value: Any) -> Any:
        try:
            return self._converters[position](value)
        except (Mismatch, TypeError, ValueError, OverflowError, RuntimeError) as error:
            argument = self.arguments[position]
            type_ = argument.type
            is_missing = isinstance(type_, ClassType) and is_foreign(type_)
            from tsarchive.operators.libraries import what_registers

            reason = ", which is not registered," if is_missing else ""
            raise CallError(
                f"{self.name}() expects a value of type {annotation(type_)!r}{reason} for the "
                f"argument {argument.name!r}, not {type(value).__name__!r}",
                hint=what_registers(annotation(type_)) if is_missing else None,
            ) from (None if isinstance(error, Mismatch) else error)

    def shown(self) -> inspect.Signature:
        """The signature as ``inspect`` and ``help`` show it: names and defaults fit for Python.

        Annotations are those of the archive, as text.
        """
        kind, empty = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.empty
        parameters = {"self": inspect.Parameter("self", kind)} if self.is_method else {}
        for position, argument in enumerate(self.arguments):
            name, rest = _fitting(argument.name, parameters), self._defaults[position:]
            default = empty if any(other is _Missing for other in rest) else rest[0]
            shown = _Annotation(annotation(argument.type))
            parameters[name] = inspect.Parameter(name, kind, default=default, annotation=shown)
        return inspect.Signature([*parameters.values()], return_annotation=self._returned)


class _Annotation(str):
    """A type as the archive writes it; shown without quotes."""

    __slots__ = ()
    __repr__ = str.__str__


def _fitting(name: str, taken: Container[str]) -> str:
    found = to_identifier(name)
    while keyword.iskeyword(found) or found in taken:
        found += "_"
    return found


def public_function(function: Function, compiler: Compiler, *, is_method: bool = False) -> Any:
    """``function`` for callers in Python: arguments are converted, and the result.

    A method takes ``self`` as it is.
    """
    signature = Signature(function.name, function.schema, compiler, is_method=is_method)
    finish = export if changes_on_export(function.schema.return_type) else as_it_is
    return public_by(function, compiler, signature, finish)


def public_by(
    function: Function, compiler: Compiler, signature: Signature, finish: Callable[[Any], Any]
) -> Any:
    """A function whose arguments ``signature`` binds and converts, and ``finish`` its result."""
    raw, traced = compiler.function(function), TracedFunction(function, compiler)
    metering = compiler.linkage.enforcement.metering
    own = int(signature.is_method)  # self needs no conversion
    run = raw if metering is None else metering.public(raw, is_copied=finish is not as_it_is)
    analyses = compiler.linkage.analyses
    may_compare = any(may_hold_shared(argument.type) for argument in signature.arguments)

    def call(*arguments: Any, **keywords: Any) -> Any:
        given = (*arguments[:own], *signature.bind(arguments[own:], keywords))
        if is_exporting():
            return finish(traced.exported(*given))
        if is_compiling() and traced.is_ready():
            return finish(traced.function(*given))
        with_grad = torch.is_grad_enabled()
        try:
            if may_compare and analyses.compares(function):
                given = tuple(map(own_value, given))
            return finish(run(*given))
        except Exception as error:
            raise seen_by_callers(error)  # noqa: B904  # it has no other cause
        finally:
            restore_grad_mode(with_grad)

    return _described(call, function, signature, raw)


def restore_grad_mode(is_enabled: bool) -> None:
    """Restore the grad mode of the caller's thread, which code of an archive may have changed."""
    if torch.is_grad_enabled() is not is_enabled:
        torch._C._set_grad_enabled(is_enabled)


def seen_by_callers(error: Exception) -> Exception:
    """The error with lines of user source in its traceback, as callers in Python should see it.

    A RecursionError becomes an error that names the limit. The error of an operator becomes a
    RuntimeError, as in torch.jit, that is also of the class that eager code raises.
    """
    found = error
    if isinstance(error, RecursionError) and not isinstance(error, ScriptError):
        found = fault(RecursionError, "calls inside the archive are nested too deeply")
        found.limit = sys.getrecursionlimit()
        found.hint = "sys.setrecursionlimit raises the limit"
    elif not isinstance(error, RuntimeError | ArchiveError) and is_of_operator(error.__traceback__):
        message = _AS_TORCH.get(str(error), str(error))
        found = fault(type(error), message)
    if found is not error:
        found.__suppress_context__ = True
    return found.with_traceback(with_origins(error.__traceback__))


def public_forward(function: Function, compiler: Compiler) -> Any:
    """Like ``public_function``, for the method that ``torch.nn.Module.__call__`` reaches."""
    raw, traced = compiler.function(function), TracedFunction(function, compiler)
    convert = public_function(function, compiler, is_method=True)

    @functools.wraps(convert)
    def forward(self: Any, *arguments: Any, **keywords: Any) -> Any:
        if not keywords and is_internal_call(self, arguments):
            if is_exporting():
                return traced.exported(self, *arguments)
            if is_compiling() and traced.is_ready():
                return traced.function(self, *arguments)
            return raw(self, *arguments)
        return convert(self, *arguments, **keywords)

    return forward


class PublicMethod:
    """A method whose function for Python callers is made when it is first looked up.

    A network has hundreds of classes, and Python code calls methods of few. The function then
    takes this object's place in the class.
    """

    def __init__(self, function: Function, compiler: Compiler) -> None:
        self._function = function
        self._compiler = compiler
        self._method: Any = None
        self._is_traced = False

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner, self._name = owner, name
        self._is_forward = name == "forward" and issubclass(owner, torch.nn.Module)

    def place(self, owner: type, name: str) -> None:
        """Make this the member ``name`` of a class that exists already."""
        self.__set_name__(owner, name)
        setattr(owner, name, self)

    def __get__(self, instance: Any, owner: type) -> Any:
        self._make()
        if instance is None:
            return self._method
        if is_compiling():
            return functools.partial(self._method, instance)  # tracers cannot make methods
        if not self._is_traced:  # else what was compiled would be compiled again
            setattr(self._owner, self._name, self._method)
        return MethodType(self._method, instance)

    @called_by_tracers
    def _make(self) -> None:
        with self._compiler.lock:
            self._is_traced |= is_compiling()
            if self._method is None:
                # torch.compile counts compilations by code object, and compiles none more than a
                # few times: each method has a code object of its own.
                self._method = self._made()
                self._method.__code__ = self._method.__code__.replace()

    def _made(self) -> Any:
        if self._is_forward:
            return public_forward(self._function, self._compiler)
        return public_function(self._function, self._compiler, is_method=True)


class PublicOverloads(PublicMethod):
    """``forward`` where the archive has ``forward__0``, ``forward__1`` and so on in its place."""

    def __init__(self, functions: Sequence[Function], compiler: Compiler) -> None:
        super().__init__(functions[0], compiler)
        self._functions = functions

    def _made(self) -> Any:
        functions, compiler = self._functions, self._compiler
        methods = {function.name: public_forward(function, compiler) for function in functions}
        signatures = [Signature(f.name, f.schema, compiler, is_method=True) for f in functions]

        def forward(self: Any, *arguments: Any, **keywords: Any) -> Any:
            if not keywords and is_internal_call(self, arguments):
                return methods[internal_call.method](self, *arguments)
            refused: list[str] = []
            for signature in signatures:
                try:
                    signature.bind(arguments, keywords)
                except CallError as error:
                    refused.append(str(error))
                else:
                    return methods[signature.name](self, *arguments, **keywords)
            raise CallError("; ".join(refused))

        shown = (f"    {each.name}{each.shown()}" for each in signatures)
        about = "The first of its overloads that takes the arguments runs:"
        module = functions[0].qualified_name.rpartition(".")[0]
        _placed(forward, module, "forward", "", about, "", *shown)
        return forward


def as_it_is(value: Any) -> Any:
    """Return a result as it is."""
    return value


def _placed(call: Any, module: str, name: str, *lines: str) -> None:
    """Tell where ``call`` is from, with more lines of text."""
    call.__name__ = call.__qualname__ = name
    call.__module__ = module
    # Without a text of its own, help would show that of torch.nn.Module.
    call.__doc__ = "\n".join([f"{name} of {module}, as the archive defines it.", *lines])


def _described(call: Any, function: Function, signature: Signature, raw: Callable[..., Any]) -> Any:
    """``call`` as ``help`` and ``inspect`` should see it: its source is the generated one."""
    module, _, name = function.qualified_name.rpartition(".")
    _placed(call, module, name)
    call.__signature__ = signature.shown()
    call.__wrapped__ = raw
    return call
