"""Operators that run as Python functions instead of through ``torch.ops``.

``NATIVES`` maps schema and overload name to the function, ``UPGRADERS`` and ``BUILTINS``
hold the old meanings of operators and the functions that TorchScript defines in its own language.
Not here, because ``torch.ops`` runs them: operators that compute on tensors, complex arithmetic,
gamma and lgamma, and what answers about the process. ``symbolic_shapes`` is for tracers, and
imported when one comes.
"""

from tsarchive.run.natives import containers, numbers, onednn, spectra
from tsarchive.run.natives.formatting import format_value
from tsarchive.run.natives.futures import Awaitable, Future
from tsarchive.run.natives.table import NATIVES
from tsarchive.run.natives.tensors import BUILTINS
from tsarchive.run.natives.upgraders import UPGRADERS

__all__ = ["BUILTINS", "NATIVES", "UPGRADERS", "Awaitable", "Future", "format_value"]

# Importing a module of operators enters them into the table.
_OPERATORS = (containers, numbers, onednn, spectra)
