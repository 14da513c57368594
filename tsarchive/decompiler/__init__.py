"""Decompiles an archive to a package of readable Python that needs torch alone.

``package`` collects the files and the small run time that they need. ``program`` holds definitions.
``preparing`` copies the graph of a function and undoes what the compiler did to it: ``loops`` gives
loops their counts and conditions back, ``exits`` puts ways out in the place of flags, ``iteration``
finds what loops go through; ``flow`` is what such graphs have in common. Then bodies are translated
node by node: ``translation`` keeps the state of one function and writes expressions, ``operators``
those of operators, ``control_flow`` statements, and ``declaring`` gives local variables their
types. ``syntax`` makes trees, with references to what a module imports, and fills forms such as
``torch.device(_0)``. ``objects`` rebuilds what the modules hold, ``libraries`` tells which of them
are objects of torch.nn and the like, ``copied_natives`` cuts out the operators that are brought
along, ``layout`` writes modules as text, and ``formatting`` has ruff format it.

``checking`` compares a package that is scripted again with its archive; ``rescripting`` scripts it
in a process of its own, ``normalizing`` and ``settling`` bring both to one form.

May import the runner for its analyses and natives, importers of archives and what is known of their
writers, the recovery of modules of libraries, the bridge to torch.jit, and what saves, digests and
compares files.
"""

from .package import DecompileReport, WrittenFile, decompile

__all__ = ["DecompileReport", "WrittenFile", "decompile"]
