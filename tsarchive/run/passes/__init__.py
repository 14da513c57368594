"""Analyses of a graph that decide what generated code computes; the graph itself stays as it is.

They give what torch's executor gives when it optimises: ``liveness`` finds dead code and last uses,
``peephole`` simplifies arithmetic and slices, ``sizes`` says which tensors of traces are numbers,
``alias_analysis`` which values share memory, ``layers`` which methods run one operator, and
``object_identity`` which strings, complex numbers and enum members ``is`` tells apart.
"""
