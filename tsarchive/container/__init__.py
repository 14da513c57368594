"""The zip container of an archive: reading and writing its records. May import the floor alone."""

from typing import TYPE_CHECKING, Any

from tsarchive.container.reader import ChangedContainer, Container, Record
from tsarchive.lazy_members import lazy_member

if TYPE_CHECKING:
    from tsarchive.container.serialization_id import unordered_map_order
    from tsarchive.container.surveying import ContainerSurvey, survey
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

# Imported on first use: reading an archive does not need these.
_HOMES = {
    "ContainerSurvey": "tsarchive.container.surveying",
    "survey": "tsarchive.container.surveying",
    "unordered_map_order": "tsarchive.container.serialization_id",
    "NewRecord": "tsarchive.container.writer",
    "Packed": "tsarchive.container.writer",
    "write_container": "tsarchive.container.writer",
}


def __getattr__(name: str) -> Any:
    return lazy_member(__name__, _HOMES, name)
