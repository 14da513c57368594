"""Calls of a method from Python: arguments nested as the file describes them, or flat.

Arguments are checked as the runtime does: element types, static sizes, numbers of elements that
fit, and numbers that were fixed when the program was exported.

A specification of the nesting is torch's JSON, or an older notation,
``T2#2#0(T2#1#1($,$),D0())``: a letter for the kind, the number of children, the number of leaves of
each, and the children in parentheses; ``$`` is a leaf, ``'a':$`` an item of a dict.
"""

from __future__ import annotations

import functools
import inspect
import math
import re
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import torch

from tsarchive.describing.text import plural
from tsarchive.errors import CallError, FormatError, UnsupportedError
from tsarchive.formats.executorch.content import RECORD
from tsarchive.formats.executorch.methods import Method, Shape, Tensor, Value
from tsarchive.formats.pt2.pytrees import LEAF, MAPPINGS, MAX_DEPTH, Key, Kind, Tree, read_tree
from tsarchive.ir.classes import Function
from tsarchive.run.calls_from_python import PublicMethod
from tsarchive.run.calls_from_python import Signature as CallSignature
from tsarchive.run.compiler import Compiler

from .memory import type_text

_KINDS: Final = {"T": Kind.TUPLE, "L": Kind.LIST, "D": Kind.DICT}
_TOKEN: Final = re.compile(r"[TLD][0-9#]+\(|'[^']*':|-?[0-9]+:|[$,)]")
_NODE: Final = re.compile(r"([TLD])([0-9]{1,9})((?:#[0-9]{1,9})*)\(")
_KEY: Final = re.compile(r"(?:'([^']*)'|(-?[0-9]{1,18})):")


def nesting_of(text: str) -> Tree | None:
    """Parse a tree specification; None for an unknown form.

    Arguments can always be given flat, so nothing depends on such a text.
    """
    try:
        if text.startswith("["):
            return read_tree(text)
        tokens = _TOKEN.findall(text)  # of the older notation
        if "".join(tokens) != text:
            return None
        tokens.reverse()
        tree = _tree(tokens, 0)
        return None if tokens else tree
    except (FormatError, UnsupportedError, IndexError):
        return None


def _tree(tokens: list[str], depth: int) -> Tree:
    """Take a tree from the end of ``tokens``, which are in reverse order."""
    node = tokens.pop()
    if node == "$" and depth <= MAX_DEPTH:
        return LEAF
    match = _NODE.fullmatch(node)
    if match is None or depth > MAX_DEPTH:
        raise _malformed()
    kind = _KINDS[match[1]]
    keys: list[Key] = []
    children: list[Tree] = []
    while len(children) < int(match[2]):
        if children:
            _expect(tokens, ",")
        if kind is Kind.DICT:
            keys.append(_key(tokens.pop()))
        children.append(_tree(tokens, depth + 1))
    _expect(tokens, ")")
    if [str(child.leaves) for child in children] != match[3].split("#")[1:]:
        raise _malformed()
    return Tree(kind, tuple(children), tuple(keys))


def _key(token: str) -> Key:
    match = _KEY.fullmatch(token)
    if match is None:
        raise _malformed()
    return match[1] if match[2] is None else int(match[2])


def _expect(tokens: list[str], token: str) -> None:
    if tokens.pop() != token:
        raise _malformed()


def _malformed() -> FormatError:
    return FormatError("a nesting of values is malformed", record=RECORD)


_SEQUENCES: Final = {Kind.TUPLE: tuple, Kind.LIST: list, Kind.DEQUE: deque}
_DICTS: Final[Mapping[Kind, Callable[[Any], Any]]] = {
    Kind.DICT: dict,
    Kind.ORDERED_DICT: OrderedDict,
    Kind.DEFAULT_DICT: lambda pairs: defaultdict(None, pairs),
}
_CALL_PARTS: Final = 2


class Mismatch(Exception):
    """A value with another structure than the tree; the message says where."""


def arguments_of(tree: Tree | None) -> tuple[tuple[Tree, ...], Mapping[str, Tree]] | None:
    """Return the trees of positional and of keyword arguments; None where it is no call."""
    if tree is None or tree.kind is not Kind.TUPLE or len(tree.children) != _CALL_PARTS:
        return None
    positional, named = tree.children
    if positional.kind is not Kind.TUPLE or named.kind not in MAPPINGS:
        return None
    if not all(isinstance(key, str) for key in named.keys):  # is itself not a mapping
        return None
    return positional.children, dict(zip(map(str, named.keys), named.children, strict=True))


