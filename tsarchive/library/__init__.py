"""Recognises classes and functions of torch.nn and other libraries in the code of archives.

A module of an archive whose behaviour is that of a class which users can import becomes an object
of that class. What is not proven to be one stays what it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tsarchive.ir.classes import Function
    from tsarchive.run.modules import ArchiveModule


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
    return None


def recovered_function(function: Function) -> str | None:
    """Return the name of the function of a library that one of an archive is proven to be."""
    return None
