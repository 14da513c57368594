"""The zip container of an archive: reading and writing its records."""

from tsarchive.container.changed import ChangedContainer
from tsarchive.container.reader import Container, Record
from tsarchive.container.surveying import ContainerSurvey, survey
from tsarchive.container.unordered import unordered_map_order
from tsarchive.container.writer import NewRecord, Packed, write_container

__all__ = [
    "ChangedContainer",
    "Container",
    "ContainerSurvey",
    "NewRecord",
    "Packed",
    "Record",
    "survey",
    "unordered_map_order",
    "write_container",
]
