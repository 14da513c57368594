"""Which operators and classes the code of an archive may reach, and how far it may go."""

from tsarchive.policy.policy import FOR_STRANGERS, Guard, Policy

from .policy import Limits

__all__ = ["FOR_STRANGERS", "Guard", "Limits", "Policy"]
