"""Drawing of functions, of classes beside the model, and of the model itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from .statements import Scope, Statements
from .vocabulary import LITERALS, PLAIN_TYPES, Vocabulary

_MOST_DEFINITIONS = 3
_HELPERS = ("f", "helper", "helper_whose_name_is_too_long_for_one_line", "twice", "g")
_CLASSES = ("Pair", "State", "Kind", "AClassWithANameThatIsLongerThanOthers", "C", "Counter")
_FIELDS = ("x", "count", "label", "values", "a_field_with_a_long_name", "_0")


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    type: str
    default: str = ""
    keyword_only: bool = False

    @property
    def text(self) -> str:
        return f"{self.name}: {self.type}" + (f" = {self.default}" if self.default else "")


@dataclass(frozen=True, slots=True)
class Signature:
    """The signature of a function. ``owner`` is "self" for methods and empty for functions."""

    name: str
    parameters: tuple[Parameter, ...]
    result: str
    owner: str = ""

    def header(self) -> str:
        shown = [self.owner] * bool(self.owner)
        for parameter in self.parameters:
            if parameter.keyword_only and "*" not in shown:
                shown.append("*")
            shown.append(parameter.text)
        return f"def {self.name}({', '.join(shown)}) -> {self.result}:"

    def commented_header(self) -> list[str]:
        """Return a header in the old style, with a type comment."""
        shown = [self.owner] * bool(self.owner)
        shown += [p.name + (f"={p.default}" if p.default else "") for p in self.parameters]
        types = ", ".join(parameter.type for parameter in self.parameters)
        return [
            f"def {self.name}({', '.join(shown)}):",
            f"    # type: ({types}) -> {self.result}",
        ]

    def calls(self, callee: str) -> list[str]:
        """Return calls with all arguments, only the required ones, and all of them by name."""
        positional = [p for p in self.parameters if not p.keyword_only]
        named = [f"{p.name}=<{p.type}>" for p in self.parameters if p.keyword_only]
        needed = [f"<{p.type}>" for p in positional if not p.default]
        by_name = [f"{p.name}=<{p.type}>" for p in reversed(self.parameters)]
        ways = (
            [*(f"<{p.type}>" for p in positional), *named],
            [*needed, *(f"{p.name}=<{p.type}>" for p in self.parameters
                        if p.keyword_only and not p.default)],
            by_name,
        )  # fmt: skip
        return [f"{callee}({', '.join(way)})" for way in ways]


class Definitions(Statements):
    """Draws functions and methods, named tuples, enums and script classes beside the model."""

    def signature(self, name: str, owner: str = "") -> Signature:
        result = self.pick([*self.vocabulary.types, "None"])
        return Signature(name, self.parameters(self.vocabulary.types), result, owner)

    def parameters(
        self, types: Sequence[str], *, by_name: bool = True, least: int = 0
    ) -> tuple[Parameter, ...]:
        """Draw up to three parameters; ``by_name`` allows keyword-only ones."""
        # TorchScript does not read back a keyword-only parameter behind one with a default.
        by_name = by_name and self.chance(4)
        scope = Scope()
        found: list[Parameter] = []
        for _ in range(self.draw(st.integers(least, 3))):
            type_, name = self.pick(types), self.new_name(scope)
            scope.declare(name, type_)
            default = "" if by_name else self._default(type_)
            found.append(Parameter(name, type_, default, by_name and self.chance(2)))
        return tuple(sorted(found, key=lambda p: (p.keyword_only, bool(p.default))))

    def _default(self, type_: str) -> str:
        """Draw a default, empty for none."""
        is_optional = type_.startswith("Optional")
        if not (is_optional or type_ in LITERALS) or not self.chance(3):
            return ""
        return "None" if is_optional else self.draw(LITERALS[type_])

    def function(self, signature: Signature, depth: int = 2) -> list[str]:
        """Return the lines of the definition."""
        scope = Scope()
        for parameter in signature.parameters:
            scope.declare(parameter.name, parameter.type)
        header = [signature.header()]
        if not any(p.keyword_only for p in signature.parameters) and self.chance(6):
            header = signature.commented_header()
        body = self.body(scope, signature.result, depth)
        return [*header, *("    " + line for line in body)]

    def add_forms(self, result: str, calls: list[str]) -> None:
        """Add calls as expressions, or as statements where they return nothing."""
        if result == "None":
            self.vocabulary.statements += calls
        else:
            self.vocabulary.add(result, *calls)

    def definitions(self) -> list[str]:
        kinds = (
            Definitions._helper, Definitions._helper, Definitions._named_tuple,
            Definitions._enum, Definitions._class,
        )  # fmt: skip
        lines: list[str] = []
        for _ in range(self.draw(st.integers(0, _MOST_DEFINITIONS))):
            lines += [*self.pick(kinds)(self), ""]
        return lines

    def definition_name(self, names: tuple[str, ...]) -> str:
        free = [name for name in names if name not in self.vocabulary.names]
        name = self.pick(free) if free else f"{names[0]}{len(self.vocabulary.names)}"
        self.vocabulary.names.add(name)
        return name

    def _helper(self) -> list[str]:
        signature = self.signature(self.definition_name(_HELPERS))
        lines = self.function(signature)
        self.add_forms(signature.result, signature.calls(signature.name))
        return lines

    def fields(self, types: list[str]) -> dict[str, str]:
        count = self.draw(st.integers(1, 3))
        return {name: self.pick(types) for name in _FIELDS[:count]}

    def _new_type(self, name: str, *constructors: str) -> None:
        self.vocabulary.types.append(name)
        self.vocabulary.leaves[name] = list(constructors)
        self.vocabulary.add(name, f"(<{name}> if <bool> else <{name}>)")
        self.vocabulary.statements += [f"<+{name}> = <{name}>", f"<={name}> = <{name}>"]

    def _named_tuple(self) -> list[str]:
        name = self.definition_name(_CLASSES)
        # torch fails to compare two tuple constants with complex numbers.
        types = [type_ for type_ in self.vocabulary.types if type_ != "complex"]
        fields = {f"f{field}" if field[0] == "_" else field: type_
                  for field, type_ in self.fields(types).items()}  # fmt: skip
        values = [f"<{type_}>" for type_ in fields.values()]
        named = [f"{field}={value}" for field, value in zip(fields, values, strict=True)]
        self._new_type(name, f"{name}({', '.join(values)})", f"{name}({', '.join(named)})")
        for index, (field, type_) in enumerate(fields.items()):
            self.vocabulary.add(type_, f"<{name}>.{field}", f"<{name}>[{index}]")
        defined = [f"    {field}: {type_}" for field, type_ in fields.items()]
        return [f"class {name}(NamedTuple):", *defined]

    def _enum(self) -> list[str]:
        name = self.definition_name(_CLASSES)
        type_, values = self.pick(
            (("int", ("1", "2", "-3")), ("str", ("'one'", "'two'")), ("float", ("0.5", "2.0")))
        )
        members = dict(zip(("RED", "GREEN", "blue_with_a_name_that_is_quite_long"), values))  # noqa: B905
        self._new_type(name, *(f"{name}.{member}" for member in members))
        self.vocabulary.add("str", f"<.{name}>.name")
        self.vocabulary.add(type_, f"<.{name}>.value", f"{name}.RED.value")
        self.vocabulary.add("bool", f"(<{name}> == <{name}>)", f"(<{name}> is {name}.RED)")
        return [f"class {name}(Enum):", *(f"    {m} = {value}" for m, value in members.items())]

    def _class(self) -> list[str]:
        """Draw a script class: fields that ``__init__`` sets, and methods."""
        name = self.definition_name(_CLASSES)
        fields = self.fields([*PLAIN_TYPES, "List[int]", "Optional[int]", "Dict[str, int]"])
        methods = type(self)(self.draw, self.vocabulary.copy())
        methods.add_fields("self", fields)
        lines: list[str] = []
        outside: list[tuple[str, list[str]]] = []
        for method in ("step", "a_method_with_a_name_that_is_long")[: self.draw(st.integers(0, 2))]:
            signature = methods.signature(method, "self")
            lines += methods.function(signature)
            # Inside the class, its methods have no defaults yet.
            methods.add_forms(signature.result, signature.calls(f"self.{method}")[:1])
            outside.append((signature.result, signature.calls(f"<{name}>.{method}")))
        parameters = ", ".join(f"{field}: {type_}" for field, type_ in fields.items())
        init = [f"def __init__(self, {parameters}):", *(f"    self.{f} = {f}" for f in fields)]
        self._new_type(name, f"{name}({', '.join(f'<{type_}>' for type_ in fields.values())})")
        self.vocabulary.objects.add(name)
        self.add_fields(f"<.{name}>", fields)
        for result, calls in outside:
            self.add_forms(result, calls)
        return [f"class {name}:", *(f"    {line}" for line in (*init, *lines))]

    def add_fields(self, owner: str, fields: dict[str, str]) -> None:
        """Add forms that read and write the fields of ``owner``."""
        for field, type_ in fields.items():
            self.vocabulary.add(type_, f"{owner}.{field}")
            self.vocabulary.statements.append(f"{owner}.{field} = <{type_}>")
            if type_ in ("int", "float", "Tensor"):
                self.vocabulary.statements.append(f"{owner}.{field} += <{type_}>")
            if type_ == "List[int]":
                self.vocabulary.statements.append(f"{owner}.{field}.append(<int>)")


_LAYERS = (
    "nn.Linear(3, 3)", "nn.ReLU()", "nn.Dropout(0.5)", "nn.Identity()", "nn.LayerNorm(3)",
    "nn.Sequential(nn.Linear(3, 3), nn.Tanh())", "nn.Flatten(0)", "nn.Softmax(-1)",
    "nn.Linear(3, 3, bias=False)",
)  # fmt: skip
_ATTRIBUTES = ("scale", "_0", "limit", "an_attribute_with_a_long_name", "attribute", "state")
_METHODS = ("prepare", "_step", "a_method_whose_name_is_much_too_long_for_a_line")
_MUTABLE = ("List[int]", "Dict[str, int]", "Optional[int]", "Optional[Tensor]", "List[Tensor]",
            "Tuple[int, float]", "Dict[str, List[int]]")  # fmt: skip


class Models(Definitions):
    """Writes one class at a time; forms that begin with ``self`` belong to that class."""

    def __init__(self, draw: st.DrawFn, vocabulary: Vocabulary) -> None:
        super().__init__(draw, vocabulary)
        self.outside = vocabulary.copy()
        self.annotations: list[str] = []
        self.init: list[str] = []

    def module_class(self, name: str, forward: Signature) -> list[str]:
        self._attributes()
        self._tensors()
        self._layers()
        methods = [line for _ in range(self.draw(st.integers(0, 2))) for line in self._method()]
        methods += self.function(forward)
        init = ["def __init__(self) -> None:", "    super().__init__()"]
        body = [*self.annotations, *init, *(f"    {line}" for line in self.init), *methods]
        return [f"class {name}(nn.Module):", *(f"    {line}" for line in body), ""]

    def add_part(self) -> list[str]:
        """Add a class of which the model holds an instance."""
        part = Models(self.draw, self.vocabulary.copy())
        forward = part.signature("forward", "self")
        self.init.append("self.part = Part()")
        self.add_forms(forward.result, forward.calls("self.part"))
        return part.module_class("Part", forward)

    def _attributes(self) -> None:
        for name in _ATTRIBUTES[: self.draw(st.integers(0, len(_ATTRIBUTES) - 2))]:
            if self.chance(4):
                self._constant(name)
            else:
                self._attribute(name, self.pick([*PLAIN_TYPES, *_MUTABLE]))

    def _attribute(self, name: str, type_: str) -> None:
        if type_ not in PLAIN_TYPES or self.draw(st.booleans()):
            self.annotations.append(f"{name}: {type_}")
        self.init.append(f"self.{name} = {self.expression(type_, Scope(), 0)}")
        self.add_fields("self", {name: type_})

    def _constant(self, name: str) -> None:
        type_ = self.pick(("int", "float", "bool", "str", "Tuple[int, float]"))
        self.annotations.append(f"{name}: Final[{type_}]")
        self.init.append(f"self.{name} = {self.expression(type_, Scope(), 0)}")
        self.vocabulary.add(type_, f"self.{name}")

    def _tensors(self) -> None:
        if self.draw(st.booleans()):
            self.init.append("self.weight = nn.Parameter(torch.ones(3, 3))")
            self.vocabulary.add("Tensor", "self.weight", "F.linear(<Tensor>, self.weight)")
        if self.draw(st.booleans()):
            self.init.append('self.register_buffer("count", torch.zeros(3))')
            self.vocabulary.add("Tensor", "self.count")
            self.vocabulary.statements += ["self.count += 1", "self.count = <Tensor>"]

    def _layers(self) -> None:
        layers = self.draw(st.lists(st.sampled_from(_LAYERS), max_size=3))
        match layers:
            case [one]:
                self.init.append(f"self.layer = {one}")
                self.vocabulary.add("Tensor", "self.layer(<Tensor>)")
            case [_, _]:
                self._layer_list(layers)
            case [_, _, _]:
                self._layer_table(layers)

    def _layer_list(self, layers: list[str]) -> None:
        self.init.append(f"self.layers = nn.ModuleList([{', '.join(layers)}])")
        self.vocabulary.add("Tensor", "self.layers[0](<Tensor>)", "self.layers[-1](<Tensor>)")
        self.vocabulary.add("int", "len(self.layers)")
        self.vocabulary.statements += [
            "for layer in self.layers:\n    <=Tensor> = layer(<Tensor>)",
            "for i, layer in enumerate(self.layers):\n    <=Tensor> = layer(<Tensor>) + i",
        ]

    def _layer_table(self, layers: list[str]) -> None:
        pairs = ", ".join(f"'k{index}': {layer}" for index, layer in enumerate(layers))
        self.init.append(f"self.table = nn.ModuleDict({{{pairs}}})")
        self.vocabulary.add("Tensor", "self.table['k1'](<Tensor>)")
        self.vocabulary.add("bool", "('k0' in self.table)")
        self.vocabulary.statements += [
            "for key, layer in self.table.items():\n    <=Tensor> = layer(<Tensor>)",
            "for layer in self.table.values():\n    <=Tensor> += layer(<Tensor>)",
        ]

    def _method(self) -> list[str]:
        kind = self.pick(("method", "export", "property", "static"))
        name = self.definition_name(_METHODS)
        if kind == "property":
            return self._property(name)
        if kind == "static":
            return self._static_method(name)
        signature = self.signature(name, "self")
        lines = self.function(signature)
        calls = signature.calls(f"self.{name}")
        if kind == "export":
            # Exported methods are compiled together, before any of them has its defaults.
            self.add_forms(signature.result, calls[::2])
            return ["@torch.jit.export", *lines]
        self.add_forms(signature.result, calls)
        return lines

    def _property(self, name: str) -> list[str]:
        # torch.jit.script evaluates properties: they must not raise.
        type_ = self.pick(PLAIN_TYPES)
        value = self.expression(type_, Scope(), 0)
        self.vocabulary.add(type_, f"self.{name}")
        return ["@property", f"def {name}(self) -> {type_}:", f"    return {value}"]

    def _static_method(self, name: str) -> list[str]:
        inside, self.vocabulary = self.vocabulary, self.outside
        signature = self.signature(name)
        lines = self.function(signature, 1)
        self.vocabulary = inside
        self.add_forms(signature.result, signature.calls(f"self.{name}"))
        return ["@staticmethod", *lines]
