"""Drawing of named tuples, enums, classes and helper functions beside the model."""

from __future__ import annotations

from hypothesis import strategies as st

from .functions import Functions
from .vocabulary import PLAIN_TYPES

_MOST_DEFINITIONS = 3
_HELPERS = ("f", "helper", "helper_whose_name_is_too_long_for_one_line", "twice", "g")
_CLASSES = ("Pair", "State", "Kind", "AClassWithANameThatIsLongerThanOthers", "C", "Counter")
_FIELDS = ("x", "count", "label", "values", "a_field_with_a_long_name", "_0")


class Definitions(Functions):
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
        fields = {f"f{field}" if field[0] == "_" else field: type_
                  for field, type_ in self.fields(self._field_types()).items()}  # fmt: skip
        values = [f"<{type_}>" for type_ in fields.values()]
        named = [f"{field}={value}" for field, value in zip(fields, values, strict=True)]
        self._new_type(name, f"{name}({', '.join(values)})", f"{name}({', '.join(named)})")
        for index, (field, type_) in enumerate(fields.items()):
            self.vocabulary.add(type_, f"<{name}>.{field}", f"<{name}>[{index}]")
        defined = [f"    {field}: {type_}" for field, type_ in fields.items()]
        return [f"class {name}(NamedTuple):", *defined]

    def _field_types(self) -> list[str]:
        """Draw field types. torch fails to compare two tuple constants with complex numbers."""
        return [type_ for type_ in self.vocabulary.types if type_ != "complex"]

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
