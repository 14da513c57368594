"""What text of one family of archives means otherwise than text that torch writes today."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any


def _nothing() -> Mapping[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Dialect:
    """The defaults are the rules of archives with a data.pkl.

    ``folder`` holds the code records of qualified names. ``free_version`` is the operator
    version of functions and closures, None for the current one; a number is none that methods
    have. ``functions`` gives, by the names of old operators, the qualified names of functions
    that stand for them there, which are read as code of today. ``renamed`` gives operators that
    changed their name, not their meaning, their name of today. ``dtypes`` gives the number of
    the dtype that an operator used where ``dtype`` is None or not given; ``masks`` the place of
    an argument that could hold numbers and has to be a mask of bools today; ``flags`` the number
    of arguments before a flag that operators have got since, and were as if it was set.
    """

    folder: str = "code"
    free_version: int | None = None
    functions: Mapping[str, str] = field(default_factory=_nothing)
    renamed: Mapping[str, str] = field(default_factory=_nothing)
    dtypes: Mapping[str, int] = field(default_factory=_nothing)
    masks: Mapping[str, int] = field(default_factory=_nothing)
    flags: Mapping[str, int] = field(default_factory=_nothing)

    def version_of(self, function: str) -> int | None:
        """The operator version of a function, by its qualified name."""
        return None if function in self.functions.values() else self.free_version


CURRENT = Dialect()