def flatten(tree: Tree, value: Any, place: str) -> Iterator[Any]:
    """Yield the leaves of a value. Raises Mismatch where it is not nested like the tree."""
    if tree.kind is Kind.LEAF:
        yield value
        return
    items = _items(tree, value, place)
    for (step, child), item in zip(tree.places(), items, strict=True):
        yield from flatten(child, item, place + step)


def _items(tree: Tree, value: Any, place: str) -> Sequence[Any]:
    if tree.kind in MAPPINGS:
        if not isinstance(value, dict) or set(value) != set(tree.keys):
            raise Mismatch(f"{place} is no dict with the keys {list(tree.keys)}")
        return [value[key] for key in tree.keys]
    class_: type = _SEQUENCES.get(tree.kind, tuple)
    is_one = tree.kind is not Kind.REGISTERED and isinstance(value, class_)
    if not is_one or len(value) != len(tree.children):
        raise Mismatch(f"{place} is not {tree.kind.value} of {len(tree.children)}")
    return list(value)


def nest(tree: Tree, leaves: Iterator[Any]) -> Any:
    """Build the value with these leaves. Named tuples and objects of classes become tuples."""
    if tree.kind is Kind.LEAF:
        return next(leaves)
    items = [nest(child, leaves) for child in tree.children]
    if tree.kind in MAPPINGS:
        pairs = zip(tree.keys, items, strict=True)
        return _DICTS[tree.kind](pairs)
    return _SEQUENCES.get(tree.kind, tuple)(items)


_ABSOLUTE: Final = 1e-4
_RELATIVE: Final = 1e-5
MEMORY: Final = "tsarchive_memory"


class Arguments:
    """Flattens the arguments of a method and checks them."""

    def __init__(self, method: Method) -> None:
        self._method = method
        self._values = [method.values[index] for index in method.inputs]
        tree = nesting_of(method.input_nesting)
        fits = tree is not None and tree.leaves == len(self._values)
        self.trees = arguments_of(tree) if fits else None

    def flat(self, given: Sequence[Any], keywords: dict[str, Any]) -> list[Any]:
        """Return the flat arguments. Raises CallError for others than the method takes."""
        leaves = self._leaves(given, keywords)
        for number, (value, leaf) in enumerate(zip(self._values, leaves, strict=True)):
            problem = _problem(value, leaf)
            if problem is not None:
                raise CallError(f"{self._method.name}(): input {number} {problem}")
        return leaves

    def tensors(self, leaves: Sequence[Any]) -> list[torch.Tensor]:
        """Return the tensors among the arguments."""
        pairs = zip(self._values, leaves, strict=True)
        return [leaf for value, leaf in pairs if isinstance(value, Tensor)]

    def _leaves(self, given: Sequence[Any], keywords: dict[str, Any]) -> list[Any]:
        problem = None
        if self.trees is not None:
            try:
                return list(self._nested(given, keywords))
            except Mismatch as error:
                problem = str(error)
        if keywords or len(given) != len(self._values):
            name, count = self._method.name, len(self._values)
            message = f"{name}() takes {plural(count, 'input')}, not {len(given)}"
            if keywords:
                message = f"{name}() has no inputs by these names: {', '.join(keywords)}"
            raise CallError(message, hint=problem and f"Nested, {problem}")
        return list(given)

    def _nested(self, given: Sequence[Any], keywords: dict[str, Any]) -> Iterator[Any]:
        assert self.trees is not None
        positional, named = self.trees
        if len(given) != len(positional) or keywords.keys() != named.keys():
            shown = plural(len(positional), "positional argument")
            raise Mismatch(f"it takes {shown}" + (f" and {', '.join(named)}" if named else ""))
        for number, (tree, value) in enumerate(zip(positional, given, strict=True)):
            yield from flatten(tree, value, f"argument {number}")
        for name, tree in named.items():
            yield from flatten(tree, keywords[name], f"argument {name!r}")


