"""Operators that run as Python functions instead of through ``torch.ops``.

``NATIVES`` maps schema and overload name to the function, ``UPGRADERS`` and ``BUILTINS``
hold the old meanings of operators and the functions that TorchScript defines in its own language.
Not here, because ``torch.ops`` runs them: operators that compute on tensors, complex arithmetic,
gamma and lgamma, and what answers about the process. ``symbolic_shapes`` is for tracers, and
imported when one comes; the tables are imported when code has an operator that may be in one.
"""

from typing import TYPE_CHECKING, Any, Final

from tsarchive.lazy_members import lazy_member

if TYPE_CHECKING:
    from .all_natives import NATIVES
    from .formatting import format_value
    from .futures import Awaitable, Future
    from .tensors import BUILTINS
    from .upgraders import UPGRADERS

__all__ = ["BUILTINS", "NATIVES", "UPGRADERS", "Awaitable", "Future", "format_value"]

_HOMES: Final = {
    "BUILTINS": f"{__name__}.tensors",
    "NATIVES": f"{__name__}.all_natives",
    "UPGRADERS": f"{__name__}.upgraders",
    **dict.fromkeys(("Awaitable", "Future"), f"{__name__}.futures"),
    "format_value": f"{__name__}.formatting",
}


def __getattr__(name: str) -> Any:
    return lazy_member(__name__, _HOMES, name)
