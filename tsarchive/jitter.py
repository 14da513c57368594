"""No jitter: saving again gives the same bytes, and so does printing code from its graphs.

With ``canonical``, so does saving the canonical form in other processes.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from tsarchive.comparing import (
    JitterReport,
    ReadComparison,
    SaveComparison,
    container_differences,
    differences,
)
from tsarchive.container import Container, write_container
from tsarchive.container.opening import open_source
from tsarchive.errors import ArchiveError
from tsarchive.formats.registry import file_format, opened_zip, zip_format
from tsarchive.policy import Guard, Policy
from tsarchive.remote import is_url, located
from tsarchive.renaming import renamed

if TYPE_CHECKING:
    import torch

    from tsarchive.run.modules import ArchiveModule


@renamed(source="f")
def check_jitter(
    f: str | os.PathLike[str] | BinaryIO | torch.nn.Module,
    *,
    map_location: str | torch.device | None = None,
    canonical: bool = False,
    policy: Policy | None = None,
    imports: Sequence[str] = (),
) -> JitterReport:
    """Save twice, load and save again; compare the saves, and their code with its own graphs.

    ``f`` is an archive (path or binary file object), which is loaded first, or a module:
    scripted, traced, or one that ``tsarchive.load`` gave. torch.jit loads nothing here.
    Of several models in a PT2 archive each is loaded in turn; the report is of one that changes,
    if any does. Files of ExecuTorch are not loaded: they are written as they are, and once more
    with their tables encoded anew.
    ``map_location`` is where archives are loaded to, ``policy`` what their code may reach, as for
    ``load``. With ``canonical=True``
    two fresh processes of other hash seeds, in other working directories, load the archive, or
    the first save of a module, and save it in the canonical form. Before that they import what
    ``imports`` names: modules, or paths of shared libraries, that register operators.
    Raises what ``load`` and ``save`` raise; ArchiveError when a fresh process fails;
    UnsupportedError for the canonical form of a file of ExecuTorch, which has none.

        >>> bool(tsarchive.check_jitter("net.pt").stable)
        True
    """
    terms = _Terms(map_location, policy or Policy.default(), canonical, tuple(imports))
    if is_url(located(f)):
        with closing(open_source(cast("str", f))) as elsewhere:
            fetched = bytes(elsewhere.data)
        return _check_file(lambda: io.BytesIO(fetched), terms)
    if isinstance(f, str | os.PathLike):
        path = f
        return _check_file(lambda: path, terms)
    given: Any = f
    if hasattr(given, "read"):
        content = given.read()
        return _check_file(lambda: io.BytesIO(content), terms)
    return _check_module(given, terms)


@dataclass(frozen=True, slots=True)
class _Terms:
    """The options of a check: for loading archives, and whether to compare canonical forms."""

    map_location: str | torch.device | None
    policy: Policy
    canonical: bool
    imports: tuple[str, ...]
    model: str | None = None

    def load(self, file: str | os.PathLike[str] | BinaryIO) -> ArchiveModule:
        from tsarchive.loading import load

        return load(file, map_location=self.map_location, policy=self.policy, model=self.model)


def _check_file(
    source: Callable[[], str | os.PathLike[str] | BinaryIO], terms: _Terms
) -> JitterReport:
    """Return the worst report of its models. ``source`` gives the bytes of the file each time anew:
    code that runs may write to those that it was loaded from."""
    opened = open_source(source())
    opened.fetch_all()
    own = file_format(opened)
    if own is not None:
        return own.check_jitter(opened, canonical=terms.canonical)
    with opened_zip(opened) as read:
        models = zip_format(read.records).models(read)
        names: Sequence[str | None] = models if len(models) > 1 else (None,)
        each = (replace(terms, model=model) for model in names)
        return min((_check_module(one.load(source()), one, read) for one in each), key=_soundness)


def _soundness(report: JitterReport) -> tuple[bool, bool]:
    return report.ok, report.as_read is None or report.as_read.same_file


def _check_module(
    module: torch.nn.Module, terms: _Terms, read: Container | None = None
) -> JitterReport:
    from tsarchive.run.modules import ArchiveModule

    root = (read.root or None) if read is not None else None
    is_live = not isinstance(module, ArchiveModule)
    first = _saved(module, root)
    twice = _comparison(first, _saved(module, root))
    loaded = _comparison(first, _saved(terms.load(io.BytesIO(first)), root))
    with Container.open(io.BytesIO(first)) as one:
        saved = zip_format(one.records)
        return JitterReport(
            twice.same and loaded.same,
            len(first),
            loaded.records,
            None if read is None else _compare_with_read(read, one),
            saved.graph_report(one, read, terms.map_location, Guard(terms.policy), is_live=is_live),
            twice,
            _compare_processes(module, first, terms) if terms.canonical else None,
            saved.kind,
        )


def _saved(module: torch.nn.Module, root: str | None) -> bytes:
    from tsarchive.saving import saved_records

    buffer = io.BytesIO()
    write_container(buffer, saved_records(module), root=root)
    return buffer.getvalue()


def _comparison(first: bytes, second: bytes) -> SaveComparison:
    return SaveComparison(first == second, tuple(differences(first, second)))


def _compare_processes(module: torch.nn.Module, first: bytes, terms: _Terms) -> SaveComparison:
    from tsarchive.saving import save

    buffer = io.BytesIO()
    save(module, buffer, canonical=True)
    saves = canonical_saves(first, terms.map_location, terms.policy, terms.imports, terms.model)
    compared = (_comparison(buffer.getvalue(), content) for content in saves)
    return next((found for found in compared if not found.same), SaveComparison())


def _compare_with_read(read: Container, first: Container) -> ReadComparison:
    with read.buffer() as one, first.buffer() as two:
        same_file = one == two
    return ReadComparison(same_file, () if same_file else tuple(container_differences(read, first)))


_SAVE = """
import json, sys, tsarchive
from tsarchive.cli.options import import_all
archive, device, model, target, trusted, allowed, imports = sys.argv[1:]
policy = tsarchive.Policy(frozenset(json.loads(allowed)), bool(trusted))
import_all(json.loads(imports))
module = tsarchive.load(archive, map_location=device or None, policy=policy, model=model or None)
tsarchive.save(module, target, canonical=True)
"""
# Under torch's own output, an error of the process is what begins with this.
_FAILED = "failed: "
_RUN = f"""
import sys
try:
    exec(sys.argv.pop(1))
