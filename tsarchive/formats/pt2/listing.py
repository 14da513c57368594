"""Listings of a model's program, from its JSON alone.

They look like Python and parse as Python, but are never run: graphs in arguments are nested
functions, the type of a call's result follows it as a comment, sizes are expressions over the
symbols whose ranges are listed at the top. ``float32[s77, 4]`` is a tensor of that shape,
``int[s77 + 1]`` a number that depends on symbols. Names that are not identifiers are shown as
strings, so that no name looks like something else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from keyword import iskeyword
from math import isfinite
from typing import Any

from tsarchive.errors import FormatError, UnsupportedError

from . import schema
from .metadata import Frame, ModulePlace, frames, modules, places
from .pytrees import LEAF, Kind, Tree, read_tree
from .records import Records
from .symbols import parse

UNKNOWN = "?"


def is_name(text: str) -> bool:
    return text.isidentifier() and not iskeyword(text)


def name(text: str) -> str:
    """Return an identifier as it is, other names as string literals."""
    return text if is_name(text) else ascii(text)


def target(text: str) -> str:
    """Return a dotted operator name as it is, other names as string literals."""
    return text if all(map(is_name, text.split("."))) else ascii(text)


def one_line(text: str) -> str:
    """Escape text for a comment: whatever would end the line or act on a terminal."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def expression(text: str) -> str:
    """Return an expression over symbols in infix form; as it is where it does not parse."""
    try:
        return str(parse(text))
    except FormatError:
        return ascii(text)


def symbolic(value: schema.Tagged) -> str:
    """Return a symbolic size, number or truth value: a literal, or an expression."""
    return expression(value.value.expr_str) if value.tag == "as_expr" else repr(value.value)


def type_of_tensor(meta: schema.TensorMeta) -> str:
    """Return ``float32[s77, 4]``, followed by an unusual device and layout."""
    dtype = schema.DTYPES[meta.dtype].dtype if meta.dtype in schema.DTYPES else UNKNOWN
    parts = [", ".join(map(symbolic, meta.sizes)) or "()"]
    if (device := schema.device_name(meta.device)) != "cpu":
        parts.append(ascii(device))
    if meta.layout != schema.Layout.STRIDED:
        parts.append(ascii(meta.layout.name.lower()))
    return f"{dtype}[{', '.join(parts)}]"


def type_of(value: schema.Argument, graph: schema.Graph) -> str:
    """Return the type of an input or output of a graph."""
    show = _TYPES.get(value.tag)
    return _PLAIN_TYPES.get(value.tag, UNKNOWN) if show is None else show(value.value, graph)


def _tensor_type(tensor: Any, graph: schema.Graph) -> str:
    meta = graph.tensor_values.get(tensor.name)
    return UNKNOWN if meta is None else type_of_tensor(meta)


def _list_type(
    show: Callable[[Any, schema.Graph], str],
) -> Callable[[list[Any], schema.Graph], str]:
    return lambda items, graph: f"list[{', '.join(show(item, graph) for item in items) or '()'}]"


def _symbol_type(kind: str, table: str) -> Callable[[schema.Tagged, schema.Graph], str]:
    """Return a function for the type of a number by its name in a table of the graph."""

    def show(value: schema.Tagged, graph: schema.Graph) -> str:
        if value.tag != "as_name":
            return kind
        found = getattr(graph, table).get(value.value)
        return kind if found is None else f"{kind}[{symbolic(found)}]"

    return show


_ITEM_TYPES: dict[str, Callable[[Any, schema.Graph], str]] = {
    "as_tensor": _tensor_type,
    "as_optional_tensor": lambda tensor, graph: (
        "None" if tensor.tag == "as_none" else _tensor_type(tensor.value, graph)
    ),
    "as_sym_int": _symbol_type("int", "sym_int_values"),
    "as_sym_float": _symbol_type("float", "sym_float_values"),
    "as_sym_bool": _symbol_type("bool", "sym_bool_values"),
}
_TYPES: dict[str, Callable[[Any, schema.Graph], str]] = {
    **_ITEM_TYPES,
    **{f"{tag}s": _list_type(show) for tag, show in _ITEM_TYPES.items()},
    "as_nested_tensors": _list_type(_list_type(_tensor_type)),
    "as_custom_obj": lambda value, graph: target(value.class_fqn),
}
_PLAIN_TYPES = {
    "as_none": "None", "as_int": "int", "as_float": "float", "as_bool": "bool",
    "as_string": "str", "as_complex": "complex", "as_ints": "list[int]",
    "as_floats": "list[float]", "as_bools": "list[bool]", "as_strings": "list[str]",
    "as_int_lists": "list[list[int]]", "as_float_lists": "list[list[float]]",
    "as_device": "torch.device", "as_scalar_type": "torch.dtype", "as_layout": "torch.layout",
    "as_memory_format": "torch.memory_format",
}  # fmt: skip


