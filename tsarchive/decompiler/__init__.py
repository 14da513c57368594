"""Decompiling: an archive as a package of readable Python that needs torch alone."""

from .package import DecompileReport, WrittenFile, decompile

__all__ = ["DecompileReport", "WrittenFile", "decompile"]