except Exception as error:
    lines = str(error).splitlines() or ["no message"]
    sys.exit(f"{_FAILED}{{type(error).__name__}}: {{lines[0]}}")
"""
# Hash seeds: 0 disables randomization of hashes.
_SEEDS = ("0", "4242")


def canonical_saves(
    archive: bytes,
    map_location: str | torch.device | None,
    policy: Policy,
    imports: Sequence[str] = (),
    model: str | None = None,
) -> list[bytes]:
    """Return the canonical form of an archive as saved by fresh processes, one per hash seed.

    Raises ArchiveError when one of them fails, such as for lack of a library of this process.
    """
    with TemporaryDirectory() as folder:
        source = Path(folder, "archive.pt")
        source.write_bytes(archive)
        places = [Path(folder, f"process{seed}") for seed in _SEEDS]
        device = "" if map_location is None else str(map_location)
        pairs = zip(_SEEDS, places, strict=True)
        trusted = "trusted" if policy.is_trusting else ""
        names = [json.dumps(sorted(policy.allowed)), json.dumps(imports)]
        terms = [device, model or "", "canonical.pt", trusted, *names]
        started = [_start(seed, place, [str(source), *terms]) for seed, place in pairs]
        failures = [process.communicate()[1] for process in started]
        for process, failure in zip(started, failures, strict=True):
            if process.returncode:
                reason = _reason(failure) or f"it ended with {process.returncode}"
                raise ArchiveError(f"a fresh process cannot save the canonical form: {reason}")
        return [(place / "canonical.pt").read_bytes() for place in places]


def _reason(output: str) -> str:
    """Return the line with which a process says why it failed; the last one if none does."""
    lines = output.strip().splitlines()
    said = (line.removeprefix(_FAILED) for line in lines if line.startswith(_FAILED))
    return next(said, lines[-1] if lines else "")


def _start(seed: str, place: Path, arguments: list[str]) -> subprocess.Popen[str]:
    place.mkdir()
    path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)
    return subprocess.Popen(
        [sys.executable, "-c", _RUN, _SAVE, *arguments],
        cwd=place,
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
