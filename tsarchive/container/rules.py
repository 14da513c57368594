"""The rules that the container of an archive is held to, and what a breach of each says of it."""

from __future__ import annotations

from typing import NamedTuple

from tsarchive.container.recognise import FILE_RULES
from tsarchive.errors import ArchiveError, FormatError, UnsupportedError
from tsarchive.findings import Nature, Severity

__all__ = ["RULES", "Rule"]


class Rule(NamedTuple):
    """What a breach means. Strict opening raises ``error`` where the severity is an error."""

    nature: Nature
    severity: Severity
    error: type[ArchiveError] = FormatError


_BROKEN = Rule(Nature.BROKEN, Severity.ERROR)
_HOSTILE = Rule(Nature.HOSTILE, Severity.ERROR)
_UNREAD = Rule(Nature.UNUSUAL, Severity.ERROR, UnsupportedError)
_REFUSED = Rule(Nature.UNUSUAL, Severity.ERROR)
_NOTED = Rule(Nature.UNUSUAL, Severity.INFO)

RULES: dict[str, Rule] = {
    # The file as a whole, where it is no zip archive by what it is.
    **dict.fromkeys(FILE_RULES, _BROKEN),
    "file-changed": _BROKEN,
    "file-unreadable": _BROKEN,
    # The end records.
    "zip-cut-comment": _BROKEN,
    "zip-appended": _BROKEN,
    "zip-several-ends": _HOSTILE,
    "zip-comment": _NOTED,
    "zip-volumes": _UNREAD,
    "zip-locator64": _BROKEN,
    "zip-end64-length": _HOSTILE,
    "zip-end64-differs": _HOSTILE,
    "zip-directory-place": _BROKEN,
    # The directory.
    "zip-too-many-entries": _HOSTILE,
    "zip-large-directory": _HOSTILE,
    "zip-entry-count": _HOSTILE,
    "zip-directory-entry": _BROKEN,
    "zip-no-records": _BROKEN,
    "zip-extra-field": _HOSTILE,
    "zip-field64": _HOSTILE,
    "zip-entry-comment": _NOTED,
    # What the directory says of each entry.
    "zip-encrypted": _UNREAD,
    "zip-patch-data": _UNREAD,
    "zip-stored-sizes": _HOSTILE,
    "zip-second-name": _HOSTILE,
    "zip-name-encoding": _HOSTILE,
    "zip-bad-name": _HOSTILE,
    "zip-duplicate-name": _HOSTILE,
    "zip-alike-names": _HOSTILE,
    "zip-several-roots": _REFUSED,
    "zip-folder-data": _HOSTILE,
    "zip-large-record": _HOSTILE,
    "zip-bomb": _HOSTILE,
    # Where the entries lie.
    "zip-prefix": _HOSTILE,
    "zip-overlap": _HOSTILE,
    "zip-shared-header": _HOSTILE,
    "zip-gap": Rule(Nature.UNUSUAL, Severity.WARNING),
    "zip-hidden-entry": Rule(Nature.HOSTILE, Severity.WARNING),
    # Local headers and descriptors.
    "zip-no-local-header": _BROKEN,
    "zip-local-header": _HOSTILE,
    "zip-descriptor": _HOSTILE,
    "zip-no-descriptor": _BROKEN,
    # Data.
    "zip-method": _UNREAD,
    "zip-no-decoder": _UNREAD,
    "zip-impossible-size": _HOSTILE,
    "zip-damaged-data": _BROKEN,
    "zip-inflates-to-more": _HOSTILE,
    "zip-inflates-to-less": _BROKEN,
    "zip-after-data": _HOSTILE,
    "zip-crc": _BROKEN,
    # What no writer of archives does and every reader takes.
    "zip-no-root": _NOTED,
    "zip-padding": _NOTED,
    "zip-folders": _NOTED,
    "zip-macos": _NOTED,
    "zip-order": _NOTED,
    "zip-compression": _NOTED,
    "zip-alignment": _NOTED,
}
