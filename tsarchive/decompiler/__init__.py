"""Decompiles an archive to a package of readable Python that needs torch alone.

``package`` collects the files and the small run time that they need. ``program`` holds definitions.
``preparing`` copies the graph of a function and undoes what the compiler did to it: ``loops`` gives
loops their counts and conditions back, ``exits`` puts ways out in the place of flags, ``iteration``
finds what loops go through; ``flow`` is what such graphs have in common. Then bodies are translated
node by node: ``translation`` keeps the state of one function and writes expressions, ``operators``
those of operators, ``control_flow`` statements. ``syntax`` makes trees, with references to what a
module imports, and fills forms such as ``torch.device(_0)``. ``objects`` rebuilds what the modules
hold, and ``layout`` writes modules as text.

May import the runner for its analyses and natives, and importers of archives.
"""

from .package import DecompileReport, WrittenFile, decompile

__all__ = ["DecompileReport", "WrittenFile", "decompile"]
