"""The terms on which an archive is loaded."""

from __future__ import annotations

from dataclasses import dataclass

from tsarchive.errors import CallError
from tsarchive.policy.limits import NO_LIMITS, Limits
from tsarchive.policy.policy import Policy

__all__ = ["FOR_STRANGERS", "Guard"]


@dataclass(frozen=True, slots=True)
class Guard:
    """What code of an archive may reach, and how far it may go."""

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
