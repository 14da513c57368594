"""Fingerprints: which model a file or module is, whatever wrote it, where, and how it is packed.

``docs/fingerprint.md`` has every byte that is digested.
"""

from __future__ import annotations

import hashlib
import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

from tsarchive.analyses.encoding import Plain, encode
from tsarchive.container.opening import not_a_file, open_source
from tsarchive.errors import CallError, FormatError
from tsarchive.formats.contents import Contents, TensorContent
from tsarchive.formats.reading import Reading
from tsarchive.formats.registry import format_of, opened_source
from tsarchive.garbage import not_collecting
from tsarchive.renaming import renamed
from tsarchive.steps import Measured, Step, no_step

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

    from tsarchive.formats.base import Opened

    # A path, a binary file object, or what ``save`` takes.
    Subject = (
        str
        | os.PathLike[str]
        | BinaryIO
        | torch.nn.Module
        | Callable[..., Any]
        | ExportedProgram
        | dict[str, ExportedProgram]
    )

VERSION: Final = "tsf1"
"""The version of the rules, with which every digest begins."""
_READ_AT_ONCE: Final = 1 << 20


@dataclass(frozen=True, slots=True, repr=False)
class Fingerprint:
    """What a model is, as digests: equal where the parts are equal, and only there.

    ``code`` is of the graphs of all methods, places in source aside; ``structure`` of classes,
    attributes, shapes, dtypes and devices; ``weights`` of the values of all tensors by name, and
    ``tensors`` of those of each; ``extra_files`` of extra files by name. ``model`` is of code,
    structure and weights. ``weights``, ``tensors`` and ``model`` are empty where weights were left
    out. Fingerprints are hashable, so that equal models are one key of a dict or set.

        >>> first, second = tsarchive.fingerprint("net.pt"), tsarchive.fingerprint("tuned.pt")
        >>> first.code == second.code, first.weights == second.weights
        (True, False)
    """

    code: str
    structure: str
    weights: str
    extra_files: str
    model: str
    tensors: Mapping[str, str] = field(hash=False)

    def __rich_repr__(self) -> Iterator[tuple[str, object]]:
        yield from self._parts()

    def __str__(self) -> str:
        return self.model or self.code

    def __repr__(self) -> str:
        return f"<Fingerprint {self.model}: {len(self.tensors):,} tensors>"

    def _repr_html_(self) -> str:
        from tsarchive.notebook import table

        return table("fingerprint", self._parts())

    def _parts(self) -> Iterator[tuple[str, object]]:
        for name in ("model", "code", "structure", "weights", "extra_files"):
            yield name, getattr(self, name)
        yield "tensors", len(self.tensors)


@renamed(source="f")
def fingerprint(
    f: Subject,
    *,
    weights: bool = True,
    step: Step | None = None,
) -> Fingerprint:
    """Return the fingerprint of a file (path or binary file object), or of a module.

    ``f`` may be an archive of TorchScript or torch.export, a file of ExecuTorch, or a state
    dict that torch.save wrote; or a module or program that ``save`` takes, which has the
    fingerprint of the file that ``save`` writes. Of a file nothing runs, and torch is not
    imported. Without ``weights`` no tensor is read. ``step`` is called with the name of each tensor
    when it has been read.

    Raises ArchiveError for a file that is broken or of another kind, SourceError for code that
    cannot be read, CallError for what is neither a file nor a module, OSError for a file that
    cannot be read; for a module what ``save`` raises.

        >>> tsarchive.save(net, "again.pt")
        >>> tsarchive.fingerprint("again.pt") == tsarchive.fingerprint("net.pt")
        True
    """
    step = step or no_step
    with readable_contents(f, whole=weights) as found:
        return fingerprint_of(found.contents, found.reading, weights=weights, step=step)


class Readable(NamedTuple):
    """The contents of a file that is open, and what reads its tensors."""

    opened: Opened
    contents: Contents
    reading: Reading


