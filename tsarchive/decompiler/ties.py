"""What a model holds in several places: tied tensors, and modules that are one object.

A class ties them in its ``__init__``, so that a model that is made without the weights of the
archive, and trained, has the ties of the archive.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from itertools import takewhile
from typing import NamedTuple

import torch

from . import syntax
from .libraries import LibraryModules
from .naming import members_of
from .program import module_type

_MODULE = "module"


class Tie(NamedTuple):
    """A "parameter", "buffer" or "module" that is at two paths below a module."""

    kind: str
    first: str
    other: str


class Ties:
    """The ties of a model, by the innermost of the modules of ``written`` around both places."""

    def __init__(self, root: torch.nn.Module, written: Collection[torch.nn.Module]) -> None:
        self._of: dict[torch.nn.Module, list[Tie]] = {}
        modules = dict(root.named_modules())
        for kind, first, other in _ties(root):
            pairs = zip(first.split(".")[:-1], other.split(".")[:-1], strict=False)
            parts = [part for part, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)]
            while parts and modules[".".join(parts)] not in written:
                parts = parts[:-1]
            around = modules[".".join(parts)]
            if around in written:
                below = len("".join(f"{part}." for part in parts))
                self._of.setdefault(around, []).append(Tie(kind, first[below:], other[below:]))

    def common(self, modules: Collection[torch.nn.Module]) -> list[Tie]:
        """Return the ties that all of these modules have."""
        first, *rest = (self._of.get(module, []) for module in modules)
        return [tie for tie in first if all(tie in others for others in rest)]


def aliases(root: torch.nn.Module) -> Iterator[tuple[str, str]]:
    """Yield the later paths of modules that have several, each with the first one.

    What is below such a module is told of its first path alone.
    """
    paths = {module: path for path, module in root.named_modules()}
    for path, module in root.named_modules(remove_duplicate=False):
        owner = path.rpartition(".")[0]
        if paths[module] != path and paths.get(root.get_submodule(owner)) == owner:
            yield path, paths[module]


def _ties(root: torch.nn.Module) -> Iterator[Tie]:
    for path, first in aliases(root):
        yield Tie(_MODULE, first, path)
    for kind, find in (
        ("parameter", torch.nn.Module.named_parameters),
        ("buffer", torch.nn.Module.named_buffers),
    ):
        places: dict[int, str] = {}
        for path, module in root.named_modules():
            for place, tensor in find(module, path, recurse=False, remove_duplicate=False):
                first = places.setdefault(id(tensor), place)
                if first != place:
                    yield Tie(kind, first, place)


def tied(module: torch.nn.Module, tie: Tie, libraries: LibraryModules) -> ast.stmt:
    """Return the statement of ``__init__`` that ties two places of a module."""
    (source_path, _, source), (path, _, name) = (
        place.rpartition(".") for place in (tie.first, tie.other)
    )
    owners = [module.get_submodule(path) for path in (source_path, path)]
    if _is_attribute(tie, source_path, path) and _are_alike(owners, libraries):
        value = _member(owners[0], _holder(module, source_path), source)
        place = members_of(module_type(owners[1])).place(_holder(module, path), name)
        return syntax.store(place, value)
    # Type checkers know what these give.
    getter = "get_submodule" if tie.kind == _MODULE else f"get_{tie.kind}"
    found = syntax.form(f"_0.{getter}(_1)", syntax.name("self"), syntax.literal(tie.first))
    given = _holder(module, path), syntax.literal(name), found
    return syntax.statement(f"_0.register_{tie.kind}(_1, _2)", *given)


def _is_attribute(tie: Tie, *paths: str) -> bool:
    """Return whether types of attributes tell that both places hold the same."""
    return not any("." in path or (path and tie.kind == _MODULE) for path in paths)


def _are_alike(owners: list[torch.nn.Module], libraries: LibraryModules) -> bool:
    """Return whether both are of libraries, which declare parameters as tensors, or neither is."""
    return len({libraries.made(owner) is None for owner in owners}) == 1


def _holder(module: torch.nn.Module, path: str) -> ast.expr:
    """Return the expression for a module at a path below ``self``."""
    own = syntax.name("self")
    if "." in path:
        return syntax.form("_0.get_submodule(_1)", own, syntax.literal(path))
    return _member(module, own, path) if path else own


def _member(owner: torch.nn.Module, base: ast.expr, name: str) -> ast.expr:
    return members_of(module_type(owner)).reach(base, name)
