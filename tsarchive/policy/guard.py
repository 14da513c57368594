"""The terms on which an archive is loaded."""

from __future__ import annotations

from dataclasses import dataclass

from tsarchive.policy.limits import NO_LIMITS, Limits
from tsarchive.policy.policy import Policy

__all__ = ["Guard"]

_DEFAULT = Policy.default()


@dataclass(frozen=True, slots=True)
class Guard:
    """What code of an archive may reach, and how far it may go."""

    policy: Policy = _DEFAULT
    limits: Limits = NO_LIMITS
