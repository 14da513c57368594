"""The layers of an archive: how inputs for each are made, and their fuzz targets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, is_dataclass
from importlib import import_module
from pkgutil import walk_packages
from random import Random
from typing import Any

import doors
import edits
import torch_free
from attacks import attack as make_attack
from mutated_flatbuffer import mutate_flatbuffer
from pools import POOL
from texts import innocent

import tsarchive
from tsarchive.formats.pt2 import schema
from tsarchive.formats.pt2.schema import decoded
from tsarchive.operators.registry import known_operators, untried_torch
from tsarchive.operators.torch_sources import is_function
from tsarchive.testing.mutated_archive import mutate_archive
from tsarchive.testing.mutated_records import mutate_bytes, mutate_code, mutate_json, mutate_pickle


@dataclass(frozen=True)
class Input:
    """The input of one fuzz target; ``data`` is what was mutated."""

    data: bytes
    door: Callable[..., None]
    arguments: tuple[Any, ...]

    def run(self) -> str:
        """Return ``sound``, or the name of the error."""
        try:
            self.door(*self.arguments)
        except tsarchive.ArchiveError as error:
            str(error)  # formatting must work, too
            return type(error).__name__
        return "sound"


Layer = Callable[[Random], Input]
# Inputs per thousand for each fuzz target: expensive ones get fewer.
_OF_ARCHIVES = (
    (torch_free.read_archive, 840), (torch_free.look_at_archive, 100), (torch_free.verify, 10),
    (torch_free.audit, 5), (torch_free.report, 5), (torch_free.fingerprint, 5), (doors.load, 30),
    (doors.load_moved, 5),
)  # fmt: skip
_OF_PICKLES = (
    (doors.load, 30), (torch_free.verify, 3), (torch_free.audit, 3), (torch_free.fingerprint, 3),
    (doors.load_moved, 5),
)  # fmt: skip
_OF_CODE = (
    (doors.compile_all, 35), (torch_free.verify, 3), (torch_free.audit, 3),
    (torch_free.fingerprint, 3), (doors.load_moved, 5),
)  # fmt: skip
_OF_EXPORTED = (
    (torch_free.look_at_exported, 230), (torch_free.verify, 300), (torch_free.audit, 100),
    (torch_free.report, 20), (torch_free.fingerprint, 50), (doors.load, 200),
    (doors.run_exported, 95), (doors.load_moved, 5),
)  # fmt: skip
_OF_EXECUTORCH = (
    (torch_free.look_at_executorch, 200), (torch_free.verify, 200), (torch_free.audit, 100),
    (torch_free.report, 50), (torch_free.fingerprint, 50), (edits.edit, 100), (doors.load, 50),
    (doors.run_program, 250),
)  # fmt: skip
_CHANCE_OF_BLIND_CHANGE = 0.05
# Modules that inputs may make Python import: decompressors, and a codec of pickletools.
_LAZY = ("bz2", "lzma", "zipfile_deflate64", "encodings.raw_unicode_escape")
# Every 32nd seed suffices to import everything, and to open what is opened once.
_WARMING = 32
_UNUSED = (
    "tsarchive.__main__", "tsarchive.cli", "tsarchive.testing", "tsarchive.models",
    "tsarchive.decompiler",
)  # fmt: skip


def container(random: Random) -> Input:
    """Draw whole archives, changed in their headers and in their records."""
    data = mutate_archive(random.choice(POOL.archives), random, donors=POOL.archives)
    doors_, shares = zip(*_OF_ARCHIVES, strict=True)
    return Input(data, random.choices(doors_, shares)[0], (data,))


def pickle(random: Random) -> Input:
    """Draw pickle records; most are read alone, some within their archive."""
    seed = random.choice(POOL.pickles)
    if random.random() < _CHANCE_OF_BLIND_CHANGE:
        data = mutate_bytes(seed.data, random)
    else:
        data = mutate_pickle(seed.data, random, donors=_PICKLES)
    return _placed(seed.archive, seed.record, data, random, torch_free.read_pickle, _OF_PICKLES)


def code(random: Random) -> Input:
    """Draw code records; most are parsed alone, some within their archive."""
    seed = random.choice(POOL.code)
    if random.random() < _CHANCE_OF_BLIND_CHANGE:
        data = mutate_bytes(seed.text.encode(), random)
    else:
        data = mutate_code(seed.text, random, donors=_TEXTS).encode("utf-8", "replace")
    alone = torch_free.read_code if random.random() < 0.9 else torch_free.read_needs
    return _placed(seed.archive, seed.record, data, random, alone, _OF_CODE)


def running(random: Random) -> Input:
    """Draw code and pickles of archives whose ``forward`` is called under the default policy."""
    made = (code if random.random() < 0.8 else pickle)(random)
    whole = made.arguments[0] if len(made.arguments) == 1 else doors.replaced(*made.arguments)
    return Input(made.data, doors.run, (whole,))


def pt2(random: Random) -> Input:
    """Draw PT2 archives, changed in their JSON, in their pickles, or as a whole."""
    seed = random.choice(POOL.exported_records)
    if random.random() < 0.1:
        data = whole = mutate_archive(seed.archive, random, donors=POOL.exported)
    else:
        is_archive = seed.record.endswith(".pt")
        data = mutate_archive(seed.data, random) if is_archive else mutate_json(seed.data, random)
        whole = doors.replaced(seed.archive, seed.record, data)
    doors_, shares = zip(*_OF_EXPORTED, strict=True)
    return Input(data, random.choices(doors_, shares)[0], (whole,))


def executorch(random: Random) -> Input:
    """Draw programs, data and bundles of ExecuTorch, changed in their offsets and numbers."""
    data = mutate_flatbuffer(random.choice(POOL.executorch), random)
    doors_, shares = zip(*_OF_EXECUTORCH, strict=True)
    return Input(data, random.choices(doors_, shares)[0], (data,))


def text(random: Random) -> Input:
    """Draw texts, none of which is a pickle."""
    data = innocent(random)
    return Input(data, torch_free.find_no_pickle, (data,))


def attack(random: Random) -> Input:
    """Draw malicious pickles, hidden or not."""
    made = make_attack(random)
    return Input(made.data, torch_free.find_attack, (made.data, made.how))


def _placed(
    archive: bytes,
    record: str,
    data: bytes,
    random: Random,
    alone: Callable[..., None],
    shares: tuple[tuple[Callable[..., None], int], ...],
) -> Input:
    chosen = random.randrange(1000)
    for door, share in shares:
        if chosen < share:
            return Input(data, door, (doors.replaced(archive, record, data),))
        chosen -= share
    return Input(data, alone, (archive, record, data))


LAYERS: dict[str, Layer] = {
    "container": container,
    "pickle": pickle,
    "code": code,
    "running": running,
    "pt2": pt2,
    "executorch": executorch,
    "text": text,
    "attack": attack,
}
_PICKLES = [seed.data for seed in POOL.pickles]
_TEXTS = [seed.text for seed in POOL.code]


def made(layer: str, seed: int, number: int) -> Input:
    """Return input ``number`` of a layer, reproducibly."""
    return LAYERS[layer](Random(f"{seed}/{layer}/{number}"))


def warm_up() -> None:
    """Import everything that inputs may use: our modules, and torch's for sound seeds."""
    # Errors about operators and torch, and who wrote an archive, read files of the package.
    known_operators()
    untried_torch()
    is_function("", "")
    for name in (*_LAZY, *_modules()):
        import_module(name)
    every = (*(door for door, _ in _OF_ARCHIVES), doors.compile_all, doors.run)
    for data in POOL.archives[::_WARMING]:
        for door in every:
            Input(data, door, (data,)).run()
    _know_the_schema()
    for data in POOL.exported:
        for door, _ in _OF_EXPORTED:
            Input(data, door, (data,)).run()
    for data in POOL.executorch:
        for door, _ in _OF_EXECUTORCH:
            Input(data, door, (data,)).run()


def _know_the_schema() -> None:
    """Create the decoders of the schema, from annotations that Python compiles."""
    for kind in vars(schema).values():
        if is_dataclass(kind):
            with suppress(tsarchive.ArchiveError):
                decoded(kind, None, "")


def _modules() -> Iterator[str]:
    """Yield the modules of tsarchive without additional dependencies."""
    for module in walk_packages(tsarchive.__path__, "tsarchive."):
        if not module.name.startswith(_UNUSED):
            yield module.name
