"""Names in pickles of loaded modules that were written before the modules of tsarchive moved."""

import sys

import tsarchive.policy
from tsarchive.loading import classes_of_pickle as _revived  # noqa: F401

for _name in ("guard", "limits", "policy"):
    sys.modules.setdefault(f"tsarchive.policy.{_name}", tsarchive.policy)
