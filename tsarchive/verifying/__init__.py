"""Whether a file is a sound archive: its zip, its records, pickles, tensors and code."""

from tsarchive.verifying.checking import STEPS, verify
from tsarchive.verifying.report import Verdict, VerifyReport

__all__ = ["STEPS", "Verdict", "VerifyReport", "verify"]