def argument(value: schema.Tagged) -> str:
    """Return a literal, or the names of values."""
    show = _ARGUMENTS.get(value.tag)
    return _literal(value.value) if show is None else show(value.value)


def parameter(value: schema.Argument, graph: schema.Graph) -> str:
    """Return an input of a graph as a parameter: ``x: float32[2]``, ``_: Literal[3]``."""
    if value.name is not None:
        return f"{argument(value)}: {type_of(value, graph)}"
    return f"_: Literal[{argument(value)}]"


def _literal(value: Any) -> str:
    if isinstance(value, float) and not isfinite(value):
        return f"float({str(value)!r})"
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    return ascii(value)


def _named(value: Any) -> str:
    return name(value.name)


def _tagged(value: schema.Tagged) -> str:
    """Return a name, a tensor's name, a literal or None."""
    if value.tag == "as_name":
        return name(value.value)
    return _ARGUMENTS.get(value.tag, _literal)(value.value)


def _list_of(show: Callable[[Any], str]) -> Callable[[list[Any]], str]:
    return lambda items: f"[{', '.join(map(show, items))}]"


_ITEMS: dict[str, Callable[[Any], str]] = {
    "as_tensor": _named,
    **dict.fromkeys(("as_optional_tensor", "as_sym_int", "as_sym_float", "as_sym_bool"), _tagged),
}
_ARGUMENTS: dict[str, Callable[[Any], str]] = {
    **_ITEMS,
    **{f"{tag}s": _list_of(show) for tag, show in _ITEMS.items()},
    "as_none": lambda value: "None",
    "as_nested_tensors": _list_of(_list_of(_named)),
    "as_scalar_type": lambda v: (
        f"torch.{schema.DTYPES[v].dtype}" if v in schema.DTYPES else UNKNOWN
    ),
    "as_layout": lambda value: f"torch.{value.name.lower()}",
    "as_memory_format": lambda value: f"torch.{value.name.lower()}",
    "as_device": lambda value: f"torch.device({schema.device_name(value)!a})",
    "as_graph": _named,
    "as_custom_obj": _named,
    "as_operator": target,
    "as_complex": lambda value: f"complex({_literal(value.real)}, {_literal(value.imag)})",
    "as_string_to_argument": lambda value: (
        "{" + ", ".join(f"{key!a}: {argument(item)}" for key, item in value.items()) + "}"
    ),
}


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


def convention(module: schema.GraphModule) -> Convention:
    """Return the calling convention of a program."""
    results = module.signature.results
    inputs = [_input(spec, module) for spec in module.signature.user_inputs]
    outputs = [_Leaf(argument(value), type_of(value, module.graph)) for value in results]
    try:
        return _nested(module, inputs, outputs)
    except (FormatError, UnsupportedError) as error:
        tree = Tree(Kind.TUPLE, (LEAF,) * len(outputs))
        return Convention(
            parameters=", ".join(f"{leaf.name or '_'}: {leaf.type}" for leaf in inputs),
            bindings=(),
            result=_format_tree(tree, iter([leaf.type for leaf in outputs])),
            returned=_format_tree(tree, iter([leaf.name for leaf in outputs])),
            problem=one_line(error.message),
        )


def _nested(module: schema.GraphModule, inputs: list[_Leaf], outputs: list[_Leaf]) -> Convention:
    calls = (entry.signature for entry in module.module_call_graph if not entry.fqn)
    signature = next((call for call in calls if call is not None), None)
    if signature is None:
        raise FormatError("the program has no signature")
    fields = module.treespec_namedtuple_fields
    takes = read_tree(signature.in_spec, fields)
    gives = read_tree(signature.out_spec, fields)
    if takes.leaves != len(inputs) or gives.leaves != len(outputs):
        raise FormatError("the specification of arguments or results is of other values")
    texts: list[str] = []
    bindings: list[str] = []
    leaves = iter(inputs)
    for given, tree in _parameters(takes, signature.forward_arg_names or []):
        mine = [next(leaves) for _ in range(tree.leaves)]
        # The file names no parameters before torch 2.6.
        title = given or (tree.kind is Kind.LEAF and mine[0].name) or f"args_{len(texts)}"
        title = name(title)
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
    for leaf, step in zip(leaves, tree.leaf_places(title), strict=True):
        if leaf.name not in ("", step):
            yield f"{leaf.name} = {step}"


