"""One measurement in a fresh process; started by `processes.py`, prints one JSON object.

Each probe is a function of a side, ``tsarchive`` or ``torch.jit``, and of its settings. torch is
imported before anything is measured, with one thread. The modules of tsarchive that the work
will need are imported first and timed apart, as ``imports``: they cost once in a process. Where
settings say so they are not: what is measured then includes them.
"""

from __future__ import annotations

import importlib
import io
import json
import resource
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from gauges import Reading, gauged, repeated, tensor_peak, timed

Settings = dict[str, Any]
Found = dict[str, Any]
OURS, THEIRS = "tsarchive", "torch.jit"
PICKLED, SAFE = "torch.save", "safetensors"
PROBES: dict[str, Callable[[str, Settings], Found]] = {}


def probe(function: Callable[[str, Settings], Found]) -> Callable[[str, Settings], Found]:
    PROBES[function.__name__] = function
    return function


# --- the two sides ---


def loaded(side: str, source: Any) -> Any:
    if side == OURS:
        import tsarchive

        return tsarchive.load(source)
    import torch

    if isinstance(source, str) and source.endswith(".pt2"):
        return torch.export.load(source)
    return torch.jit.load(source)


def saved(side: str, module: Any, target: Path) -> None:
    """Save. ``torch.save`` and ``safetensors`` write only the weights."""
    import torch

    if side == OURS:
        import tsarchive

        tsarchive.save(module, target)
    elif side == THEIRS:
        torch.jit.save(module, target)
    elif side == PICKLED:
        torch.save(module.state_dict(), target)
    else:
        from safetensors.torch import save_file

        save_file(module.state_dict(), target)


def opened(side: str, path: str) -> Any:
    """Return the tree of submodules and tensors; torch.jit has only that of the loaded module."""
    if side == OURS:
        import tsarchive

        archive = tsarchive.open(path)
        return archive, archive.tree()
    module = loaded(side, path)
    return module, list(module.named_modules())


# --- preparation of the process ---


def prepared(side: str, settings: Settings, needs_torch: bool = True) -> Reading:
    """Import torch, warm its kernels, import our modules; return the seconds of the last."""
    warnings.simplefilter("ignore")
    if needs_torch or side != OURS:
        import torch

        torch.set_num_threads(1)
        torch.set_grad_enabled(False)
        warm_kernels()
    names = settings.get("modules", ()) if side == OURS else ()
    return timed(lambda: imported(names))


def imported(names: Sequence[str]) -> None:
    """Import modules with the garbage collector off, as tsarchive does for its own parts."""
    if not names:
        return
    from tsarchive.garbage import not_collecting

    with not_collecting():
        for name in names:
            importlib.import_module(name)


def warm_kernels() -> None:
    """Run a convolution and a matrix product: libraries below torch initialize on the first."""
    import torch
    from torch.nn import functional

    x = functional.conv2d(torch.ones(1, 3, 8, 8), torch.ones(4, 3, 3, 3))
    functional.linear(functional.relu(x).flatten(1), torch.ones(2, 144)).softmax(1)


def arguments_of(settings: Settings) -> tuple[Any, ...]:
    import torch

    return tuple(torch.load(settings["arguments"]))


def middle(readings: list[Reading]) -> Reading:
    """Return medians; ``least`` is the fastest by the clock, closest to an idle machine."""
    found = {key: median(reading[key] for reading in readings) for key in readings[0]}
    return {**found, "least": min(reading["wall"] for reading in readings)}


# --- probes ---


@probe
def ready(side: str, settings: Settings) -> Found:
    """Measure importing ``tsarchive.load``, after torch."""
    prepared(side, {})
    return {"imports": timed(imported_loader) if side == OURS else timed(lambda: None)}


def imported_loader() -> None:
    import tsarchive

    _ = tsarchive.load


@probe
def optimized(side: str, settings: Settings) -> Found:
    """Measure later calls of an optimized module; of torch.jit the quickest of three ways."""
    imports = prepared(side, settings)
    arguments = arguments_of(settings)
    module = loaded(side, settings["path"]).eval()
    if side == OURS:
        import tsarchive

        later = later_calls(tsarchive.optimize(module, args=arguments), arguments, settings)
        return {"imports": imports, "best": later, "loaded": later}
    import torch

    as_loaded = later_calls(module, arguments, settings)
    frozen = torch.jit.freeze(module)
    ways = [as_loaded, later_calls(frozen, arguments, settings)]
    for_inference = torch.jit.optimize_for_inference(torch.jit.freeze(module))
    ways.append(later_calls(for_inference, arguments, settings))
    return {
        "imports": imports,
        "best": min(ways, key=lambda reading: reading["least"]),
        "loaded": as_loaded,
    }


def later_calls(module: Any, arguments: tuple[Any, ...], settings: Settings) -> Reading:
    """Return the time of a call after a warm-up."""
    for _ in range(settings["warm"]):
        module(*arguments)
    return middle(repeated(lambda: module(*arguments), settings["calls"]))


@probe
def calls(side: str, settings: Settings) -> Found:
    """Measure load, first call, second call, and calls after a warm-up."""
    imports = prepared(side, settings)
    arguments = arguments_of(settings)
    with gauged() as load:
        module = loaded(side, settings["path"])
    with gauged() as first:
        module(*arguments)
    found = {"imports": imports, "load": load, "first": first}
    found["load and first"] = {key: load[key] + first[key] for key in ("wall", "cpu", "anonymous")}
    if settings["calls"]:
        found["second"] = timed(lambda: module(*arguments))
        repeated(lambda: module(*arguments), settings["warm"])
        found["later"] = middle(repeated(lambda: module(*arguments), settings["calls"]))
    return found


