"""Drawing of the model: attributes, submodules, methods and ``forward``."""

from __future__ import annotations

from hypothesis import strategies as st

from .definitions import Definitions
from .functions import Signature
from .scope import Scope
from .vocabulary import PLAIN_TYPES, Vocabulary

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
