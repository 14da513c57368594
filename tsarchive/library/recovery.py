"""Which class of a library a module of an archive is of, and the arguments that make it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from torch import nn

from tsarchive.errors import LimitError
from tsarchive.run.classes import Classes
from tsarchive.run.modules import ArchiveModule, is_plain
from tsarchive.run.tracebacks import without_origins

from .arguments import Arguments, Proposals, parameters_of
from .evidence import Evidence, beyond_comparison, evidence_of, tensors_of
from .inputs import Arguments as Inputs
from .known import class_named, importable_name
from .proof import REACHED_A_LIMIT, Trial


@dataclass(frozen=True, slots=True)
class Recovered:
    """A class of a library, and the arguments that make an object like a module of an archive.

    ``qualified_name`` is the name that users import, such as ``torch.nn.Linear``. ``positional``
    are leading arguments that people write without a name, ``keywords`` those that differ from the
    defaults, in the order of the signature.
    """

    qualified_name: str
    positional: tuple[Any, ...]
    keywords: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Proven:
    """The class that a module is proven to be of, and the arguments of its constructor by name."""

    class_: type[nn.Module]
    arguments: Arguments

    @property
    def recovered(self) -> Recovered:
        """The same in the form in which people write it."""
        parameters = [each for each in parameters_of(self.class_) if each.name in self.arguments]
        given = {each.name: self.arguments[each.name] for each in parameters}
        required = [each.name for each in parameters if each.default is each.empty]
        positional = tuple(given.pop(name) for name in required)
        return Recovered(importable_name(self.class_), positional, given)


@dataclass(slots=True)
class _Findings:
    """What was found out about modules with the same code.

    ``by_evidence`` holds it for modules with the same values and shapes; ``compared`` are those
    that were proven in full, by what does not tell numbers above 1 in these apart.
    """

    by_evidence: dict[Any, Proven | str] = field(default_factory=dict)
    compared: set[Any] = field(default_factory=set)


_known: WeakKeyDictionary[Classes, _Findings] = WeakKeyDictionary()


def recovered(module: ArchiveModule) -> Recovered | None:
    """Return the class of a library that a module is proven to be of, and how to make it."""
    found = examined(module)
    return found.recovered if isinstance(found, Proven) else None


def examined(module: ArchiveModule) -> Proven | str:
    """Return what a module is proven to be, or say in words why it stays what it is."""
    class_ = class_named(module.tsarchive_class.qualified_name)
    if class_ is None:
        return "its class is of no library that is known here"
    obstacle = _obstacle(module, class_)
    if obstacle is not None:
        return obstacle
    evidence = evidence_of(module)
    known = _known.setdefault(type(module).tsarchive_classes, _Findings())
    code = class_, _code_of(module), _kinds_of_tensors(module)
    key, likeness = (*code, repr(evidence)), (*code, repr(evidence.without_sizes()))
    if key not in known.by_evidence:
        with warnings.catch_warnings(), without_origins():
            warnings.simplefilter("ignore")  # of inputs that nobody has given
            is_known = likeness in known.compared
            known.by_evidence[key] = _proven(module, class_, evidence, is_known=is_known)
    if isinstance(known.by_evidence[key], Proven):
        known.compared.add(likeness)
    return known.by_evidence[key]


def _proven(
    module: ArchiveModule, class_: type[nn.Module], evidence: Evidence, *, is_known: bool
) -> Proven | str:
    """Compare a module with what may be made of it, in brief first where its code is known."""
    proposals = Proposals(class_, evidence)
    difference = None
    refuting: list[Inputs] = []
    try:
        for proposal in proposals:
            for is_brief in (True, False)[not is_known :]:
                trial = Trial(module, proposal.built, evidence, refuting, is_brief=is_brief)
                found = trial.difference()
                if found is None:
                    return Proven(class_, proposals.simplified(proposal).arguments)
            difference = difference or found
    except LimitError as error:
        return f"{REACHED_A_LIMIT}: {error}"
    return difference or proposals.misfit


def _obstacle(module: ArchiveModule, class_: type[nn.Module]) -> str | None:
    """Say what a module has that an object of the class cannot have; None where it has nothing."""
    archived = module.tsarchive_class
    parts = [*module.modules()]
    if archived.forward_pre_hooks or archived.forward_hooks:
        return "the archive has hooks for it"
    if not all(isinstance(part, ArchiveModule) and is_plain(part, type(part)) for part in parts):
        return "it was changed after it was loaded"
    if any(tensor.device.type != "cpu" for _, tensor in tensors_of(module)):
        return "its tensors are not on the CPU, where results are compared"
    for name in archived.methods:
        if name.partition("__")[0] != "forward" and not callable(getattr(class_, name, None)):
            return f"{class_.__name__} has no method {name!r}"
    return beyond_comparison(module)


def _code_of(module: ArchiveModule) -> tuple[int, ...]:
    """The methods of a module and those in it; equal for classes that differ in mangled names."""
    return tuple(
        id(method.original)
        for part in module.modules()
        if isinstance(part, ArchiveModule)
        for method in part.tsarchive_class.methods.values()
    )


def _kinds_of_tensors(module: ArchiveModule) -> tuple[Any, ...]:
    return tuple((path, tensor.dtype, tensor.layout) for path, tensor in tensors_of(module))