@contextmanager
def readable_contents(
    source: Any, *, debug: bool = False, whole: bool = False
) -> Iterator[Readable]:
    """Open a file, or with ``debug`` records or without what ``save`` writes of a module.

    A file elsewhere is fetched ``whole`` where all of it is going to be read.
    """
    found = open_source(source if is_file(source) else _saved(source, debug=debug))
    if whole:
        found.fetch_all()
    opened = opened_source(found)
    with not_collecting(), closing(opened):
        try:
            yield Readable(opened, format_of(opened).contents(opened), Reading(found))
        except RecursionError:
            limit = sys.getrecursionlimit()
            raise FormatError("the program is nested too deeply", limit=limit) from None


def is_file(given: Any) -> bool:
    """Return whether this is a path or a file object, and no module."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(given, torch.nn.Module):
        return False  # whatever its methods are called
    return isinstance(given, str | os.PathLike) or hasattr(given, "read")


def _saved(module: Any, *, debug: bool) -> BinaryIO:
    from tsarchive.saving import save

    _require_savable(module)
    stream = io.BytesIO()
    save(module, stream, debug=debug)
    stream.seek(0)
    return stream


def _require_savable(given: Any) -> None:
    """Raise CallError for what is neither a file nor a module or program."""
    if isinstance(given, dict):
        if not all(map(callable, given.values())):
            hint = "Write it by torch.save to a file or io.BytesIO, and pass that"
            raise CallError("a state dict in memory has no fingerprint", hint=hint)
    elif not callable(given):
        raise not_a_file(type(given).__name__)


def fingerprint_of(
    contents: Contents,
    reading: Reading,
    *,
    weights: bool = True,
    step: Step = no_step,
) -> Fingerprint:
    """Return the fingerprint of the contents of a file."""
    code, structure = (
        part_digest("code", contents.code),
        part_digest("structure", contents.structure),
    )
    files = {name: hashlib.sha256(data).digest() for name, data in contents.extra_files.items()}
    extra = part_digest("extra files", files)
    if not weights:
        reading.require_unchanged()
        return Fingerprint(code, structure, "", extra, "", {})
    digests = _digests(contents.tensors, reading, step)
    of_all = part_digest("weights", digests)
    model = part_digest("model", [code, structure, of_all])
    reading.require_unchanged()
    return Fingerprint(code, structure, of_all, extra, model, digests)


def _digests(
    tensors: Mapping[str, TensorContent], reading: Reading, step: Step
) -> Mapping[str, str]:
    """Digest tensors, several at a time; what has several names is read once."""
    reading.require_bounded(tensors.values())
    found: dict[str, str] = {}
    each = {id(tensor): tensor for tensor in tensors.values()}
    measured = Measured(step, sum(tensor.elements.nbytes for tensor in tensors.values()))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        waiting = {key: pool.submit(tensor_digest, tensor, reading) for key, tensor in each.items()}
        try:
            for name, tensor in tensors.items():
                found[name] = waiting[id(tensor)].result()
                measured.add(name, tensor.elements.nbytes)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return found


class TensorDigest:
    """The digest of a tensor, whose elements are added piece by piece."""

    def __init__(self, tensor: TensorContent) -> None:
        self._digest = hashlib.sha256(encode([VERSION, "tensor", tensor.meaning]))
        self.add = self._digest.update

    def __str__(self) -> str:
        return f"{VERSION}:{self._digest.hexdigest()}"


def tensor_digest(tensor: TensorContent, reading: Reading) -> str:
    """Return the digest of a tensor of a file."""
    digest = TensorDigest(tensor)
    for piece in reading.pieces(tensor.elements):
        digest.add(piece)
    return str(digest)


def sha256_of(stream: BinaryIO) -> str:
    """Return the SHA-256 of a file as it is, from its position on."""
    digest = hashlib.sha256()
    while piece := stream.read(_READ_AT_ONCE):
        digest.update(piece)
    return digest.hexdigest()


def part_digest(part: str, value: Plain) -> str:
    """Return the digest of the plain data of a part."""
    return f"{VERSION}:{hashlib.sha256(encode([VERSION, part, value])).hexdigest()}"
