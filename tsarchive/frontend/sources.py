"""The code records of an archive as text: cut into definitions when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from tsarchive.ir.source_ranges import TaggedRange

from .places import RecordPlaces
from .splitting import Piece, split_record


class Sources:
    """The definitions of code records by qualified name.

    files: code records by name (``code/__torch__/a/b.py``), as text or a callable that reads it;
    debug: the ranges of user source that text of a code record stands for, by record;
    folder: the folder that holds the code records of qualified names.
    """

    def __init__(
        self,
        files: Mapping[str, Callable[[], str] | str],
        debug: Mapping[str, Sequence[TaggedRange]],
        folder: str,
    ) -> None:
        self._files = files
        self._debug = debug
        self._folder = folder
        self._pieces: dict[str, dict[str, Piece]] = {}
        self._places: dict[str, RecordPlaces] = {}

    def definitions(self, record: str) -> list[str]:
        """Return the qualified names that a code record defines, in file order."""
        path = record.removeprefix(f"{self._folder}/").removesuffix(".py")
        qualifier = path.replace("/", ".")
        return [f"{qualifier}.{name}" for name in self._read(record)]

    def record_of(self, qualified_name: str) -> str:
        """Return the code record that defines a qualified name."""
        qualifier = qualified_name.rpartition(".")[0]
        return f"{self._folder}/{qualifier.replace('.', '/')}.py"

    def piece(self, qualified_name: str) -> Piece | None:
        """Return the definition of a qualified name; None where no record has one."""
        name = qualified_name.rpartition(".")[2]
        return self._read(self.record_of(qualified_name)).get(name)

    def pieces(self, record: str) -> Iterable[Piece]:
        """Return the definitions of a code record, in file order."""
        return self._read(record).values()

    def text_of(self, qualified_name: str) -> str | None:
        """Return the text that defines a qualified name; None where no record has one."""
        piece = self.piece(qualified_name) if "." in qualified_name else None
        return None if piece is None else piece.text

    def places(self, record: str) -> RecordPlaces:
        """Return the places in a code record."""
        found = self._places.get(record)
        if found is None:
            found = RecordPlaces(record, lambda: self._text(record), self._debug)
            self._places[record] = found
        return found

    def _read(self, record: str) -> dict[str, Piece]:
        pieces = self._pieces.get(record)
        if pieces is None:
            pieces = self._pieces[record] = split_record(self._text(record), record)
        return pieces

    def _text(self, record: str) -> str:
        source = self._files.get(record, "")
        return source if isinstance(source, str) else source()
