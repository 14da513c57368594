"""The calling convention of a program as text: arguments nested as the caller passes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tsarchive.errors import FormatError, UnsupportedError

from .formatting import argument, is_name, is_named, name, one_line, type_of
from .pytrees import LEAF, Kind, Tree, read_tree
from .schema import Argument, GraphModule, InputSpec, ModuleCallSignature


@dataclass(frozen=True, slots=True)
class Convention:
    """The parts of a listing.

    ``parameters`` are those of ``forward`` without self, ``bindings`` unpack them into the inputs
    of the graph, ``problem`` tells why the caller's nesting is unknown.
    """

    parameters: str
    bindings: tuple[str, ...]
    result: str
    returned: str
    problem: str | None


@dataclass(frozen=True, slots=True)
class _Leaf:
    name: str
    type: str


def convention(module: GraphModule, record: str) -> Convention:
    """Return the calling convention of a program that was read from ``record``."""
    inputs = [_input(spec, module) for spec in module.signature.input_specs if _is_given(spec)]
    outputs = [_Leaf(argument(value), type_of(value, module.graph)) for value in _outputs(module)]
    try:
        return _nested(module, inputs, outputs, record)
    except (FormatError, UnsupportedError) as error:
        return _flat(inputs, outputs, one_line(error.message))


def _nested(
    module: GraphModule, inputs: list[_Leaf], outputs: list[_Leaf], record: str
) -> Convention:
    signature = _call_signature(module)
    fields = module.treespec_namedtuple_fields
    takes = read_tree(signature.in_spec, record, fields)
    gives = read_tree(signature.out_spec, record, fields)
    if takes.leaves != len(inputs) or gives.leaves != len(outputs):
        raise FormatError("the specification of arguments or results is of other values")
    texts: list[str] = []
    bindings: list[str] = []
    leaves = iter(inputs)
    for given, tree in _parameters(takes, signature.forward_arg_names or []):
        mine = [next(leaves) for _ in range(tree.leaves)]
        title = name(given or _name_of(tree, mine, len(texts)))
        texts.append(f"{title}: {_format_tree(tree, iter([leaf.type for leaf in mine]))}")
        bindings += _bindings(tree, title, mine)
    positional = len(takes.children[0].children)
    if positional < len(texts):
        texts.insert(positional, "*")
    return Convention(
        parameters=", ".join(texts),
        bindings=tuple(bindings),
        result=_format_tree(gives, iter([leaf.type for leaf in outputs])),
        returned=_format_tree(gives, iter([leaf.name for leaf in outputs])),
        problem=None,
    )


def _bindings(tree: Tree, title: str, leaves: list[_Leaf]) -> Iterator[str]:
    """Yield the unpacking of a parameter where the graph names its leaves differently."""
    for leaf, step in zip(leaves, _leaf_paths(tree, title), strict=True):
        if leaf.name not in ("", step):
            yield f"{leaf.name} = {step}"


def _flat(inputs: list[_Leaf], outputs: list[_Leaf], problem: str) -> Convention:
    tree = Tree(Kind.TUPLE, (LEAF,) * len(outputs))
    return Convention(
        parameters=", ".join(f"{leaf.name or '_'}: {leaf.type}" for leaf in inputs),
        bindings=(),
        result=_format_tree(tree, iter([leaf.type for leaf in outputs])),
        returned=_format_tree(tree, iter([leaf.name for leaf in outputs])),
        problem=problem,
    )


def _call_signature(module: GraphModule) -> ModuleCallSignature:
    for entry in module.module_call_graph:
        if not entry.fqn and entry.signature is not None:
            return entry.signature
    raise FormatError("the program has no signature")


# The values of the graph

_TAKEN = ("user_input", "constant_input")
_GIVEN = ("user_output", "loss_output")


def _is_given(spec: InputSpec) -> bool:
    """Return whether an input is passed by the caller."""
    return spec.tag in _TAKEN


def _input(spec: InputSpec, module: GraphModule) -> _Leaf:
    if spec.tag == "constant_input":
        return _Leaf(name(spec.value.name), f"Literal[{argument(spec.value.value)}]")
    value: Argument = spec.value.arg
    if is_named(value):
        return _Leaf(argument(value), type_of(value, module.graph))
    return _Leaf("", f"Literal[{argument(value)}]")


def _outputs(module: GraphModule) -> Iterator[Argument]:
    for spec in module.signature.output_specs:
        if spec.tag == "loss_output":
            yield Argument("as_tensor", spec.value.arg)
        elif spec.tag == "user_output":
            yield spec.value.arg


# Trees


def _name_of(tree: Tree, leaves: list[_Leaf], index: int) -> str:
    """Return a name for a parameter that the file does not name, as before torch 2.6."""
    return (tree.kind is Kind.LEAF and leaves[0].name) or f"args_{index}"


def _parameters(takes: Tree, names: list[str]) -> Iterator[tuple[str | None, Tree]]:
    """Yield the parameters by name: positional ones, then those of the dict of keywords."""
    match takes.children:
        case (Tree(kind=Kind.TUPLE) as args, Tree(kind=Kind.DICT) as kwargs):
            pass
        case _:
            raise FormatError("the specification of arguments has another form")
    for index, child in enumerate(args.children):
        yield (names[index] if index < len(names) else None), child
    for key, child in zip(kwargs.keys, kwargs.children, strict=True):
        yield str(key), child


def _leaf_paths(tree: Tree, path: str) -> Iterator[str]:
    """Yield the path to each leaf, in order."""
    if tree.kind is Kind.LEAF:
        yield path
    for step, child in tree.places():
        yield from _leaf_paths(child, f"{path}{step}")


def _format_tree(tree: Tree, leaves: Iterator[str]) -> str:
    """Return a tree as text, with texts for its leaves."""
    if tree.kind is Kind.LEAF:
        return next(leaves)
    parts = [_format_tree(child, leaves) for child in tree.children]
    joined = ", ".join(parts)
    pairs = ", ".join(f"{key!a}: {part}" for key, part in zip(tree.keys, parts, strict=False))
    match tree.kind:
        case Kind.TUPLE:
            return f"({joined},)" if len(parts) == 1 else f"({joined})"
        case Kind.LIST:
            return f"[{joined}]"
        case Kind.DICT:
            return f"{{{pairs}}}"
        case Kind.ORDERED_DICT:
            return f"OrderedDict({{{pairs}}})"
        case Kind.DEFAULT_DICT:
            return f"defaultdict({tree.context}, {{{pairs}}})"
        case Kind.DEQUE:
            return f"deque([{joined}])"
    title = (tree.name or "").rpartition(".")[2]
    title = title if is_name(title) else "object"
    if tree.fields:
        joined = ", ".join(f"{f}={part}" for f, part in zip(tree.fields, parts, strict=True))
    return f"{title}({joined})"
