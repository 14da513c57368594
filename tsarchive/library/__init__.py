"""Recognises classes and functions of torch.nn and other libraries in the code of archives.

A module of an archive whose behaviour is that of a class which users can import becomes an object
of that class. What is not proven to be one stays what it is.
"""

from __future__ import annotations

from .functions import recovered_function
from .known import register
from .recovery import Recovered, recovered
from .replacing import Outcome, outcomes, with_library_modules

__all__ = [
    "Outcome",
    "Recovered",
    "outcomes",
    "recovered",
    "recovered_function",
    "register",
    "with_library_modules",
]
