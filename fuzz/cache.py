"""Attacks on the cache of compiled code: whatever happens to its entries, answers stay the same.

python fuzz/cache.py --attacks 2000 --seed 0

Each attack fills a folder from two archives, changes it, and loads and calls one of them in a
child. Entries of others hold code that leaves a trace where it runs. In between, a process fills
the folder that has registered operators otherwise than the one that takes code from it. A violation
is another answer than without a cache, a trace, or a child that fails. The exit status is 0 without
violations, 1 with some.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import io
import marshal
import os
import shutil
import sys
import tempfile
import traceback
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final

import torch

import tsarchive
from tsarchive import Policy
from tsarchive.caching import CacheFolder

_HEADER, _DIGEST = 16, 32
Attack = Callable[["Scene", Random], None]


class Scene:
    """A folder with the entries of two subjects, and a place for the trace of foreign code."""

    def __init__(self, folder: Path, subjects: list[bytes], inputs: list[torch.Tensor]) -> None:
        self.root, self.trace = folder, folder / "trace"
        self.folder = CacheFolder(folder / "cache")
        self.subjects, self.inputs = subjects, inputs
        os.environ["TSARCHIVE_CACHE"] = str(self.folder.path)

    def fill(self) -> None:
        for data, given in zip(self.subjects, self.inputs, strict=True):
            answer(data, given)

    def entry(self, random: Random) -> Path:
        return random.choice(sorted(self.folder.path.glob("*.code")))

    def foreign(self, path: Path) -> bytes:
        """Return an entry whose code leaves a trace, whole and with the right digest."""
        data = path.read_bytes()
        key = data[_HEADER : _HEADER + _DIGEST]
        found = marshal.loads(data[_HEADER + 2 * _DIGEST :])
        code = compile(f"open({str(self.trace)!r}, 'w').close()", "<foreign>", "exec")
        found["bodies"] = [(b[0], b[1], marshal.dumps(code), *b[3:]) for b in found["bodies"]]
        content = marshal.dumps(found)
        digest = hashlib.sha256(data[:_HEADER] + key + content).digest()
        return data[:_HEADER] + key + digest + content


def answer(data: bytes, given: torch.Tensor) -> Any:
    """Load an archive and call it; what is dropped then is kept in the cache."""
    with torch.no_grad():
        result = tsarchive.load(io.BytesIO(data))(given)
    gc.collect()
    return result


def flip(scene: Scene, random: Random) -> None:
    path = scene.entry(random)
    data = bytearray(path.read_bytes())
    for _ in range(random.choice((1, 1, 8, 64))):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    path.write_bytes(data)


def cut(scene: Scene, random: Random) -> None:
    path = scene.entry(random)
    data = path.read_bytes()
    path.write_bytes(data[: random.randrange(len(data))])


def lengthen(scene: Scene, random: Random) -> None:
    path = scene.entry(random)
    path.write_bytes(path.read_bytes() + random.randbytes(random.randrange(1, 99)))


def splice(scene: Scene, random: Random) -> None:
    """The header of one entry, and the content of another."""
    one, two = sorted(scene.folder.path.glob("*.code"))[:2]
    at = random.choice((_HEADER, _HEADER + _DIGEST, _HEADER + 2 * _DIGEST))
    one.write_bytes(one.read_bytes()[:at] + two.read_bytes()[at:])


def swap(scene: Scene, random: Random) -> None:
    one, two = sorted(scene.folder.path.glob("*.code"))[:2]
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)


def noise(scene: Scene, random: Random) -> None:
    scene.entry(random).write_bytes(random.randbytes(random.randrange(4096)))


def link(scene: Scene, random: Random) -> None:
    path = scene.entry(random)
    other = scene.root / "other"
    other.write_bytes(scene.foreign(path))
    path.unlink()
    random.choice((path.symlink_to, path.hardlink_to))(other)


def mode(scene: Scene, random: Random) -> None:
    path = scene.entry(random)
    path.write_bytes(scene.foreign(path))
    path.chmod(random.choice((0o620, 0o602, 0o666, 0o777)))


def owner(scene: Scene, random: Random) -> None:
    """Only where this process may give files away; else the mode."""
    path = scene.entry(random)
    if os.geteuid():
        return mode(scene, random)
    path.write_bytes(scene.foreign(path))
    os.chown(path, 65534, -1)
    return None


def open_folder(scene: Scene, random: Random) -> None:
    path = scene.entry(random)
    path.write_bytes(scene.foreign(path))
    scene.folder.path.chmod(random.choice((0o770, 0o707, 0o777)))


def linked_folder(scene: Scene, random: Random) -> None:
    path = scene.entry(random)
    path.write_bytes(scene.foreign(path))
    scene.folder.path.rename(scene.root / "elsewhere")
    scene.folder.path.symlink_to(scene.root / "elsewhere")


def other_kinds(scene: Scene, random: Random) -> None:
    path = scene.entry(random)
    path.unlink()
    random.choice((path.mkdir, lambda: os.mkfifo(path), lambda: path.symlink_to(path)))()


def race(scene: Scene, random: Random) -> None:
    """Sixteen processes that load, keep, damage and remove at once."""
    children = []
    for _ in range(16):
        work = random.choice((scene.fill, lambda: flip(scene, random), scene.folder.empty))
        children.append(in_child(work))
    for child in children:
        os.waitpid(child, 0)  # one that finds no entry to damage fails, which is nothing


ATTACKS: tuple[Attack, ...] = (
    flip, cut, lengthen, splice, swap, noise, link, mode, owner, open_folder, linked_folder,
    other_kinds, race,
)  # fmt: skip


_CALLS = """
class Net(Module):
  __parameters__ = []
  def forward(self, x: Tensor) -> Tensor:
    _0 = torch.fuzzed_write(x, 1)
    _1 = ops.fuzzed.fuzzed_write(x, 1)
    return torch.add(x, 0)
