"""Which operators and classes the code of an archive may reach."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Policy"]


@dataclass(frozen=True, slots=True)
class Policy:
    """Decides over operators by their qualified name. A policy is a value: it never changes."""

    allowed: frozenset[str] = frozenset()
    is_trusting: bool = False

    @classmethod
    def default(cls) -> Policy:
        """Operators that compute, and nothing else."""
        return cls()

    @classmethod
    def trusted(cls) -> Policy:
        """Every operator and class of this process: for archives that you would run as code."""
        return cls(is_trusting=True)

    def allow(self, *names: str) -> Policy:
        """This policy, and these operators, classes or namespaces."""
        return Policy(self.allowed | frozenset(names), self.is_trusting)

    def refusal(self, operator: str) -> str | None:
        """Why an operator (``aten::save``, ``aten::set_.source_Storage``) may not be reached.

        None when it may.
        """
        return None
