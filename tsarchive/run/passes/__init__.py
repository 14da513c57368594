"""Analyses of a graph that decide what generated code computes; the graph itself stays as it is.

They give what torch's executor gives when it optimises: ``liveness`` finds dead code, ``peephole``
simplifies arithmetic, comparisons and sizes in traces, ``alias_analysis`` says which values share
memory, ``uses`` which functions calls reach and where memory can be freed, and ``object_identity``
which strings, complex numbers and enum members ``is`` may tell apart.
"""