@probe
def exported(side: str, settings: Settings) -> Found:
    """Measure loading a torch.export program, and its first call, which makes a module."""
    imports = prepared(side, settings)
    if side != OURS:
        importlib.import_module("torch.export.pt2_archive._package")
    arguments = arguments_of(settings)
    with gauged() as load:
        found = loaded(side, settings["path"])
    with gauged() as first:
        module = found if side == OURS else found.module()
        module(*arguments)
    both = {key: load[key] + first[key] for key in ("wall", "cpu", "anonymous")}
    return {"imports": imports, "load": load, "load and first": both}


@probe
def described(side: str, settings: Settings) -> Found:
    """Measure listing every method and tensor of an ExecuTorch program, without reading weights."""
    imports = prepared(side, settings, needs_torch=False)
    if side != OURS:
        importlib.import_module("executorch.exir._serialize._program")
    with gauged() as found:
        kept = described_program(side, Path(settings["path"]))
    del kept
    return {"imports": imports, "opened": found}


def described_program(side: str, path: Path) -> Any:
    if side == OURS:
        import tsarchive

        archive = tsarchive.open(path)
        return archive, archive.tree(), dict(archive.tensors), dict(archive.code)
    from executorch.exir._serialize._program import deserialize_pte_binary

    return deserialize_pte_binary(path.read_bytes())


@probe
def tree(side: str, settings: Settings) -> Found:
    imports = prepared(side, settings, needs_torch=False)
    with gauged() as found:
        kept = opened(side, settings["path"])
    del kept
    return {"imports": imports, "opened": found}


@probe
def load(side: str, settings: Settings) -> Found:
    imports = prepared(side, settings)
    with gauged() as found:
        kept = loaded(side, settings["path"])
    del kept
    return {"imports": imports, "load": found}


class Reader(io.RawIOBase):
    """Returns the bytes of a file without a path, like a download."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115 - closed with the process

    def readinto(self, buffer: Any) -> int:
        return self._file.readinto(buffer)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


@probe
def read(side: str, settings: Settings) -> Found:
    """Measure loading from an object that only reads and seeks, then using every weight once."""
    imports = prepared(side, settings)
    source = Reader(settings["path"])
    with gauged() as found:
        module = loaded(side, source)
        for parameter in module.parameters():
            parameter.sum()
    size = Path(settings["path"]).stat().st_size
    found["peak of size"] = found["peak"] / size
    found["anonymous of size"] = found["anonymous"] / size
    return {"imports": imports, "load": found}


@probe
def save(side: str, settings: Settings) -> Found:
    """Measure the first save of a live module in its process, then a few more."""
    import models

    imports = prepared(side, settings)
    module = models.network(settings["name"]).live(settings["form"])
    return {"imports": imports, **saves(side, module, settings)}


@probe
def resave(side: str, settings: Settings) -> Found:
    """Measure saving a module that the same side loaded."""
    imports = prepared(side, settings)
    return {"imports": imports, **saves(side, loaded(side, settings["path"]), settings)}


def saves(side: str, module: Any, settings: Settings) -> Found:
    target = Path(settings["folder"]) / "saved.pt"
    with gauged() as first:
        saved(side, module, target)
    found = {"save": first}
    if settings["again"]:
        again = repeated(lambda: saved(side, module, target), settings["again"])
        found["again"] = middle(again)
    target.unlink()
    return found


@probe
def peak(side: str, settings: Settings) -> Found:
    """Measure the tensor memory of a module that has run before."""
    prepared(side, settings)
    module, arguments = loaded(side, settings["path"]), arguments_of(settings)
    repeated(lambda: module(*arguments), 5)
    return {"run": {"tensors": tensor_peak(lambda: module(*arguments))}}


@probe
def checked(side: str, settings: Settings) -> Found:
    """Measure ``audit`` and ``verify`` of a file, or reading all of it."""
    imports = prepared(side, settings, needs_torch=False)
    if side != OURS:
        found = timed(lambda: Path(settings["path"]).read_bytes())
        return {"audit": found, "verify": found}
    import tsarchive

    path = settings["path"]
    return {
        "imports": imports,
        "audit": timed(lambda: tsarchive.audit(path)),
        "verify": timed(lambda: tsarchive.verify(path)),
    }


@probe
def process(side: str, settings: Settings) -> Found:
    """Measure a whole process: a command of tsarchive, or one that imports torch and exits."""
    command = [sys.executable, "-c", "import torch"]
    if side == OURS:
        command = [sys.executable, "-m", "tsarchive", *settings["command"]]
        command += [settings["path"]] if settings["takes_path"] else []
    readings = []
    for _ in range(settings["processes"]):
        before = children_seconds()
        reading = timed(lambda: subprocess.run(command, check=True, capture_output=True))
        readings.append({**reading, "cpu": children_seconds() - before})
    return {"process": middle(readings)}


def children_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@probe
def make(side: str, settings: Settings) -> Found:
    """Write the archive of a network."""
    import models

    prepared(side, {})
    return models.make(settings["name"], settings["form"], Path(settings["folder"]))


@probe
def names(side: str, settings: Settings) -> Found:
    """Return the available networks and their forms."""
    import models

    groups = {
        "networks": models.NETWORKS,
        "torchvision": models.torchvision_networks(),
        "programs": models.PROGRAMS,
    }
    return {
        group: [(name, form) for name, made in found.items() for form in made.forms]
        for group, found in groups.items()
    }


def main() -> None:
    name, side, settings = sys.argv[1:]
    found = PROBES[name](side, json.loads(settings))
    found["modules"] = [name for name in sys.modules if name.split(".")[0] == "tsarchive"]
    print("\n" + json.dumps(found))


if __name__ == "__main__":
    main()
