"""Layers between the code of an archive and its operators while torch.export traces it.

* ``decisions``: a call that is recorded and traced again, with the values that decided it.
* ``branches`` and ``loops``: branches and loops that tensors decide, as torch.cond and while_loop.
  ``truths`` are the bools of tensors, ``blocks`` what becomes a graph inside a program, ``joining``
  the results of two sides, and ``watching`` tells what code reads and writes.
* ``affine``, ``packed`` and ``quantized``: quantized tensors as integers or floats, the objects
  that hold packed weights, and operators on both.
* ``state``: attributes that the call assigns.
"""
