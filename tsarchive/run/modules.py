"""Archive objects as Python sees them: modules, containers, and modules put in their place.

Code of an archive calls the ``forward`` of a submodule directly. When Python code registered a
hook on that submodule, or put another module in its place, the call goes through
``torch.nn.Module.__call__`` instead. Such a module is known by the methods that its author gave it
and by attributes of the declared types.

``unchecked_cast`` says of any value that it is of any type, and lists may be known under two
types. So an object is checked where code names a member of it: no text of an archive reaches a
member of anything else in Python, be it a tensor, a class or a part of this library.

Children of containers can be replaced, not added or removed: code of the archive names each.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, Final

import torch
from torch.nn import Module, ModuleDict, ModuleList, Sequential
from torch.nn.modules import module as torch_module
from torch.nn.utils.rnn import PackedSequence

from tsarchive.errors import CallError, ScriptError
from tsarchive.ir.classes import Attribute, ClassType, Function
from tsarchive.ir.types import TupleType, annotation

from .conversion import Mismatch, admitted, type_of_class
from .copying import deep_copy, reduce_instance
from .natives.table import fault
from .slots import FINDERS, SlotKind, get_slot, hides_member, slot_kind

if TYPE_CHECKING:
    from tsarchive.ir.graph import Value


def is_certain(value: Value, function: Function) -> bool:
    """Return whether no code can make a value be of another class: it is ``self``, or just created.

    Methods are called as such only, which looks at their ``self``. Hooks are functions to the code
    of an archive, which gives them what it likes.
    """
    if value.node.kind == "prim::CreateObject":
        return True
    type_ = value.type
    params = function.graph.params
    if not isinstance(type_, ClassType) or not params or params[0] is not value:
        return False
    return type_.methods.get(function.name) is function


def checked(value: Any, class_: type) -> Any:
    """``value``, if it is of ``class_``."""
    if isinstance(value, class_):
        return value
    raise refuse_receiver(value, type_of_class(class_))


def method_of(value: Any, class_: type, name: str, method: Callable[..., Any]) -> Any:
    """The function that runs for ``value.name(...)``: ``method``, if ``value`` is of ``class_``."""
    if isinstance(value, class_):
        return method
    if _stands_for(value, class_):
        return foreign_method(type(value), name)
    raise refuse_receiver(value, type_of_class(class_))


def read_slot(value: Any, class_: type, name: str) -> Any:
    """The slot ``name`` of ``value``, if it is of ``class_``."""
    owner = type_of_class(class_)
    assert isinstance(owner, ClassType)
    attribute = owner.attributes[name]
    if _stands_for(value, class_):
        return _foreign_slot(value, class_, attribute, slot_kind(owner, attribute))
    if not isinstance(value, class_):
        raise refuse_receiver(value, owner)
    find = FINDERS.get(slot_kind(owner, attribute))
    return get_slot(value, attribute) if find is None else find(value, name)


def is_foreign_module(class_: type) -> bool:
    """Return whether objects of a class are modules that no archive defines."""
    return issubclass(class_, torch.nn.Module) and type_of_class(class_) is None


def _stands_for(value: Any, class_: type) -> bool:
    return issubclass(class_, torch.nn.Module) and is_foreign_module(type(value))


def _foreign_slot(
    module: torch.nn.Module, class_: Any, attribute: Attribute, kind: SlotKind
) -> Any:
    """The attribute of a foreign module with the name of a slot, as a value of its type."""
    name = attribute.name
    if kind in FINDERS:
        return FINDERS[kind](module, name)
    table = module._modules if kind is SlotKind.MODULE else module.__dict__
    if name not in table or hides_member(name, is_module=True):
        raise fault(AttributeError, f"{type(module).__name__} has no attribute {name!r}")
    if kind is SlotKind.MODULE:
        return table[name]
    try:
        return class_.tsarchive_classes.table.converter(attribute.type)(table[name])
    except (Mismatch, TypeError, ValueError, OverflowError, RuntimeError) as error:
        shown = f"{name!r} of {type(module).__name__}"
        raise fault(TypeError, f"{shown} is no {annotation(attribute.type)}") from error


def foreign_method(class_: type, name: str) -> Callable[..., Any]:
    """A method of a module that no archive defines.

    What torch itself defines is out of reach: a module of torch.jit, for one, can save itself.
    """
    owner = next((base for base in class_.__mro__ if name in vars(base)), object)
    found = vars(owner).get(name)
    is_free = not name.startswith("__") and owner.__module__.partition(".")[0] != "torch"
    if not (is_foreign_module(class_) and is_free and isinstance(found, FunctionType)):
        raise ScriptError(f"an object of {class_.__name__} has no method {name!r} to call")
    return lambda *arguments: admitted(found(*arguments))


def refuse_receiver(value: Any, wanted: Any) -> ScriptError:
    """The error for a value that is not of the class that the code expects."""
    shown = "an interface" if wanted is None else annotation(wanted)
    return fault(TypeError, f"expected an object of {shown}, but found a {type(value).__name__}")


# torch keeps these tables for good, and changes what is in them.
_ALL_PRE_HOOKS = torch_module._global_forward_pre_hooks
_ALL_HOOKS = torch_module._global_forward_hooks
_ALL_BACKWARD_PRE_HOOKS = torch_module._global_backward_pre_hooks
_ALL_BACKWARD_HOOKS = torch_module._global_backward_hooks


PACKED_SEQUENCE: Final = "__torch__.torch.nn.utils.rnn.PackedSequence"


class _InternalCall(threading.local):
    """The call of a submodule that archive code in this thread is making."""

    def __init__(self) -> None:
        self.module: Any = None
        self.arguments: tuple[Any, ...] = ()
        self.method = "forward"


internal_call = _InternalCall()


class ArchiveObject:
    """An instance of a script class. Slots that were never set read as None."""

    tsarchive_class: ClassVar[Any]
    tsarchive_classes: ClassVar[Any]
    tsarchive_settable: ClassVar[frozenset[str]] = frozenset()
    slot_keys: ClassVar[tuple[str, ...]] = ()

    def __new__(cls, *_arguments: Any, **_keywords: Any) -> ArchiveObject:
        made = super().__new__(cls)
        made.__dict__.update(dict.fromkeys(cls.slot_keys))
        return made

    def __setattr__(self, name: str, value: Any) -> None:
        if name in type(self).tsarchive_settable:
            value = _converted(self, name, value)
        super().__setattr__(name, value)

    __deepcopy__ = deep_copy
    __reduce_ex__ = reduce_instance


class ArchiveModule(torch.nn.Module):
    """A module of an archive.

    Attributes that its class declares are converted when they are set, and refuse values of
    other types with a CallError. ``tsarchive_methods`` lists what can be called.

    ``tsarchive_class`` is its class as the archive defines it, ``tsarchive_classes`` what all
    classes of the archive share, ``original_name`` the name of the class it was scripted from.
    """

    tsarchive_class: ClassVar[Any]
    tsarchive_classes: ClassVar[Any]
    tsarchive_settable: ClassVar[frozenset[str]] = frozenset()
    original_name: ClassVar[str]

    @classmethod
    def tsarchive_methods(cls) -> dict[str, inspect.Signature]:
        """The methods of the archive that Python code can call, with their signatures."""
        members = vars(cls)
        names = (name for name in cls.tsarchive_class.methods if name in members)
        return {name: inspect.signature(getattr(cls, name)) for name in names}

    def __setattr__(self, name: str, value: Any) -> None:
        if name in type(self).tsarchive_settable:
            # It stays a plain attribute, even if a parameter is set.
            object.__setattr__(self, name, _converted(self, name, value))
        else:
            super().__setattr__(name, value)

    def __rich_repr__(self) -> Iterator[tuple[str, Module]]:
        yield from self.named_children()

    def _repr_html_(self) -> str:
        modules = [*self.named_modules()]
        rows = ((name, type(module).__name__, _own_elements(module)) for name, module in modules)
        head = "module", "class", "parameters of its own"
        from tsarchive.notebook import table

        return table(type(self).__name__, rows, head, len(modules))

    __deepcopy__ = deep_copy
    __reduce_ex__ = reduce_instance


def _own_elements(module: Module) -> str:
    return f"{sum(parameter.numel() for parameter in module.parameters(recurse=False)):,}"


class HookedArchiveModule(ArchiveModule):
    """A module whose archive class has hooks of its own.

    ``module(...)`` runs them around those registered in Python; ``module.forward(...)`` runs
    neither, as in torch.
    """

    archive_pre_hooks: ClassVar[tuple[Callable[..., Any], ...]] = ()
    archive_hooks: ClassVar[tuple[Callable[..., Any], ...]] = ()

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        metering = type(self).tsarchive_classes.enforcement.metering
        if metering is None or torch.compiler.is_compiling():
            return self._call_hooked(*arguments, **keywords)
        return metering.bounded(self._call_hooked)(*arguments, **keywords)

    def _call_hooked(self, *arguments: Any, **keywords: Any) -> Any:
        for hook in type(self).archive_pre_hooks:
            changed = hook(self, arguments)
            if changed is not None:
                arguments = changed if isinstance(changed, tuple) else (changed,)
        result = super().__call__(*arguments, **keywords)
        for hook in type(self).archive_hooks:
            changed = hook(self, arguments, result)
            if changed is not None:
                result = changed
        return result


def _converted(owner: ArchiveModule | ArchiveObject, name: str, value: Any) -> Any:
    type_ = owner.tsarchive_class.attributes[name].type
    try:
        return owner.tsarchive_classes.table.converter(type_)(value)
    except (Mismatch, TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise CallError(
            f"the attribute {name!r} of {type(owner).__name__} takes a value of type "
            f"{annotation(type_)!r}, not {type(value).__name__!r}"
        ) from error


def _members_as_traced(module: Any) -> dict[str, Any]:
    """The ``__dict__`` of a module, in a way that tracers follow."""
    members: dict[str, Any] = module.__dict__
    return members


# The same, without a search in the classes of the module: torch.nn.Module has a ``__getattr__``,
# which makes that a long one, through memory that no cache may hold.
_members_of: Final[Callable[[Any], dict[str, Any]]] = Module.__dict__["__dict__"].__get__


def is_plain(module: Any, class_: type) -> bool:
    """Return whether ``module`` is exactly of this class, and has no hooks."""
    return plain_members(module, class_, _members_as_traced) is not None


def plain_members(
    module: Any, class_: type, members_of: Callable[[Any], dict[str, Any]] = _members_of
) -> dict[str, Any] | None:
    """The ``__dict__`` of a module that is exactly of this class and has no hooks, else None."""
    if type(module) is not class_:
        return None
    members = members_of(module)
    # This runs before each call of a submodule, so it has no loop over the tables.
    if (
        members["_forward_hooks"]
        or members["_forward_pre_hooks"]
        or members["_backward_hooks"]
        or members["_backward_pre_hooks"]
        or "forward" in members
        or _ALL_HOOKS
        or _ALL_PRE_HOOKS
        or _ALL_BACKWARD_HOOKS
        or _ALL_BACKWARD_PRE_HOOKS
    ):
        return None
    return members


def call_module(module: Any, *arguments: Any, method: str = "forward") -> Any:
    """Call a submodule with its Python hooks; archive code calls the archive's hooks itself.

    ``method`` names the overload of ``forward``: torch numbers them.
    """
    if not isinstance(module, ArchiveModule):
        if not is_foreign_module(type(module)):
            raise refuse_receiver(module, None)
        return admitted(module(*map(_as_library_has_it, arguments)))
    call = internal_call
    around = call.module, call.arguments, call.method
    call.module, call.arguments, call.method = module, arguments, method
    try:
        return admitted(torch.nn.Module.__call__(module, *arguments))
    finally:
        call.module, call.arguments, call.method = around


def _as_library_has_it(value: Any) -> Any:
    """Return a packed sequence of an archive as one of torch, whose modules ask for that class."""
    type_ = type_of_class(type(value))
    is_packed = isinstance(type_, TupleType) and type_.qualified_name == PACKED_SEQUENCE
    return PackedSequence(*value) if is_packed else value


def is_internal_call(module: Any, arguments: tuple[Any, ...]) -> bool:
    """Return whether archive code calls ``forward`` with these very arguments, and no hook others.

    They need no conversion then, and lists are shared with the caller.
    """
    given = internal_call.arguments
    if internal_call.module is not module or len(arguments) != len(given):
        return False
    return all(one is other for one, other in zip(arguments, given, strict=True))


class _ListContainer(ArchiveModule):
    """Children by index, as torch.nn.ModuleList has them."""

    _of_slices: type[ModuleList | Sequential] = ModuleList
    __len__ = ModuleList.__len__
    __iter__ = ModuleList.__iter__

    def __getitem__(self, index: int | slice) -> Module | None:
        """A child; a slice gives a container of torch's own with the same children."""
        children = list(self._modules.values())
        if not isinstance(index, slice):
            return children[index]
        made = self._of_slices()
        for position, child in enumerate(children[index]):
            made.add_module(str(position), child)
        return made

    def __setitem__(self, index: int, child: Module) -> None:
        setattr(self, list(self._modules)[index], child)


class _SequentialContainer(_ListContainer):
    """Children by index, as torch.nn.Sequential has them."""

    _of_slices = Sequential


class _DictContainer(ArchiveModule):
    """Children by key, as torch.nn.ModuleDict has them."""

    __len__ = ModuleDict.__len__
    __iter__ = ModuleDict.__iter__
    __contains__ = ModuleDict.__contains__
    __getitem__ = ModuleDict.__getitem__
    keys = ModuleDict.keys
    items = ModuleDict.items
    values = ModuleDict.values

    def __setitem__(self, key: str, child: Module) -> None:
        if key not in self._modules:
            raise KeyError(key)
        setattr(self, key, child)


CONTAINERS: Final[dict[str, type[ArchiveModule]]] = {
    "__torch__.torch.nn.modules.container.ModuleList": _ListContainer,
    "__torch__.torch.nn.modules.container.Sequential": _SequentialContainer,
    "__torch__.torch.nn.modules.container.ModuleDict": _DictContainer,
}
"""The base classes of containers, by the name of their class in the archive without mangling."""
