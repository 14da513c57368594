"""The tables of Python functions for operators, with all that belongs in them."""

from tsarchive.run.natives import containers, numbers, onednn, spectra
from tsarchive.run.natives.table import NATIVES
from tsarchive.run.natives.tensors import BUILTINS
from tsarchive.run.natives.upgraders import UPGRADERS

__all__ = ["BUILTINS", "NATIVES", "UPGRADERS"]

# Importing a module of operators enters them into the table.
_OPERATORS = (containers, numbers, onednn, spectra)
