"""Whether a PT2 archive is sound: its records, programs, payloads and pickles."""

from tsarchive.verifying.pt2.checking import Pt2Check

__all__ = ["Pt2Check"]
