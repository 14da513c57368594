"""Printing of the definitions of a program: functions and types, and the records they go to."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, ClassVar

from tsarchive.errors import SaveError
from tsarchive.ir.classes import (
    Attribute,
    ClassConstant,
    ClassType,
    Function,
    FunctionType,
    InterfaceType,
    Likeness,
)
from tsarchive.ir.names import (
    TypeNames,
    checked_identifier,
    checked_type_name,
    is_identifier,
    name_error,
    to_identifier,
)
from tsarchive.ir.schema import Argument
from tsarchive.ir.source_ranges import TaggedText
from tsarchive.ir.types import EnumType, ListType, NamedType, TupleType, own_name

from .copies import Sample, Samples, is_plain, sample_of
from .literals import ConstantTable, Literals, check_zeros, enum_value_text, quoted
from .reading_back import needed_declarations, shadowed_builtins
from .statements import Statements, Versions

# Names that hold class metadata in a class body; slots of these names are quoted.
_METADATA = frozenset(
    {"__parameters__", "__buffers__", "__forward_hooks__", "__forward_pre_hooks__"}
)


class Definitions(Statements):
    """Prints the named types that one code record defines, one after the other."""

    has_samples: ClassVar[bool] = True
    samples: Samples | None = None

    def define(self, named: NamedType) -> None:
        match named:
            case FunctionType(function):
                self._function(function)
            case ClassType():
                self._class(named)
            case TupleType():
                self._named_tuple(named)
            case InterfaceType():
                self._interface(named)
            case EnumType():
                self._enum(named)

    def _class_line(self, named: NamedType, base: str) -> None:
        name = checked_identifier(own_name(named).rpartition(".")[2], "the class name")
        self.line(f"class {name}{base and f'({base})'}:")

    def _function(self, function: Function) -> None:
        """Print a function, as a copy of a sample where there is one."""
        likeness = self._likeness(function)
        if likeness is None or self.samples is None:
            self._print_function(function)
            return
        key = self._common(function, likeness)
        sample = self.samples.kept.find(key)
        if sample is not None and self._copy(sample, self.samples.names, function, likeness):
            return
        outer, self.body = self.body, TaggedText()
        self._print_function(function)
        outer.append(self.body)
        if self.samples.kept.may_have(key):
            name = self.annotation(function.schema.arguments[0].type) if self.level else ""
            counters, rename = self.names.counters, self.rename
            table = self.literals.constants
            found = sample_of(function, self.body, name, counters, rename, table)
            self.samples.kept.keep(key, found)
        self.body = outer

    def _likeness(self, function: Function) -> Likeness | None:
        """Return the likeness of a function that may be printed like another one."""
        is_hook = bool(self.level) and not self.in_method
        if function.liken is None or function.has_graph or is_hook:
            return None
        arguments = function.schema.arguments
        if self.level and not isinstance(arguments[0].type, ClassType):
            return None
        shown = (*arguments[bool(self.level) :], *function.schema.returns)
        found = function.liken() if all(map(_is_told, shown)) else None
        return None if found is None or found.shape is None else found

    def _common(self, function: Function, likeness: Likeness) -> Hashable:
        """Return all that decides over the text of a function but for the names of types."""
        schema, own = function.schema, bool(self.level)
        arguments = tuple(
            [one._replace(default=repr(one.default)) for one in schema.arguments[own:]]
        )
        return (
            function.name if own else self.rename(function.type), likeness.shape, self.level,
            schema.arguments[0].name if own else "", arguments, schema.returns, self.dialect,
            tuple(self.names.counters.items()),
        )  # fmt: skip

    def _copy(
        self, sample: Sample, names: TypeNames, function: Function, likeness: Likeness
    ) -> bool:
        """Print a function like the sample; return whether its types allow that."""
        own = function.schema.arguments[0].type if self.level else None
        classes = sample.submodules(own) if isinstance(own, ClassType) else []
        functions = None if classes is None else sample.functions(likeness, names)
        table = self.literals.constants
        if classes is None or functions is None or not sample.enter(likeness, table):
            return False
        for class_ in classes[:1]:
            self.register(class_)
        for called in functions:
            self.depend(called.type)
            self.rename(called.type)
        for class_ in classes[1:]:
            self.register(class_)
        self.versions.add_version(sample.needed, in_method=self.in_method)
        sample.copy_to(self.body, "" if own is None else self.annotation(own), likeness)
        self.names.counters = sample.counters
        return True

    def _print_function(self, function: Function) -> None:
        name = self.rename(function.type) if not self.level else function.name
        name = checked_identifier(name.rpartition(".")[2], "the function name")
        self._find_declarations(function)
        self._start_names(function, name)
        _check_order(function)
        check_zeros([argument.default for argument in function.schema.arguments])
        self.open_line()
        self.put(f"def {name}(")
        for index, argument in enumerate(function.schema.arguments):
            self._parameter(function, index, argument)
        self.put(f") -> {self.annotation(function.schema.return_type)}:\n")
        self.register(function.schema.return_type)
        self.body.mark(self.body.length, function)
        self.print_body(function.graph)
        self.body.mark(self.body.length, None)

    def _find_declarations(self, function: Function) -> None:
        found = needed_declarations(function.graph, function.schema.return_type)
        if found is None:
            raise SaveError(
                f"{function.qualified_name!r} has tuples with elements of wider declared types, "
                "in places where torch.jit does not read them back",
                hint="Use a NamedTuple there, or hold these elements apart",
            )
        self.declarations = found

    def _start_names(self, function: Function, name: str) -> None:
        """Keep values from shadowing builtins, and a free function from shadowing its own name."""
        self.names.start_function()
        shadowed = shadowed_builtins(function, None if self.level else name)
        if self.declarations.always:
            shadowed |= {"annotate"}
        if not self.level and name in shadowed:
            raise SaveError(
                f"the code of the function {name!r} needs the builtin that its name hides",
                hint="Rename the function",
            )
        self.names.used |= shadowed

    def _parameter(self, function: Function, index: int, argument: Argument) -> None:
        self.register(argument.type)
        is_chosen = not function.schema.has_unnamed
        name = self.names.parameter(to_identifier(argument.name), is_chosen=is_chosen)
        separator = ",\n    " if index else ""
        self.put(f"{separator}{name}: {self.annotation(argument.type)}")
        if argument.has_default:
            value: Any = argument.default
            if isinstance(argument.type, ListType) and isinstance(value, int | float):
                value = [value] * (argument.repeat or 1)
            self.put(f"={self.literals.text(value, argument.type)}")
        param = function.graph.params[index]
        self.identifiers[param] = name
        self.annotated.add(param)

    def _class(self, class_: ClassType) -> None:
        is_bound = class_.is_revived and self.rename(class_) == class_.qualified_name
        if is_bound or (class_.is_native and class_.methods):
            return  # defined in C++: the record exists, but stays empty
        self._class_line(class_, "Module" if class_.is_module else "")
        with self.indented():
            if class_.is_module:
                self._module_header(class_)
            elif not (class_.attributes or class_.methods):
                self.line("__annotations__ = []")  # a placeholder for an empty body
            for index, attribute in enumerate(class_.attributes.values()):
                self._attribute(attribute, is_first=index == 0)
            for constant in self.constants_of(class_) if self.dialect.has_class_constants else ():
                self._class_constant(constant)
            self.in_method = True
            for function in self.methods_of(class_):
                self._function(function)
            self.in_method = False
            for hook in class_.hooks():
                self._function(hook)

    def constants_of(self, class_: ClassType) -> Iterable[ClassConstant]:
        return class_.constants.values()

    def methods_of(self, class_: ClassType) -> Iterable[Function]:
        return class_.methods.values()

    def _module_header(self, class_: ClassType) -> None:
        slots = class_.attributes.values()
        self._name_list("__parameters__", [slot.name for slot in slots if slot.is_parameter])
        if self.dialect.lists_buffers:
            self._name_list("__buffers__", [slot.name for slot in slots if slot.is_buffer])
        for title, hooks in (
            ("__forward_pre_hooks__", class_.forward_pre_hooks),
            ("__forward_hooks__", class_.forward_hooks),
        ):
            if hooks:
                self._name_list(title, [hook.name for hook in hooks])

    def _name_list(self, title: str, names: list[str]) -> None:
        shown = "".join(f"{quoted(name)}, " for name in names)
        self.line(f"{title} = [{shown}]")

    def _attribute(self, attribute: Attribute, *, is_first: bool) -> None:
        self.register(attribute.type)
        type_text = self.annotation(attribute.type)
        if is_identifier(attribute.name) and attribute.name not in _METADATA:
            self.line(f"{attribute.name} : {type_text}")
            return
        if is_first:
            self.line("__annotations__ = []")
        self.line(f"__annotations__[{quoted(attribute.name)}] = {type_text}")

    def _class_constant(self, constant: ClassConstant) -> None:
        what = "the constant name"
        name = checked_identifier(constant.name, what)
        if name in _METADATA:
            raise name_error(name, what)
        check_zeros(constant.value)
        type_text = self.annotation(constant.type)
        value_text = self.literals.text(constant.value, constant.type)
        self.line(f"{constant.name} : Final[{type_text}] = {value_text}")

    def _named_tuple(self, type_: TupleType) -> None:
        if not type_.elements:
            raise _no_body(type_)
        self._class_line(type_, "NamedTuple")
        with self.indented():
            for name, element in zip(type_.fields, type_.elements, strict=True):
                field = checked_identifier(name, "the field name")
                self.line(f"{field} : {self.annotation(element)}")

    def _interface(self, interface: InterfaceType) -> None:
        if not interface.methods:
            raise _no_body(interface)
        self._class_line(interface, "ModuleInterface" if interface.is_module else "Interface")
        with self.indented():
            for name, schema in interface.methods.items():
                arguments = schema.arguments[1:]
                for type_ in (*(argument.type for argument in arguments), schema.return_type):
                    self.register(type_)
                shown = ""
                for argument in arguments:
                    parameter = checked_identifier(argument.name, "the parameter name")
                    shown += f", {parameter}: {self.annotation(argument.type)}"
                method = checked_identifier(name, "the method name")
                self.line(f"def {method}(self{shown}) -> {self.annotation(schema.return_type)}:")
                self.line("  pass")

    def _enum(self, enum: EnumType) -> None:
        self._class_line(enum, "Enum")
        with self.indented():
            for name, value in enum.members.items():
                member = checked_identifier(name, "the enum member name")
                self.line(f"{member} = {enum_value_text(value)}")


def _is_told(argument: Argument) -> bool:
    """Return whether what text says of an argument or result does not depend on names of types."""
    default = argument.default if argument.has_default else None
    is_number = default is None or isinstance(default, bool | int | float)
    is_text = isinstance(default, str) and default.isascii()
    return (is_number or is_text) and is_plain(argument.type)


def _no_body(named: NamedType) -> SaveError:
    return SaveError(
        f"{own_name(named)} has neither fields nor methods, so its definition has no text",
        hint="torch.jit reads no empty class of this kind",
    )


def _check_order(function: Function) -> None:
    """Check that no parameter without a default follows one with a default.

    A `*` would not help: calls are written without parameter names. torch reads lists without a
    default anywhere: it wrote them so where the default was a number that stood for a list of equal
    ones.
    """
    has_default = False
    for argument in function.schema.arguments:
        if argument.has_default:
            has_default = True
        elif has_default and not isinstance(argument.type, ListType):
            raise SaveError(
                f"the keyword-only parameter {argument.name!r} of {function.name!r} stands behind "
                "one with a default, which torch.jit does not read back",
                hint="Put parameters without a default first, or give none of them a default",
            )


class Program:
    """Prints classes and everything they depend on.

    Classes of objects come first, in the order in which they were pickled; then their dependencies,
    from a queue that grows during printing. Each file exists from its first type on.
    """

    def __init__(
        self,
        names: TypeNames,
        constants: ConstantTable,
        definitions: type[Definitions] = Definitions,
    ) -> None:
        self._names = names
        self._definitions = definitions
        self._literals = Literals(constants, self._reference, names.tag)
        self._versions = Versions()
        self._samples = Samples(names) if definitions.has_samples else None
        self._files: dict[str, Definitions] = {}
        self._queue: list[NamedType] = []
        self._queued: set[NamedType] = set()
        self._printed: set[NamedType] = set()
        self._checked: set[str] = set()

    def print_classes(self, classes: Iterable[ClassType]) -> None:
        for class_ in classes:
            self._print(class_)
        for named in self._queue:  # grows during the loop
            self._print(named)

    def files(self) -> dict[str, TaggedText]:
        """Return the text of each record by its name, in creation order."""
        return {
            f"code/{name.replace('.', '/')}.py": file.body for name, file in self._files.items()
        }

    def close(self) -> None:
        """Release the text and the graphs of everything printed; nothing else may need them."""
        self._files.clear()
        del self._literals  # which lead back here
        for named in self._printed:
            match named:
                case FunctionType(function):
                    function.drop_graph()
                case ClassType(is_native=False, is_revived=False):
                    for function in (*named.methods.values(), *named.hooks()):
                        function.drop_graph()

    @property
    def version(self) -> int:
        """The archive version that the printed operators need."""
        return self._versions.written

    def _reference(self, named: NamedType) -> str:
        """Return the name of a type as code mentions it."""
        name = self._names.name(named)
        if name not in self._checked:
            self._checked.add(checked_type_name(name))
        return name

    def _depend(self, named: NamedType) -> None:
        self._names.meet(named)
        if named not in self._queued:
            self._queued.add(named)
            self._queue.append(named)

    def _print(self, named: NamedType) -> None:
        if named in self._printed:
            return
        self._printed.add(named)
        self._names.meet(named)
        folder = self._names.name(named).rpartition(".")[0]
        file = self._files.get(folder)
        if file is None:
            file = self._definitions(self._literals, self._reference, self._depend, self._versions)
            file.samples = self._samples
            self._files[folder] = file
        file.define(named)
