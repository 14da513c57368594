"""Whether a PT2 archive is sound: its records, programs, payloads and pickles."""

from tsarchive.formats.pt2.verifying.checking import Pt2Check

__all__ = ["Pt2Check"]
