"""What tests of files of ExecuTorch share: fixtures, the corpus, damage."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from random import Random

import tsarchive
from fixtures.executorch_programs import file_of, method
from fixtures.executorch_samples import DATA, EXTERNAL, FILES, WEIGHT, data_file, tensor
from fuzz.mutated_flatbuffer import mutate_flatbuffer
from tests.support.archives import ROOT

FIXTURES = ROOT / "fixtures" / "executorch"
CORPUS_KINDS = ("pte", "ptd", "bpte")
_MAGIC = {"pte": b"ET12", "ptd": b"FT01", "bpte": b"BP08"}


def opened(data: bytes) -> tsarchive.Archive:
    return tsarchive.open(io.BytesIO(data))


def edited(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


def sound_files(corpus: Path, kind: str) -> list[Path]:
    """The files of the corpus that begin so, but for those that were damaged."""
    folders = (corpus / "pte", corpus / "ptd", corpus / "generated")
    paths = (path for folder in folders for path in sorted(folder.iterdir()) if path.is_file())
    return [path for path in paths if _magic(path) == _MAGIC[kind]]


def _magic(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(8)[4:]


def mutated(seed: int, count: int) -> Iterator[bytes]:
    """Fixtures with one to four damages each."""
    random = Random(seed)
    originals = [make() for make in FILES.values()]
    for _ in range(count):
        yield mutate_flatbuffer(random.choice(originals), random)


def loaded(*methods, **more):
    """The module of a program of these methods."""
    given = {name: more.pop(name) for name in ("policy", "limits") if name in more}
    return tsarchive.load(io.BytesIO(file_of(*methods, **more)), **given)


def flattened(value):
    """The leaves of a result, in order."""
    if isinstance(value, tuple | list):
        return [leaf for item in value for leaf in flattened(item)]
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in flattened(item)]
    return [value]


def external(**more):
    info = {"fully_qualified_name": "net.weight", "location": EXTERNAL}
    weight = tensor([4, 3], extra_tensor_info=info, **more)
    return method([weight], [], [], [0])


def external_data():
    return data_file(DATA, WEIGHT.ljust(128, b"\0") + b"hello")
