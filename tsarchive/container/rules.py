"""The rules for the container of an archive, and how grave a breach of each is."""

from __future__ import annotations

from typing import NamedTuple

from tsarchive.container.recognise import FILE_RULES
from tsarchive.errors import ArchiveError, FormatError, UnsupportedError
from tsarchive.findings import Nature, Severity


class Rule(NamedTuple):
    """The meaning of a breach. Strict opening raises ``error`` where the severity is an error.

    A hostile breach is downgraded to an inconsistency where damage may have caused it: damage to
    the member that it concerns or, with ``is_of_whole``, damage anywhere in the file.
    """

    nature: Nature
    severity: Severity
    error: type[ArchiveError] = FormatError
    is_of_whole: bool = False


_OTHER_KIND = Rule(Nature.OTHER_KIND, Severity.ERROR)
_BROKEN = Rule(Nature.BROKEN, Severity.ERROR)
_INCONSISTENT = Rule(Nature.INCONSISTENT, Severity.ERROR)
_HOSTILE = Rule(Nature.HOSTILE, Severity.ERROR)
_HOSTILE_WHOLE = _HOSTILE._replace(is_of_whole=True)
_UNREAD = Rule(Nature.UNUSUAL, Severity.ERROR, UnsupportedError)
_REFUSED = Rule(Nature.UNUSUAL, Severity.ERROR)
_NOTED = Rule(Nature.UNUSUAL, Severity.INFO)

RULES: dict[str, Rule] = {
    # The kind of the file as a whole, where it is not a zip archive.
    **dict.fromkeys(FILE_RULES, _OTHER_KIND),
    "file-cut-short": _BROKEN,
    "file-empty": _BROKEN,
    "file-zeros": _BROKEN,
    "file-zip-volume": _BROKEN,
    "file-changed": _BROKEN,
    "file-unreadable": _BROKEN,
    # The end records.
    "zip-cut-comment": _BROKEN,
    "zip-appended": _BROKEN,
    "zip-several-ends": _HOSTILE_WHOLE,
    "zip-comment": _NOTED,
    "zip-volumes": _UNREAD,
    "zip-locator64": _BROKEN,
    "zip-end64-length": _INCONSISTENT,
    "zip-end64-differs": _INCONSISTENT,
    "zip-directory-place": _BROKEN,
    # The directory.
    "zip-too-many-entries": _HOSTILE_WHOLE,
    "zip-large-directory": _HOSTILE_WHOLE,
    "zip-entry-count": _INCONSISTENT,
    "zip-directory-entry": _BROKEN,
    "zip-no-records": _BROKEN,
    "zip-extra-field": _INCONSISTENT,
    "zip-field64": _INCONSISTENT,
    "zip-entry-comment": _NOTED,
    # Directory entries.
    "zip-encrypted": _UNREAD,
    "zip-patch-data": _UNREAD,
    "zip-stored-sizes": _HOSTILE,
    "zip-second-name": _INCONSISTENT,
    "zip-name-encoding": _INCONSISTENT,
    "zip-bad-name": _HOSTILE,
    "zip-duplicate-name": _HOSTILE,
    "zip-alike-names": _HOSTILE_WHOLE,
    "zip-several-roots": _REFUSED,
    "zip-folder-data": _HOSTILE,
    "zip-large-record": _HOSTILE,
    "zip-bomb": _HOSTILE,
    # The layout of the entries.
    "zip-prefix": _HOSTILE_WHOLE,
    "zip-overlap": _HOSTILE_WHOLE,
    "zip-shared-header": _INCONSISTENT,
    "zip-gap": Rule(Nature.UNUSUAL, Severity.WARNING),
    "zip-hidden-entry": _HOSTILE_WHOLE._replace(severity=Severity.WARNING),
    # Local headers and descriptors.
    "zip-no-local-header": _BROKEN,
    "zip-local-header": _INCONSISTENT,
    "zip-descriptor": _INCONSISTENT,
    "zip-no-descriptor": _BROKEN,
    # Data.
    "zip-method": _UNREAD,
    "zip-no-decoder": _UNREAD,
    "zip-impossible-size": _HOSTILE,
    "zip-damaged-data": _BROKEN,
    "zip-inflates-to-more": _INCONSISTENT,
    "zip-inflates-to-less": _BROKEN,
    "zip-after-data": _INCONSISTENT,
    "zip-crc": _BROKEN,
    # Forms that no writer of archives produces and every reader accepts.
    "zip-no-root": _NOTED,
    "zip-padding": _NOTED,
    "zip-folders": _NOTED,
    "zip-macos": _NOTED,
    "zip-order": _NOTED,
    "zip-compression": _NOTED,
    "zip-no-crc": _NOTED,
    "zip-alignment": _NOTED,
}
