"""Analyses of a graph that decide what generated code computes; the graph itself stays as it is.

They give what torch's executor gives when it optimises: ``liveness`` finds dead code, ``peephole``
simplifies arithmetic and comparisons, ``alias_analysis`` says which values share memory,
``last_uses`` where memory can be freed, ``traced_sizes`` which sizes of a trace need no tensor,
``object_identity`` which strings, complex numbers and enum members ``is`` may tell apart, and
``calls`` which functions calls reach.
"""
