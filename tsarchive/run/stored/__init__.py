"""What compiling makes of the code of an archive, as plain values that the next process takes.

* ``types`` has types, schemas and the layouts of classes as values that ``marshal`` writes.
* ``recipes`` tells how each global of generated code is found again.
* ``functions`` keeps the functions that were compiled, and gives them back.
"""
