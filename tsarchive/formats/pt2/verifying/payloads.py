"""Weights and constants: every entry of a configuration against its record, not the first alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from tsarchive.errors import ArchiveError, MissingRecordError
from tsarchive.findings import Finding, Findings, broken, hostile, refused, unusual
from tsarchive.formats.pt2.dtypes import DTYPES
from tsarchive.formats.pt2.payloads import Configured, Payload, Storage, StoredView, saved_payload
from tsarchive.formats.pt2.records import (
    CONSTANTS,
    FLAT_CONSTANTS,
    FLAT_WEIGHTS,
    WEIGHTS,
    Layout,
    Records,
)
from tsarchive.formats.pt2.schema import PayloadConfig, PayloadMeta
from tsarchive.formats.pt2.torch_save import Saved

from .signatures import Stored
from .texts import expression_fault, expressions_of_payloads

_RULE: Final = "payload"
_FILE_NAME: Final = re.compile(r"[^/\\\0]+")
_OBJECTS: Final = ("custom_obj_", "opaque_obj_")
_OPAQUE: Final = "opaque_obj_"
_ZIP: Final = b"PK\x03\x04"
_SHOWN: Final = 80
_NOTHING: Final[Stored] = ({}, frozenset())


class Payloads:
    """Checks payloads, and remembers which records something refers to.

    ``pickled`` are the records among them that are files of ``torch.save``, ``opaque`` those
    that are pickles without a zip around.
    """

    def __init__(self, records: Records, findings: Findings) -> None:
        self._records = records
        self._findings = findings
        self._owners: dict[str, str] = {}
        self.referenced: set[str] = set()
        self.pickled: dict[str, None] = {}
        self.opaque: dict[str, None] = {}

    def weights(self, model: str) -> Stored:
        return self._stored(model, WEIGHTS, FLAT_WEIGHTS, f"{model}_weights_config.json")

    def constants(self, model: str) -> Stored:
        return self._stored(model, CONSTANTS, FLAT_CONSTANTS, f"{model}_constants_config.json")

    def _stored(self, model: str, folder: str, flat: str, config: str) -> Stored:
        is_flat = self._records.layout is Layout.FLAT
        whole = flat if is_flat else f"{folder}{model}.pt"
        if self._records.has(whole):
            return self._whole(whole)
        if is_flat or not self._records.has(f"{folder}{config}"):
            return _NOTHING  # the check of the set of records has found it
        return self._configured(model, folder, f"{folder}{config}")

    # One file of torch.save

    def _whole(self, record: str) -> Stored:
        self.referenced.add(record)
        self.pickled[record] = None
        try:
            saved = Saved(self._records.container, record)
            root = saved.root
        except ArchiveError:
            return _NOTHING  # which the check of the pickle finds
        if not isinstance(root, dict):
            self._findings.add([broken(_RULE, "the record does not hold a dict", record)])
            return _NOTHING
        found: dict[str, Payload] = {}
        for name, value in root.items():
            try:
                found[str(name)] = saved_payload(saved, value)
            except ArchiveError as error:
                self._findings.add([refused(error, _RULE, record)])
        return found, frozenset(map(str, root))

    # A configuration and a record for each storage

    def _configured(self, model: str, folder: str, record: str) -> Stored:
        try:
            config = self._records.payload_config(record)
        except ArchiveError as error:
            self._findings.add([refused(error, "payload-config", record)])
            return _NOTHING
        self._findings.add(_texts(config, record))
        reader = Configured(self._records.container, folder, record)
        found: dict[str, Payload] = {}
        for name, meta in config.config.items():
            payload = self._payload(reader, name, meta, model)
            if payload is not None:
                found[name] = payload
        return found, frozenset(config.config)

    def _payload(
        self, reader: Configured, name: str, meta: PayloadMeta, model: str
    ) -> Payload | None:
        if not _FILE_NAME.fullmatch(meta.path_name) or meta.path_name in (".", ".."):
            message = f"{name[:_SHOWN]!r} has the path {meta.path_name[:_SHOWN]!r}, no file name"
            self._findings.add([hostile(_RULE, message, reader.record)])
            return None
        path = f"{reader.folder}{meta.path_name}"
        self.referenced.add(path)
        self._findings.add(self._owner(path, model, reader.record))
        try:
            payload = reader.payload(name, meta)
        except MissingRecordError as error:
            self._findings.add([broken("record-missing", error.message, path, error.hint)])
            return None
        except ArchiveError as error:
            self._findings.add([refused(error, _RULE, reader.record)])
            return None
        self._note(path, meta)
        self._findings.add(self._unusual(name, path, meta, payload, reader.record))
        return payload

    def _owner(self, path: str, model: str, config: str) -> Iterator[Finding]:
        owner = self._owners.setdefault(path, model)
        if owner != model:
            message = f"the record is of the model {owner!r} as well: torch shares none"
            yield unusual(_RULE, f"{path}: {message}", config)

    def _note(self, path: str, meta: PayloadMeta) -> None:
        """Remember what a record is: a tensor, a file of ``torch.save``, a pickle."""
        if meta.path_name.startswith(_OPAQUE):
            self.opaque[path] = None
        elif meta.use_pickle or meta.path_name.startswith(_OBJECTS):
            self.pickled[path] = None

    def _unusual(
        self, name: str, path: str, meta: PayloadMeta, payload: Payload, config: str
    ) -> Iterator[Finding]:
        shown = name[:_SHOWN]
        if meta.path_name.startswith(_OBJECTS):
            if not meta.use_pickle:
                yield unusual(_RULE, f"{shown!r} is an object without use_pickle", config)
        elif isinstance(payload, StoredView) and not meta.use_pickle:
            size, itemsize = payload.storage.nbytes, DTYPES[payload.dtype].itemsize
            if size % itemsize:
                message = f"{shown!r} has elements of {itemsize} bytes in a record of {size:,}"
                yield unusual(_RULE, message, config)
            if _begins(payload.storage) == _ZIP:
                message = f"{shown!r} has no use_pickle, and its record is a zip archive"
                yield unusual(_RULE, message, config)


def _begins(storage: Storage) -> bytes:
    """The first bytes of a storage; none of one that the check of the container found damaged."""
    try:
        return bytes(storage.data()[:4])
    except ArchiveError:
        return b""


def _texts(config: PayloadConfig, record: str) -> Iterable[Finding]:
    """No size that is stored is an expression; torch evaluates one that is there."""
    for place, text in expressions_of_payloads(config):
        message = f"{place[:_SHOWN]} has the expression {text[:_SHOWN]!r} as a size"
        is_sound = expression_fault(text) is None
        yield (broken if is_sound else hostile)("program-expression", message, record)
