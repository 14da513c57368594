"""Whatever a file holds, verifying it gives a report; it runs, imports and writes nothing."""

from __future__ import annotations

import io
import sys
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tsarchive
from tests.support.legacy_archives import FIXTURES as LEGACY
from tests.support.suite import examples
from tests.support.verifying import SEQUENTIAL, packed, records, verified, zipped
from tsarchive.findings import Finding, Nature
from tsarchive.formats.torchscript.verifying.pickles import names_in_pickle

_RECORDS = records()
_LEGACY = records(next(path for path in LEGACY if path.name.startswith("attributes-")))
_SOURCES = {"today": _RECORDS, "legacy": _LEGACY}
_WHOLE = {
    "torch": SEQUENTIAL.read_bytes(), "zipped": zipped(_RECORDS), "legacy": zipped(_LEGACY),
}  # fmt: skip
_VERDICTS = {"sound", "unusual", "another kind", "broken", "inconsistent", "hostile"}
_RULES = ("zip-", "file-", "record-", "pickle-", "tensor-", "code-")
_SETTINGS = settings(max_examples=examples(200), suppress_health_check=list(HealthCheck))


def holds_the_promise(data: bytes):
    """The report on any bytes, which is one of the known forms."""
    report = verified(data)
    assert report.verdict in _VERDICTS
    assert report.ok is all(f.severity == "info" for f in report.findings)
    for finding in report.findings:
        assert isinstance(finding, Finding)
        assert finding.rule.startswith(_RULES)
        assert finding.nature is not Nature.ABILITY
    assert report == verified(data)
    return report


_BYTES = st.binary(max_size=12)
_INTERESTING = st.sampled_from(
    [b"\0", b"\xff", b"\xff" * 4, b"\xff" * 8, b"\x80", b"PK\x01\x02", b"PK\x05\x06", b".", b"R",
     b"(", b")", b"cos\nsystem\n", b"\x81", b"b", b"q\0", b"h\0", b"\n", b"import os\n", b"}", b"]"]
)  # fmt: skip


@st.composite
def mutations(draw, data: bytes) -> bytes:
    """Bytes replaced, put in or cut out at a few places."""
    mutated = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(mutated)))
        length = draw(st.integers(0, 16))
        mutated[place : place + length] = draw(_INTERESTING | _BYTES)
    return bytes(mutated)


@_SETTINGS
@given(st.data(), st.sampled_from(sorted(_WHOLE)))
def test_any_change_of_a_file(data, source):
    holds_the_promise(data.draw(mutations(_WHOLE[source])))


@_SETTINGS
@given(st.data(), st.sampled_from(sorted(_SOURCES)))
def test_any_change_of_a_record(data, source):
    members = dict(_SOURCES[source])
    name = data.draw(st.sampled_from(sorted(members)))
    members[name] = data.draw(mutations(members[name]))
    report = holds_the_promise(zipped(members))
    assert report.verdict != "another kind"


@_SETTINGS
@given(st.data())
def test_what_verifies_loads(data):
    members = dict(_RECORDS)
    name = data.draw(st.sampled_from(sorted(members)))
    members[name] = data.draw(mutations(members[name]))
    archive = zipped(members)
    if verified(archive).ok:
        tsarchive.load(io.BytesIO(archive), policy=tsarchive.Policy.trusted())


@_SETTINGS
@given(st.binary(max_size=300))
def test_any_bytes(data):
    assert not holds_the_promise(data).ok


@_SETTINGS
@given(st.sets(st.sampled_from(sorted(_RECORDS))), st.sampled_from(sorted(_SOURCES)))
def test_any_set_of_records(left_out, source):
    members = {name: data for name, data in _SOURCES[source].items() if name not in left_out}
    if members:
        holds_the_promise(packed(members))


@_SETTINGS
@given(st.binary(max_size=80) | mutations(_RECORDS["data.pkl"]))
def test_names_are_found_inside_of_the_pickle(data):
    found = names_in_pickle(data)
    for place in (*found.names.values(), *found.storages.values()):
        assert 0 <= place < len(data)
        assert data[place] in b"ci\x93Q"


# Where a process is watched, what it may do while a file is verified.
# "compile" is of parsing: what runs would be an "exec".
_ALLOWED_EVENTS = frozenset({"builtins.id", "compile", "object.__getattr__", "sys._getframe"})
_watched: dict[int, set[str]] = {}


def _hook(event: str, args: tuple[object, ...]) -> None:
    events = _watched.get(threading.get_ident())
    if events is not None:
        events.add(event)


@pytest.fixture(scope="module")
def watched():
    """Gives the audit events of verifying some bytes, once all that it imports is imported."""
    sys.addaudithook(_hook)

    def watch(data: bytes):
        verified(data)
        events = _watched[threading.get_ident()] = set()
        try:
            verified(data)
        finally:
            del _watched[threading.get_ident()]
        return events

    return watch


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"constants.pkl": b"\x80\x02cos\nsystem\nX\x02\0\0\0ls\x85R."},
        {"code/__torch__/fixtures/modules/containers.py": b"import os\nos.system('ls')\n"},
    ],
    ids=["sound", "pickle", "code"],
)
def test_nothing_is_run_imported_or_written(watched, changes):
    assert watched(zipped(_RECORDS | changes)) <= _ALLOWED_EVENTS


def test_a_file_object_that_fails_is_an_oserror_or_a_report():
    class Failing(io.BytesIO):
        def read(self, size=-1):
            raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        tsarchive.verify(Failing())