"""
_SCHEMAS: Final = (
    "(Tensor x, int n) -> Tensor", "(Tensor(a!) x, int n) -> Tensor(a!)",
    "(Tensor x, ScalarType n) -> Tensor",
)  # fmt: skip
_PROMISES: Final = ("FROM_SCHEMA", "CONSERVATIVE")


def calling() -> bytes:
    """An archive that calls two operators, one of them in a namespace of torch."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("m/data.pkl", b"\x80\x02c__torch__\nNet\n)\x81}b.")
        archive.writestr("m/constants.pkl", b"\x80\x02).")
        archive.writestr("m/code/__torch__.py", _CALLS)
        archive.writestr("m/version", "3\n")
    return data.getvalue()


def trusted_answer(data: bytes) -> float:
    """What the archive gives in this process, which may have registered its operators."""
    result = tsarchive.load(io.BytesIO(data), policy=Policy.trusted())(torch.ones(1)).item()
    gc.collect()
    return float(result)


def registered_otherwise(random: Random) -> str | None:
    """Take code in a process that has registered its operators otherwise than the one before."""
    folder, data = Path(tempfile.mkdtemp(prefix="cache")), calling()

    def check() -> None:
        found = []
        register(random)
        for cache in (str(folder / "cache"), "0", str(folder / "cache")):
            os.environ["TSARCHIVE_CACHE"] = cache
            found.append(trusted_answer(data))
        assert found[0] == found[1] == found[2], found

    try:
        for _ in range(3):
            random.seed(random.random())  # a child's draws are its own
            _, status = os.waitpid(in_child(check, quiet=False), 0)
            if status:
                return f"the child ended with status {status}"
        return None
    finally:
        shutil.rmtree(folder)


def register(random: Random) -> None:
    """Register operators that write to what they are given, whatever their schemas say."""
    for namespace in ("aten", "fuzzed"):
        library = torch.library.Library(namespace, "FRAGMENT")
        library.define(f"fuzzed_write{random.choice(_SCHEMAS)}", random.choice(_PROMISES))
        library.impl("fuzzed_write", lambda x, n: x.mul_(2), "CompositeExplicitAutograd")
        _libraries.append(library)


_libraries: list[torch.library.Library] = []


def in_child(work: Callable[[], object], *, quiet: bool = True) -> int:
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            if not quiet:
                traceback.print_exc()
            os._exit(1)
    return child


def violation(attack: Attack, random: Random, subjects: list[bytes], inputs: Any) -> str | None:
    folder = Path(tempfile.mkdtemp(prefix="cache"))
    try:
        scene = Scene(folder, subjects, inputs)
        os.waitpid(in_child(scene.fill), 0)
        attack(scene, random)
        number = random.randrange(len(subjects))
        os.environ["TSARCHIVE_CACHE"] = "0"
        expected = answer(subjects[number], inputs[number])

        def check() -> None:
            os.environ["TSARCHIVE_CACHE"] = str(scene.folder.path)
            for _ in range(2):  # what the first one keeps must be good for the second
                assert torch.equal(answer(subjects[number], inputs[number]), expected)

        _, status = os.waitpid(in_child(check, quiet=False), 0)
        if scene.trace.exists():
            return "foreign code ran"
        return None if status == 0 else f"the child ended with status {status}"
    finally:
        shutil.rmtree(folder)


def subjects_of() -> tuple[list[bytes], list[torch.Tensor]]:
    """Two networks of different code, and what to call them with."""
    networks = (
        torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2)),
        torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.Sigmoid()),
    )
    inputs = [torch.ones(2, 4), torch.ones(1, 1, 5, 5)]
    found = []
    for network, given in zip(networks, inputs, strict=True):
        data = io.BytesIO()
        torch.jit.save(torch.jit.trace(network.eval(), given), data)
        found.append(data.getvalue())
    return found, inputs


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--attacks", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)  # a forked process would wait for threads that it does not have
    found = 0
    subjects, inputs = subjects_of()
    gc.freeze()  # each collection would look through all of torch
    for number in range(options.attacks):
        random = Random(f"{options.seed} {number}")
        attack = (*ATTACKS, None)[number % (len(ATTACKS) + 1)]
        if attack is None:
            wrong = registered_otherwise(random)
        else:
            wrong = violation(attack, random, subjects, inputs)
        if wrong is not None:
            found += 1
            name = registered_otherwise.__name__ if attack is None else attack.__name__
            print(f"attack {number}, {name}: {wrong}")
    print(f"{options.attacks} attacks, {found} violations")
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