# The values of the graph


def _input(spec: schema.InputSpec, module: schema.GraphModule) -> _Leaf:
    if spec.tag == "constant_input":
        return _Leaf(name(spec.value.name), f"Literal[{argument(spec.value.value)}]")
    value: schema.Argument = spec.value.arg
    if value.name is not None:
        return _Leaf(argument(value), type_of(value, module.graph))
    return _Leaf("", f"Literal[{argument(value)}]")


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


_INDENT = "  "
_NAMELESS = "Program"
# Bounds from here on mean none: torch wrote these before it wrote null.
_ENDLESS = 1 << 62


class Listings(Mapping[str, str]):
    """The listing of each model by the name of its record, with ``.py`` for ``.json``.

    Each is made on access. With ``sources``, lines of user source precede, as comments, the nodes
    that come from them.
    """

    def __init__(self, records: Records, models: tuple[str, ...], *, sources: bool) -> None:
        names = {model: records.program_record(model) for model in models}
        self._models = {f"{name.removesuffix('.json')}.py": model for model, name in names.items()}
        self._records = records
        self._sources = sources

    def __getitem__(self, name: str) -> str:
        model = self._models[name]
        record = self._records.program_record(model)
        return listing(self._records.program(model), record, sources=self._sources)

    def __iter__(self) -> Iterator[str]:
        return iter(self._models)

    def __len__(self) -> int:
        return len(self._models)


def listing(program: schema.ExportedProgram, record: str, *, sources: bool = False) -> str:
    """Return the text of a program that was read from ``record``."""
    module = program.graph_module
    called = convention(module)
    body = _Body(sources=sources)
    body.lines += called.bindings
    body.lines += _tree_bindings(module)
    body.nodes(module.graph)
    body.lines += (*_mutations(module), f"return {called.returned}")
    problem = called.problem
    parameters = ", ".join(filter(None, ("self", called.parameters)))
    lines = [
        *_header(program, record),
        *([f"# arguments are shown taken apart: {problem}"] if problem else []),
        "",
        f"class {_class_name(program)}:",
        f"{_INDENT}def forward({parameters}) -> {called.result}:",
        *(f"{_INDENT * 2}{line}" for line in body.lines),
    ]
    return "\n".join(lines) + "\n"


def _class_name(program: schema.ExportedProgram) -> str:
    """Return the last part of the name of the exported class, if nodes reveal it."""
    qualified = next((p.class_name for p in places(program.graph_module.graph) if not p.path), "")
    found = qualified.rpartition(".")[2]
    return found if is_name(found) else _NAMELESS


def signature(program: schema.ExportedProgram) -> str:
    """Return the signature: ``forward(x: float32[s77, 4]) -> float32[s77, 3]``."""
    called = convention(program.graph_module)
    return f"forward({called.parameters}) -> {called.result}"


# Around the graph


def _header(program: schema.ExportedProgram, record: str) -> Iterator[str]:
    version = program.schema_version
    opset = ", ".join(f"{name} {number}" for name, number in program.opset_version.items())
    verifiers = ", ".join(program.verifiers) or "no verifier"
    yield one_line(
        f"# {record}: schema {version.major}.{version.minor}, torch {program.torch_version}, "
        f"opset {opset or 'none'}, {verifiers}"
    )
    for symbol, constraint in program.range_constraints.items():
        yield one_line(f"# {expression(symbol)}: {range_text(constraint)}")
    for guard in program.guards_code:
        yield one_line(f"# guard: {guard}")


def range_text(constraint: schema.RangeConstraint) -> str:
    """Return a range as text: ``2 to 64``, ``at least 2``, ``any``."""
    low, high = constraint.min_val, constraint.max_val
    low = None if low is not None and low <= -_ENDLESS else low
    high = None if high is not None and high >= _ENDLESS else high
    if low is None:
        return "any" if high is None else f"at most {high}"
    return f"at least {low}" if high is None else f"{low} to {high}"


