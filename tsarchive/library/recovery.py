"""Which class of a library a module of an archive is of, and the arguments that make it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from tsarchive.run.modules import ArchiveModule

from .arguments import Proposal, Proposals, parameters_of
from .evidence import Evidence, evidence_of
from .known import class_named, importable_name
from .proof import Trial


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


def recovered(module: ArchiveModule) -> Recovered | None:
    """Return the class of a library that a module is proven to be of, and how to make it."""
    found = examined(module)
    return None if isinstance(found, str) else found[0]


def examined(module: ArchiveModule) -> tuple[Recovered, Proposal] | str:
    """Return what a module is proven to be, or why it stays what it is."""
    class_ = class_named(module.tsarchive_class.qualified_name)
    if class_ is None:
        return "its class is of no library that is known here"
    evidence = evidence_of(module)
    return _not_comparable(module, class_) or _proven(module, class_, evidence)


def _proven(
    module: ArchiveModule, class_: type[nn.Module], evidence: Evidence
) -> tuple[Recovered, Proposal] | str:
    proposals = Proposals(class_, evidence)
    difference = None
    for proposal in proposals:
        found = Trial(module, proposal.built, evidence).difference()
        if found is None:
            simplified = proposals.simplified(proposal)
            return _told(class_, simplified), simplified
        difference = difference or found
    return difference or proposals.misfit


def _not_comparable(module: ArchiveModule, class_: type[nn.Module]) -> str:
    """Say what a module has that no object of the class has; "" where there is nothing."""
    archived = module.tsarchive_class
    if archived.forward_pre_hooks or archived.forward_hooks:
        return "it has hooks of its own"
    others = [
        name for name in archived.methods
        if name.partition("__")[0] != "forward" and not callable(getattr(class_, name, None))
    ]
    if others:
        return f"{class_.__name__} has no method {others[0]!r}"
    return ""


def _told(class_: type[nn.Module], proposal: Proposal) -> Recovered:
    required = [p.name for p in parameters_of(class_) if p.default is p.empty]
    given = proposal.arguments
    positional = tuple(given[name] for name in required)
    keywords = {p.name: given[p.name] for p in parameters_of(class_) if p.name in given and p.name not in required}
    return Recovered(importable_name(class_), positional, keywords)
