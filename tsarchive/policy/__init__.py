"""The operators and classes that the code of an archive may reach, and the terms of its loading.

May import the IR and the table of operators.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final

from tsarchive.errors import CallError
from tsarchive.ir.names import NATIVE_PREFIX
from tsarchive.operators.risks import Row, row_of
from tsarchive.renaming import renamed_fields


@renamed_fields(bytes="nbytes")
@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on each call from Python into the code of an archive; None means no bound.

    A call that is made while another one runs in the same thread shares the budget of that one;
    so does all code that runs while an archive is loaded. Code that goes beyond a bound ends with
    a LimitError, which it cannot catch. Raises CallError for a bound that is no number, negative
    or not finite.

        >>> bounded = tsarchive.load("net.pt", limits=tsarchive.Limits(steps=1_000, seconds=60))
        >>> bounded(x).shape
        torch.Size([3, 2])
    """

    steps: int | None = None
    """Nodes of the code that run. Each turn of a loop counts one more, and so does every full
    1024 bytes of the strings and lists that an operator reads or makes."""
    seconds: float | None = None
    """Time on the clock. It is checked between operators: one that runs long is not cut off."""
    nbytes: int | None = None
    """Bytes that operators take for tensors, lists and strings, freed again or not.

    They are counted before they are taken, where arguments tell how many there will be."""

    def __post_init__(self) -> None:
        for name in ("steps", "nbytes"):
            _check(name, getattr(self, name), int)
        _check("seconds", self.seconds, (int, float))


def _check(name: str, bound: object, kinds: type | tuple[type, ...]) -> None:
    if bound is None:
        return
    if not isinstance(bound, kinds) or isinstance(bound, bool):
        raise CallError(f"the limit {name} is a {type(bound).__name__}, not a number")
    assert isinstance(bound, (int, float))
    if not math.isfinite(bound) or bound < 0:
        message = f"the limit {name} is {bound}, not zero or more"
        raise CallError(message, hint="None stands for no limit")


NO_LIMITS = Limits()


_OPERATOR: Final = r"[A-Za-z_]\w*::([A-Za-z_]\w*(\.\w+)?|\*)"
_CLASS: Final = r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*\.[A-Z_]\w*"
_WHOLE_CLASS: Final = re.escape(NATIVE_PREFIX) + r"([A-Za-z_]\w*\.)+([A-Za-z_]\w*|\*)"


@dataclass(frozen=True, slots=True, repr=False)
class Policy:
    """Decides over operators and classes bound from C++. A policy is a value: it never changes.

    The default refuses what touches files, processes, the network, the state of the process or
    memory that is not its own, and everything of libraries other than torch. Each row of
    ``tsarchive/operators/risks.txt`` tells why.

        >>> policy = tsarchive.Policy.default().forbid("aten::relu")
        >>> policy.forbids("aten::relu"), tsarchive.Policy.trusted().is_trusting
        (True, True)
    """

    allowed: frozenset[str] = frozenset()
    is_trusting: bool = False
    forbidden: frozenset[str] = frozenset()

    @classmethod
    def default(cls) -> Policy:
        """Operators that compute, draw random numbers, print or warn, and nothing else."""
        return cls()

    @classmethod
    def trusted(cls) -> Policy:
        """Every operator and class of this process: for archives that you would run as code."""
        return cls(is_trusting=True)

    def allow(self, *names: str) -> Policy:
        """This policy, and what these names mean, whatever the table says of it.

        An operator (``torchvision::nms``), one overload of it (``aten::set_.source_Storage``), all
        operators of a namespace, those that write files included (``torchvision::*``), or a
        class (``mylib.Packed``, ``__torch__.torch.classes.mylib.Packed``). Raises CallError for
        a name of another form.
        """
        found = self.allowed | frozenset(map(_checked, names))
        return Policy(found, self.is_trusting, self.forbidden)

    def forbid(self, *names: str) -> Policy:
        """This policy without what these names mean, whatever it allows.

        Names are those of :meth:`allow`, and those of backends that run parts of programs of
        ExecuTorch: ``delegate::XnnpackBackend``, ``delegate::*``. Raises CallError as that does.
        """
        found = self.forbidden | frozenset(map(_checked, names))
        return Policy(self.allowed, self.is_trusting, found)

    def forbids(self, name: str) -> bool:
        """Return whether the caller has forbidden an operator, a class or a backend."""
        return not self.forbidden.isdisjoint(_meanings(name))

    def refusal(self, name: str) -> Row | None:
        """The row of the table that refuses an operator or a class; None when it may be reached.

        Operators are named with or without their overload, classes with or without
        ``__torch__.torch.classes.``.
        """
        row = row_of(name)
        if self.forbids(name):
            return Row(name, row.risk, "the caller forbids it")
        if self.is_trusting or not self.allowed.isdisjoint(_meanings(name)):
            return None
        return row if row.is_refused else None

    def __repr__(self) -> str:
        text = "Policy.trusted()" if self.is_trusting else "Policy.default()"
        if self.allowed and not self.is_trusting:
            text += f".allow({_listed(self.allowed)})"
        return text + (f".forbid({_listed(self.forbidden)})" if self.forbidden else "")


def _listed(names: frozenset[str]) -> str:
    return ", ".join(f'"{name}"' for name in sorted(names))


def _meanings(name: str) -> tuple[str, ...]:
    """The names that allow what ``name`` names."""
    namespace, is_operator, operator = name.partition("::")
    if is_operator:
        return name, f"{namespace}::{operator.partition('.')[0]}", f"{namespace}::*"
    return (NATIVE_PREFIX + name.removeprefix(NATIVE_PREFIX),)


def _checked(name: str) -> str:
    """A name in the form that is kept: classes in full."""
    if isinstance(name, str) and re.fullmatch(f"{_OPERATOR}|{_WHOLE_CLASS}", name):
        return name
    if isinstance(name, str) and re.fullmatch(_CLASS, name) and not name.startswith("__torch__."):
        return NATIVE_PREFIX + name
    raise CallError(f"{name!r} names no operator and no class", hint=_hint(name))


def _hint(name: object) -> str:
    if name == "*":
        return "Policy.trusted() allows everything"
    if isinstance(name, str) and name.count(".") == 1 and "::" not in name:
        operator = name.replace(".", "::")
        return f'The operator is written "{operator}", a class "{NATIVE_PREFIX}{name}"'
    return 'Write "torchvision::nms", "torchvision::*", or "mylib.Packed" for a class'


@dataclass(frozen=True, slots=True)
class Guard:
    """The bounds of code of an archive: what it may reach, and how far it may go."""

    policy: Policy = Policy.default()  # noqa: RUF009  # a policy never changes
    limits: Limits = NO_LIMITS

    def __post_init__(self) -> None:
        """Raises CallError for values of other types: nothing may be taken for a policy."""
        if not isinstance(self.policy, Policy):
            raise CallError(
                f"{self.policy!r} is no policy", hint="Give Policy.default() or Policy.trusted()"
            )
        if not isinstance(self.limits, Limits):
            raise CallError(f"{self.limits!r} is no Limits", hint="Give Limits(seconds=...)")


FOR_STRANGERS = Guard()
"""The default policy, and no limits."""
