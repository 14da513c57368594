"""What the tests of PT2 archives share: fixtures, records made up, archives made of others."""

from __future__ import annotations

import json
from pathlib import Path

from conftest import CORPUS, ROOT

from tsarchive.container import Container, NewRecord, write_container

FIXTURES = ROOT / "fixtures" / "pt2"
NAMES = sorted(path.stem for path in FIXTURES.glob("*.pt2"))
FINGERPRINT = ".data/serialization_id"
ROW_META = {
    "dtype": 7,
    "sizes": [{"as_int": 2}, {"as_int": 3}],
    "requires_grad": False,
    "device": {"type": "cpu", "index": None},
    "strides": [{"as_int": 3}, {"as_int": 1}],
    "storage_offset": {"as_int": 0},
    "layout": 7,
}


def fixture(name: str) -> Path:
    return FIXTURES / f"{name}.pt2"


def corpus_files() -> list[Path]:
    """The PT2 archives beside the repository; none where it stands alone."""
    folders = (CORPUS / "generated", CORPUS / "pt2")
    return sorted(path for folder in folders for path in folder.glob("*.pt2"))


def records_in(path: Path) -> dict[str, bytes]:
    """Records by name, but for the fingerprint, which a writer makes itself."""
    with Container.open(path) as container:
        return {name: container.read(name) for name in container.records if name != FINGERPRINT}


def write(path: Path, records: dict[str, bytes]) -> Path:
    write_container(path, [NewRecord(name, data) for name, data in records.items()])
    return path


def changed(path: Path, name: str, change, target: Path) -> Path:
    """A copy of an archive in which ``change`` was made to the JSON of a record."""
    records = records_in(path)
    values = json.loads(records[name])
    change(values)
    return write(target, {**records, name: json.dumps(values).encode()})


def payload(path_name: str, meta: dict | None = None, **fields) -> dict:
    """An entry of a configuration of payloads."""
    made = {"path_name": path_name, "is_param": False, "use_pickle": False, "tensor_meta": meta}
    return {**made, **fields}