def _problem(value: Value, given: Any) -> str | None:
    """Return why an argument does not fit an input; None for one that does."""
    if isinstance(value, Tensor):
        return _tensor_problem(value, given)
    if value is None:
        # A string that a program is exported with leaves no trace in it.
        return None if given is None or isinstance(given, str) else "should be None"
    if isinstance(value, bool):
        fits = given is value
    elif isinstance(value, int):
        fits = type(given) is int and given == value
    elif isinstance(value, float):
        is_number = isinstance(given, (int, float)) and not isinstance(given, bool)
        fits = is_number and math.isclose(given, value, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE)
    else:
        fits = type(given) is type(value) and given == value
    return None if fits else f"is fixed at {value!r}, and {_shown(given)} is given"


def _tensor_problem(value: Tensor, given: Any) -> str | None:
    if not isinstance(given, torch.Tensor):
        return f"should be a tensor, not {_shown(given)}"
    wanted = f"{value.dtype}{list(value.sizes)}"
    if given.layout is not torch.strided or given.is_quantized:
        return f"should be a dense tensor {wanted}"
    is_fixed = value.dynamism == Shape.STATIC
    bound = "" if is_fixed else " or less in the same number of dimensions"
    fits = given.dim() == len(value.sizes) and (
        tuple(given.shape) == value.sizes if is_fixed else given.numel() <= math.prod(value.sizes)
    )
    if fits and getattr(torch, value.dtype) is given.dtype:
        return None
    return f"should be {wanted}{bound}, not {type_text(given)}"


def _shown(given: Any) -> str:
    is_plain = given is None or isinstance(given, (bool, int, float))
    return repr(given) if is_plain else f"a {type(given).__name__}"


def result_of(method: Method) -> Callable[[Any], Any]:
    """Return a function that nests results as the file describes; else a tuple, or one value."""
    tree = nesting_of(method.output_nesting)
    count = len(method.outputs)
    if tree is None or tree.leaves != count:
        return lambda value: value

    def nested(value: Any) -> Any:
        return nest(tree, iter([value] if count == 1 else value or ()))

    return nested


class ProgramMethod(PublicMethod):
    """A method of a program, for callers in Python, as ``build`` makes it on first use."""

    def __init__(
        self, function: Function, compiler: Compiler, build: Callable[[], Callable[..., Any]]
    ) -> None:
        super().__init__(function, compiler)
        self._build = build

    def _made(self) -> Any:
        return self._build()


def with_lock(
    call: Callable[..., Any], check: Callable[..., None] | None = None
) -> Callable[..., Any]:
    """Wrap a method of a program in the lock that guards its module's memory.

    One method of a module runs at a time. ``check`` inspects memory and buffers before each call.
    """

    @functools.wraps(call)
    def run(module: Any, *arguments: Any, **keywords: Any) -> Any:
        memory = module.__dict__[MEMORY]
        with memory.lock, torch.no_grad():
            if check is not None:
                check(memory, module._buffers)
            return call(module, *arguments, **keywords)

    return run


class Convention(CallSignature):
    """The binding of arguments to the tensor inputs of a method that has a graph."""

    def __init__(self, method: Method, function: Function, compiler: Compiler) -> None:
        super().__init__(method.name, function.schema, compiler, is_method=True)
        self._taken = Arguments(method)

    def bind(self, given: Sequence[Any], keywords: dict[str, Any]) -> list[Any]:
        """Return the tensors among the arguments.

        Raises CallError for others than the method takes.
        """
        return list(self._taken.tensors(self._taken.flat(given, keywords)))

    def shown(self) -> inspect.Signature:
        return signature_of(self._taken)


def signature_of(taken: Arguments) -> inspect.Signature:
    """Return the signature for ``help``, with arguments as nested by the caller if known."""
    positional, named = ((), {}) if taken.trees is None else taken.trees
    kinds = inspect.Parameter
    parameters = [kinds("self", kinds.POSITIONAL_ONLY)]
    if taken.trees is None:
        parameters.append(kinds("inputs", kinds.VAR_POSITIONAL))
    parameters += [
        kinds(f"input_{number}", kinds.POSITIONAL_ONLY) for number in range(len(positional))
    ]
    parameters += [kinds(name, kinds.KEYWORD_ONLY) for name in named if name.isidentifier()]
    return inspect.Signature(parameters)
