"""Whether a PT2 archive is sound: its records, programs, payloads and pickles."""

from .checking import Pt2Check

__all__ = ["Pt2Check"]
