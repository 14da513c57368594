"""Fuzz targets that need no torch. Each returns a result or raises ArchiveError."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import cache

import tsarchive
from tsarchive.archive import Archive, archive_of
from tsarchive.container import ChangedContainer, Container
from tsarchive.formats.pt2.payloads import compiled
from tsarchive.formats.pt2.view import sample_inputs
from tsarchive.formats.torchscript.debug_records import read_any_debug_record
from tsarchive.formats.torchscript.inspection import ModuleTree, Root, named_tensors
from tsarchive.ir.classes import ClassType
from tsarchive.pickler import Object, loads


def read_archive(data: bytes) -> None:
    """Open, and read every record."""
    with tsarchive.open(io.BytesIO(data)) as archive:
        for name in archive.records:
            archive.read(name)


def look_at_archive(data: bytes) -> None:
    """Show everything about an open archive."""
    look(tsarchive.open(io.BytesIO(data)))


def look(archive: Archive) -> None:
    """Show kind, tensors, tree, and requirements of the code."""
    assert archive.kind
    assert archive.format_version >= 0
    assert archive.tensors is not None
    archive.tree()
    assert archive.needs is not None


def look_at_exported(data: bytes) -> None:
    """Show everything about a PT2 archive that the commands show."""
    archive = tsarchive.open(io.BytesIO(data))
    for part in (lambda: look(archive), lambda: list(archive.code.values())):
        _tried(part)
    door = archive.exported
    for model in door.models:
        _tried(lambda model=model: door.signature(model))
        _tried(lambda model=model: sample_inputs(door.records, model))
    for model in door.records.compiled:
        _tried(lambda model=model: compiled(door.records, model))


def look_at_executorch(data: bytes) -> None:
    """Show everything about a file of ExecuTorch, each part even if others are refused."""
    archive = tsarchive.open(io.BytesIO(data))
    for part in (
        lambda: [archive.read(name) for name in archive.records],
        lambda: list(archive.code.values()),
        lambda: dict(archive.tensors),
        lambda: archive.tree(),
        lambda: archive.needs,
    ):
        _tried(part)


def _tried(look_at: Callable[[], object]) -> None:
    """Run one part, whose refusal does not stop the others."""
    try:
        look_at()
    except tsarchive.ArchiveError as error:
        str(error)


def verify(data: bytes) -> None:
    """Check that verify reports every problem instead of raising."""
    try:
        tsarchive.verify(io.BytesIO(data))
    except tsarchive.ArchiveError as error:
        raise AssertionError("verify raised instead of reporting") from error


def audit(data: bytes) -> None:
    """Check that audit reports every problem instead of raising."""
    try:
        tsarchive.audit(io.BytesIO(data))
    except tsarchive.ArchiveError as error:
        raise AssertionError("audit raised instead of reporting") from error


def fingerprint(data: bytes) -> None:
    """Check that every file has a fingerprint or is refused."""
    tsarchive.fingerprint(io.BytesIO(data))


def find_no_pickle(data: bytes) -> None:
    """Check that audit takes no text for a harmful pickle, or for one too large to examine."""
    told = [found for found in tsarchive.audit(io.BytesIO(data)).findings if _is_of_pickle(found)]
    assert not told, told[0].message


def find_attack(data: bytes, how: str) -> None:
    """Check that audit reports a malicious pickle."""
    findings = tsarchive.audit(io.BytesIO(data)).findings
    assert any(_is_of_pickle(f) and f.nature is tsarchive.Nature.HOSTILE for f in findings), how


def _is_of_pickle(finding: tsarchive.Finding) -> bool:
    return finding.rule.startswith("pickle-")


def report(data: bytes) -> None:
    """Check that a page is made for every file, without markup of the file's."""
    try:
        html = tsarchive.report(io.BytesIO(data), histograms="*", rows=40).html
    except tsarchive.ArchiveError as error:
        raise AssertionError("report raised instead of telling") from error
    assert (html.count("<script"), html.count("</script")) == (2, 2)
    assert all(letter.isprintable() or letter == "\n" for letter in html)


def read_pickle(archive: bytes, record: str, data: bytes) -> None:
    """Read one pickle, and show its contents without torch."""
    if record.endswith(".debug_pkl"):
        read_any_debug_record(data, record)
        return
    root = loads(data, record=record)
    whole, known = Root(record, "", root), opened(archive)
    for _ in named_tensors([whole], known.class_of, known.records):
        pass
    if isinstance(root, Object):
        ModuleTree(whole.record, known.class_of, known.records).module("", root, 1)


def read_code(archive: bytes, record: str, text: bytes) -> None:
    """Parse one code record, make every type and signature that it defines."""
    container = ChangedContainer(opened(archive).container, {record: text})
    importer = archive_of(container).classes
    for name in importer.definitions(record):
        found = importer.find(name)
        if isinstance(found, ClassType):
            assert found.methods is not None


def read_needs(archive: bytes, record: str, text: bytes) -> None:
    """List what the code needs, as ``tsarchive info`` does before loading."""
    container = ChangedContainer(opened(archive).container, {record: text})
    assert archive_of(container).needs is not None


@cache
def opened(archive: bytes) -> Archive:
    """Open a sound archive, once."""
    return archive_of(Container.open(io.BytesIO(archive)))
