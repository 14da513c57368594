"""Runs archives: program graphs as Python functions, and classes of archives as Python classes.

* ``classes``: the facade of one archive; ``class_table`` holds its Python classes, which
  ``class_building`` builds, ``compiler`` its functions, ``enforcement`` its policy and limits.
* ``codegen`` and ``expressions`` write Python source, with ``passes`` as analyses; ``linkage`` is
  all that source refers to, ``lazy_functions`` compiles it at the first call, and
  ``structural_sharing`` shares it between classes.
* ``calls_from_python``, ``conversion``, ``modules``, ``containers``, ``copying`` and
  ``tracebacks``: archives as callers in Python see them.
* ``operators`` and ``natives`` run operators, ``direct`` through bindings of torch; ``guards``
  joins the tables of checks, and ``metering`` and ``budgets`` make operators pay.

May import the IR, the table of operators, policies and the printer's literals.
"""

import torch

from tsarchive.operators.versions import require_torch

require_torch(torch.__version__)
