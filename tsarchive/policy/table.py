"""What every operator of torch does, by its name, and why the policy decides as it does."""

from __future__ import annotations

from typing import Final

from tsarchive.policy.table_effects import EFFECTS
from tsarchive.policy.table_libraries import CLASSES, LIBRARIES
from tsarchive.policy.table_private import PRIVATE
from tsarchive.policy.table_public import COMPUTING

__all__ = ["TABLE"]

TABLE: Final = (*COMPUTING, *EFFECTS, *PRIVATE, *LIBRARIES, *CLASSES)
