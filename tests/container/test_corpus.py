"""Real archives: every one opens, every record is right, and torch's own can be written again."""

from __future__ import annotations

import io
import zipfile

import pytest

from tests.support.suite import sampled
from tsarchive.container import Container, NewRecord, Packed, write_container
from tsarchive.container.serialization_id import RECORD_NAME, SerializationId
from tsarchive.errors import FormatError, UnsupportedError

FOLDERS = ("torchscript", "pt2", "other", "generated", "hostile")

# What is wrong with the archives that do not open, or have a record that does not read.
REFUSED = {
    "modelaudit__safe_model.zip": (FormatError, "not in the folder 'model'"),
    "picklescan__benign_password_protected.zip": (UnsupportedError, "encrypted"),
    "picklescan__malicious1_0x1.zip": (UnsupportedError, "encrypted"),
    "picklescan__malicious1_0x20.zip": (UnsupportedError, "patch data"),
    "picklescan__malicious1_crc.zip": (FormatError, "does not match its CRC-32"),
}

# Written on macOS, whose C++ library hashes names and walks a set in its own way.
OTHER_NAME_HASH = {
    "opensearch-project-ml-commons__model.pt",
    "pypi-realtime_vad_python-0.1.1__silero_vad.jit",
    "pytorch-executorch__model.pth",
    "pytorch-executorch__model_a1e58e0.pth",
}


def zips(corpus, folder):
    found = [path for path in sorted((corpus / folder).rglob("*")) if path.is_file()]
    return [path for path in found if begins_as_zip(path)]


def begins_as_zip(path):
    with path.open("rb") as file:
        return file.read(2) == b"PK"


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_record_reads_as_zipfile_reads_it(corpus, folder):
    paths = sampled([path for path in zips(corpus, folder) if path.name not in REFUSED])
    assert paths
    for path in paths:
        with Container.open(path) as container, zipfile.ZipFile(path) as expected:
            prefix = f"{container.root}/" if container.root else ""
            assert [prefix + name for name in container.records] == expected.namelist()
            for name in container.records:
                data = expected.read(prefix + name)
                assert container.read(name) == data, (path.name, name)
                assert container.view(name) == data, (path.name, name)


def read_all(path):
    with Container.open(path) as container:
        for name in container.records:
            container.read(name)


def test_refused_archives(corpus):
    paths = {path.name: path for path in zips(corpus, "hostile")}
    for name, (kind, message) in REFUSED.items():
        with pytest.raises(kind, match=message):
            read_all(paths[name])


@pytest.mark.parametrize("folder", ["torchscript", "other", "generated"])
def test_serialization_ids_are_those_that_torch_wrote(corpus, folder):
    checked = 0
    for path in sampled(zips(corpus, folder), 40):
        with Container.open(path) as container:
            if RECORD_NAME not in container.records:
                continue
            found = container.read(RECORD_NAME).decode()
            fingerprint = SerializationId()
            for name, record in container.records.items():
                if name != RECORD_NAME:
                    payload = container.payload(name)
                    fingerprint.add(name, record.method, record.crc, payload)
            start = 20 if path.name in OTHER_NAME_HASH else 0
            assert fingerprint.digits()[start:] == found[start:], path.name
            checked += 1
    assert checked


def copied(container):
    for name, record in container.records.items():
        if name != RECORD_NAME:
            payload = container.payload(name)
            packed = Packed(record.method, record.crc, record.size, payload)
            yield NewRecord(name, b"", packed=packed)


@pytest.mark.parametrize("folder", ["torchscript", "other", "generated"])
def test_copying_an_archive_record_by_record_gives_the_same_file(corpus, folder):
    copies = 0
    for path in zips(corpus, folder):
        with Container.open(path) as container:
            if RECORD_NAME not in container.records or path.name in OTHER_NAME_HASH:
                continue
            target = io.BytesIO()
            write_container(target, copied(container), root=container.root)
            assert target.getvalue() == container.buffer(), path.name
            copies += 1
    assert copies
