"""Which operators and classes the code of an archive may reach, and how far it may go."""

from tsarchive.policy.guard import Guard
from tsarchive.policy.limits import Limits
from tsarchive.policy.policy import Policy

__all__ = ["Guard", "Limits", "Policy"]
