"""The table of Python functions for operators, with all that belongs in it."""

from tsarchive.run.natives import containers, numbers, onednn, spectra, tensors, upgraders
from tsarchive.run.natives.table import NATIVES

__all__ = ["NATIVES"]

# Importing a module of operators enters them into the table.
_OPERATORS = (containers, numbers, onednn, spectra, tensors, upgraders)
