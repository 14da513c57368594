"""The formats that files may have: an object each, and the registry that tells which a file has.

``records`` is imported by every room that asks what a record is; the formats themselves import
the rooms that do their work when they are asked to, so telling formats apart is quick and needs
no torch. Only verbs import ``registry``.
"""
