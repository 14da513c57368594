"""Runs archives: program graphs as Python functions, and classes of archives as Python classes.

* ``classes``: the Python classes and functions of one archive; ``compiler`` compiles its functions
  and shares code between classes of one structure, ``enforcement`` applies its policy and limits.
* ``codegen`` and ``expressions`` write Python source, with ``passes`` as analyses; ``linkage`` is
  all that source refers to, and compiles it at the first call.
* ``stored`` keeps what was compiled as plain values, and makes it of them again.
* ``calls_from_python``, ``conversion``, ``modules``, ``objects``, ``copying`` and ``tracebacks``:
  archives as callers in Python see them.
* ``operators`` and ``natives`` run operators, ``direct`` through bindings of torch; ``guards`` puts
  ``checks`` before them, and ``metering`` and ``costs`` make operators pay.

May import the IR, the table of operators, policies and the printer's literals.
"""

import torch

from tsarchive.operators.registry import require_torch

require_torch(torch.__version__)
