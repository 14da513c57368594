"""The zip container of an archive: reading and writing its records."""

from tsarchive.container.changed import ChangedContainer
from tsarchive.container.reader import Container, Record
from tsarchive.container.unordered import unordered_map_order
from tsarchive.container.writer import NewRecord, Packed, write_container

__all__ = [
    "ChangedContainer",
    "Container",
    "NewRecord",
    "Packed",
    "Record",
    "unordered_map_order",
    "write_container",
]
