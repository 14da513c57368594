"""Serialized source to program graphs, without torch."""

from .importer import CodeImporter

__all__ = ["CodeImporter"]