def _tree_bindings(module: schema.GraphModule) -> Iterator[str]:
    """Yield assignments of the weights and constants that the graph takes as inputs."""
    for spec in module.signature.input_specs:
        if spec.target is not None:
            given = spec.value.arg.name
            meta = module.graph.tensor_values.get(given)
            shown = "" if meta is None else f" {type_of_tensor(meta)}"
            yield f"{name(given)} = {_attribute(spec.target)}  # {_what(spec)}{shown}"


def _what(spec: schema.InputSpec) -> str:
    match spec.tag:
        case "custom_obj":
            return target(spec.value.arg.class_fqn)
        case "tensor_constant":
            return "constant"
        case "buffer" if not spec.value.persistent:
            return "buffer, not persistent"
    return spec.tag


def _mutations(module: schema.GraphModule) -> Iterator[str]:
    """Yield assignments of what a call mutates, and of gradients."""
    for spec in module.signature.output_specs:
        if spec.changed is not None:
            kind, changed = spec.changed
            place = name(changed) if kind == "user_input" else _attribute(changed)
            value = name(spec.value.arg.name)
            is_gradient = spec.tag.startswith("gradient")
            yield f"{place}.grad = {value}" if is_gradient else f"{place}.copy_({value})"


def _attribute(path: str) -> str:
    """Return ``self.layer.weight``; with ``getattr`` where a name is not an identifier."""
    found = "self"
    for part in path.split("."):
        found = f"{found}.{part}" if is_name(part) else f"getattr({found}, {part!a})"
    return found


# The graph


class _Body:
    """Collects the lines of a graph. Nested graphs are functions before the node that uses them."""

    def __init__(self, *, sources: bool) -> None:
        self.lines: list[str] = []
        self._sources = sources
        self._module: ModulePlace | None = None
        self._frames: tuple[Frame, ...] = ()

    def nodes(self, graph: schema.Graph) -> None:
        for node in graph.nodes:
            self._origin(node)
            for given in node.inputs:
                if given.arg.tag == "as_graph":
                    self._function(given.arg.value.name, given.arg.value.graph)
            self.lines.append(statement(node, graph))

    def _function(self, title: str, graph: schema.Graph) -> None:
        takes = ", ".join(parameter(value, graph) for value in graph.inputs)
        inside = _Body(sources=self._sources)
        inside.nodes(graph)
        gives = ", ".join(map(argument, graph.outputs))
        if len(graph.outputs) == 1:
            gives += "" if graph.is_single_tensor_return else ","
        inside.lines.append(f"return {gives}".rstrip())
        self.lines.append(f"def {name(title)}({takes}):")
        self.lines += (f"{_INDENT}{line}" for line in inside.lines)

    def _origin(self, node: schema.Node) -> None:
        """Write the origin of a node as comments, where it differs from the one before."""
        module = next(iter(reversed(modules(node))), None)
        if module is not None and module != self._module:
            self._module = module
            self.lines.append(one_line(f"# {module.path or '(root)'}: {module.class_name}"))
        if self._sources and (found := frames(node)) and found != self._frames:
            self._frames = found
            for frame in found:
                place = f"# {frame.file}:{frame.line} in {frame.function}"
                self.lines.append(one_line(f"{place}: {frame.text}" if frame.text else place))


def statement(node: schema.Node, graph: schema.Graph) -> str:
    """Return a node as a line: the names of its results, and the call."""
    call = f"{target(node.target)}({', '.join(map(_given, node.inputs))})"
    if not node.outputs:
        return call
    shown = ", ".join(map(_assigned, node.outputs))
    types = ", ".join(type_of(value, graph) for value in node.outputs)
    return f"{shown} = {call}  # {types}"


def _assigned(value: Any) -> str:
    """Return the names of a node's results; empty for literals."""
    match value:
        case list():
            return f"[{', '.join(map(_assigned, value))}]"
        case (
            schema.Tagged("as_name", str(found))
            | schema.TensorArgument(found)
            | schema.CustomObjArgument(found)
        ):
            return name(found)
        case schema.Tagged():
            return _assigned(value.value)
    return "_"


def _given(given: schema.NamedArgument) -> str:
    """Return an argument as passed: by position where the program says so, else by name."""
    shown = argument(given.arg)
    if not given.name or given.kind == schema.ArgumentKind.POSITIONAL:
        return shown
    return f"{name(given.name)}={shown}"
