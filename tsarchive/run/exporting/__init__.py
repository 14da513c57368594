"""Layers between the code of an archive and its operators while torch.export traces it.

* ``decisions``: a call that is recorded and traced again, with the values that decided it.
* ``affine``, ``packed`` and ``quantized``: quantized tensors as integers or floats, the objects
  that hold packed weights, and operators on both.
* ``state``: attributes that the call assigns.
"""
