"""The classes and functions of libraries that code of archives may come back as."""

from __future__ import annotations

import inspect
from functools import cache
from importlib.metadata import entry_points
from typing import Final

import torch
from torch import nn

from tsarchive.errors import CallError
from tsarchive.ir.names import unmangled

ENTRY_POINTS: Final = "tsarchive.library"
_CODE: Final = "__torch__."
_CONTAINERS: Final = (
    nn.Sequential, nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict,
)  # fmt: skip
_registered: dict[str, type[nn.Module]] = {}


def register(*classes: type[nn.Module]) -> None:
    """Let modules of archives come back as these classes, which users can import.

    An archive names the module and the class that it was scripted or traced from, and a class is
    looked for under that name alone. Its constructor arguments are found like those of classes of
    torch.nn: by attributes of the same names, shapes and calls of operators.

    A distribution registers its classes without being imported by users: an entry point of the
    group ``tsarchive.library`` names a function that calls this one.

    Raises CallError for what is no class of modules, and for one that cannot be imported by name.
    """
    for class_ in classes:
        if not (isinstance(class_, type) and issubclass(class_, nn.Module)):
            raise CallError(f"{class_!r} is no class of modules")
        if "<locals>" in class_.__qualname__:
            raise CallError(
                f"{class_.__qualname__} stands inside a function",
                hint="Move the class to the top of its module, where it can be imported",
            )
        _registered[f"{class_.__module__}.{class_.__qualname__}"] = class_


def class_named(qualified_name: str) -> type[nn.Module] | None:
    """Return the class that a class of an archive is named after; None where it is not known."""
    name = unmangled(qualified_name).removeprefix(_CODE)
    return _torch_classes().get(name) or _known_to_others().get(name)


def importable_name(class_: type[nn.Module]) -> str:
    """Return the name by which users import a class."""
    if getattr(nn, class_.__name__, None) is class_:
        return f"torch.nn.{class_.__name__}"
    return f"{class_.__module__}.{class_.__qualname__}"


@cache
def _torch_classes() -> dict[str, type[nn.Module]]:
    """The classes of torch.nn whose modules compute something of their own."""
    found = (member for _, member in inspect.getmembers(nn, inspect.isclass))
    return {
        f"{class_.__module__}.{class_.__qualname__}": class_
        for class_ in found
        if issubclass(class_, nn.Module) and not issubclass(class_, _CONTAINERS)
        if class_ is not nn.Module and torch.nn.modules.lazy.LazyModuleMixin not in class_.__mro__
    }


def _known_to_others() -> dict[str, type[nn.Module]]:
    _ask_entry_points()
    return _registered


@cache
def _ask_entry_points() -> None:
    for point in entry_points(group=ENTRY_POINTS):
        point.load()()
