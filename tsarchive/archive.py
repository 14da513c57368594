"""Opened archives: records, code, tensors, modules, without torch, and what this process lacks."""

from __future__ import annotations

import os
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from tsarchive.errors import UnsupportedError
from tsarchive.formats.base import NO_MODELS, Opened, OpenedArchive
from tsarchive.formats.registry import format_named, format_of, opened_file
from tsarchive.ir.names import NATIVE_PREFIX
from tsarchive.remote import located
from tsarchive.renaming import renamed

if TYPE_CHECKING:
    from tsarchive.formats.executorch.view import ExecutorchView
    from tsarchive.formats.pt2.view import Pt2View
    from tsarchive.ir.classes import ClassType
    from tsarchive.pickler import Object


class Archive(OpenedArchive):
    """An archive opened for looking at. Also a context manager that closes itself.

    Opening reads the directory of the file; everything else is read when it is asked for.

        >>> with tsarchive.open("net.pt") as archive:
        ...     print(archive.kind, archive.totals.elements, archive.extra_files["labels.txt"])
        torchscript 10 b'cat dog'
    """

    @property
    def exported(self) -> Pt2View:
        """The parts that only PT2 archives have: several models, with signatures.

        Raises UnsupportedError for archives of another kind.
        """
        from tsarchive.formats.pt2.view import Pt2View

        _ = self.container
        if not isinstance(self.view, Pt2View):
            raise UnsupportedError(
                f"only PT2 archives hold exported programs; this one is {self.kind}"
            )
        return self.view

    def only(self, model: str) -> Archive:
        """This archive as if it had one model, whose names then stand without that of the model.

        It shares the file with this archive. Raises MissingRecordError when a PT2 archive has no
        model of this name, UnsupportedError for archives of another kind.
        """
        found = format_named(self.kind)
        if not found.has_programs:
            raise found.not_taken("model", NO_MODELS, UnsupportedError)
        view = self.exported.only(model)
        return Archive(self._opened, self._format, view, name=self._name)

    @property
    def executorch(self) -> ExecutorchView:
        """The parts that only files of ExecuTorch have: programs, segments, data by name.

        Raises UnsupportedError for archives of another kind.
        """
        from tsarchive.formats.executorch.view import ExecutorchView

        if not isinstance(self.view, ExecutorchView):
            raise UnsupportedError(
                f"this is {format_named(self.kind).what_it_is}, not a file of ExecuTorch",
                hint="'tsarchive convert' makes programs of it from TorchScript and PT2 archives",
            )
        return self.view

    def moved(self, map_location: str) -> Archive:
        """Return the archive as :func:`tsarchive.load` reads it with this ``map_location``.

        Devices in its code and constants are changed; data.pkl is shown as it is. It shares the
        file with this archive. Raises CallError when ``map_location`` has not the form of a
        device (extensions of torch name types of their own), SourceError for code that names
        devices and does not parse, MissingRecordError for archives that are not TorchScript.
        """
        moved = self._format.moved(self._opened, map_location)
        return Archive(moved, self._format, name=self._name)

    def class_of(self, value: Object) -> ClassType:
        """Return the class of a pickled object.

        Raises UnknownClassError when it is not defined, FormatError when it is not a class.
        """
        from tsarchive.formats.torchscript.inspection import class_finder

        return class_finder(self.classes)(value)


@renamed(source="f")
def open(f: str | os.PathLike[str] | BinaryIO) -> Archive:  # the verb of the public interface
    """Open an archive (a path or a binary file object) for looking at; torch is not imported.

    A file on disk is mapped, and an object that reads and seeks is read where it is looked at: its
    end, its start, then code, pickles and whatever else is asked for. So it has to stay open until
    the archive is closed, and :attr:`Archive.traffic` counts what was read. Pipes, io.BytesIO and
    decompressors are read into memory at once, and not needed afterwards. Each object is read from
    its position on.

    :class:`tsarchive.RemoteLimits` bounds what is asked of a server or an object.

    Raises FormatError when the file is neither a sound zip archive nor a sound file of ExecuTorch,
    OSError when it cannot be read, LimitError when it takes more than the limits allow.

        >>> with tsarchive.open("net.pt") as archive:
        ...     print(list(archive.tensors))
        ['head.weight', 'head.bias']
    """
    place = located(f)  # by the name of a URL, which has no credentials
    name = os.fsdecode(place) if isinstance(place, (str, os.PathLike)) else ""
    return archive_of(opened_file(f), name)


def archive_of(opened: Opened, name: str = "") -> Archive:
    """Return an opened file as an archive to look at; ``name`` is its path or URL, if known."""
    return Archive(opened, format_of(opened), name=name)


@dataclass(frozen=True, slots=True)
class Missing:
    """Names as in :class:`tsarchive.Needs`. It is true when anything is missing.

    For example:

        >>> missing = tsarchive.missing("net.pt")
        >>> missing.operators, missing.classes
        ((), ())
    """

    operators: tuple[str, ...]
    classes: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.operators or self.classes)

    @property
    def hints(self) -> dict[str, str]:
        """Advice on each name."""
        from tsarchive.operators.libraries import what_registers

        classes = {name: what_registers(f"{NATIVE_PREFIX}{name}") for name in self.classes}
        return {name: what_registers(name) for name in self.operators} | classes


@renamed(source="f")
def missing(f: str | os.PathLike[str] | BinaryIO | Archive) -> Missing:
    """Return the operators and torchbind classes that a file needs and this process lacks.

    ``f`` is a path, a binary file object or an opened archive. A library registers its
    operators when it is imported, so the answer may change. Operators count by name: an
    overload may still be missing where nothing is.

    Raises ArchiveError for a file that is neither TorchScript nor a PT2 archive or whose code does
    not parse, OSError when it cannot be read.

        >>> tsarchive.missing("net.pt").operators
        ()
    """
    from tsarchive.run.operators import has_class, runs_here

    opened = nullcontext(f) if isinstance(f, Archive) else open(f)
    with opened as archive:
        needs = archive.needs
    return Missing(
        tuple(sorted(name for name in needs.operators if not runs_here(name))),
        tuple(n for n in needs.classes if not has_class(f"{NATIVE_PREFIX}{n}")),
    )
