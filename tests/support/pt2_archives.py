"""What the tests of PT2 archives share: fixtures, records made up, archives made of others."""

from __future__ import annotations

import importlib
import io
import json
from pathlib import Path
from typing import BinaryIO

import torch
from torch.export import Dim, export

from tests.support.archives import CORPUS, ROOT, export_saved, saved
from tests.support.features import STORES_WEIGHTS_APART
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


def records_in(path: Path | BinaryIO) -> dict[str, bytes]:
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


def with_another_bit(path: Path, target: Path) -> tuple[str, Path]:
    """The name of a weight, and a copy of an archive in which one bit of it is another."""
    records = records_in(path)
    config = json.loads(records["data/weights/model_weights_config.json"])["config"]
    name, entry = min(config.items())
    record = f"data/weights/{entry['path_name']}"
    data = bytearray(records[record])
    data[0] ^= 1
    return name, write(target, {**records, record: bytes(data)})


def payload(path_name: str, meta: dict | None = None, **fields) -> dict:
    """An entry of a configuration of payloads."""
    made = {"path_name": path_name, "is_param": False, "use_pickle": False, "tensor_meta": meta}
    return {**made, **fields}


def saved_today(program: torch.export.ExportedProgram) -> bytes:
    """An archive of the layout of today: by torch, unless it is older than that layout."""
    return export_saved(program) if STORES_WEIGHTS_APART else saved(program)


def packaged(programs: dict[str, torch.export.ExportedProgram]) -> bytes:
    """An archive of several models, as ``saved_today`` writes those of one."""
    if not STORES_WEIGHTS_APART:
        return saved(programs)
    package = importlib.import_module("torch.export.pt2_archive._package")
    file = io.BytesIO()
    package.package_pt2(file, exported_programs=programs)
    return file.getvalue()


MODEL = "models/model.json"


class Shared(torch.nn.Module):
    """Tied weights, views of one storage, buffers of all kinds, a constant, and subgraphs."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)
        self.norm = torch.nn.BatchNorm1d(3)
        self.tied = self.linear.weight
        self.register_buffer("passing", torch.ones(3), persistent=False)
        self.register_buffer("grid", torch.arange(12.0).view(3, 4))
        self.register_buffer("column", self.grid[:, 1])
        self.register_buffer("nothing", torch.ones(0, 3))
        self.register_buffer("brief", torch.ones(3, dtype=torch.bfloat16))

    def forward(self, x):
        y = torch.relu(self.norm(self.linear(x)) + self.passing + self.column)
        y = y + torch.tensor([1.0, 2.0, 3.0]) + self.brief.float()
        return y @ self.tied, torch.cond(x.sum() > 0, lambda t: t + 1, lambda t: t * 2, (x,))


class Nested(torch.nn.Module):
    def forward(self, pair, *, named):
        return {"sum": pair[0] + named["a"], "more": [pair[1] * 2, None]}


def shared():
    torch.manual_seed(0)
    sizes = {"x": {0: Dim("rows", min=2, max=9)}}
    return export(Shared().eval(), (torch.randn(2, 4),), dynamic_shapes=sizes)


def nested():
    x = torch.ones(2)
    return export(Nested(), ((x, x),), {"named": {"a": x}})


PROGRAMS = {
    "shared": shared,
    "shared, decomposed": lambda: shared().run_decompositions(),
    "nested": nested,
}
