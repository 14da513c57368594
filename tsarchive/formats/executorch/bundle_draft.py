"""A bundled program under edit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tsarchive.errors import MissingRecordError

from .bundled import RECORD, SUITES, BundledProgram
from .encoding import encode
from .encoding_detection import detect_encoding
from .lazy import Lazy
from .pieces import Bytes, Pieces
from .program_draft import ProgramDraft
from .program_tensors import layout_of
from .schema_bundled import BUNDLED_PROGRAM
from .table_values import Values, table_values
from .tensor_bytes import bytes_for
from .values import Layout


class BundleDraft:
    """The program of a bundle and the tensors of its test calls."""

    def __init__(self, found: BundledProgram, program: Lazy[ProgramDraft]) -> None:
        root = found.root()
        self._values = table_values(root)
        self._encoding = detect_encoding(root, self._values, None)
        self._program = program
        self.is_edited = False
        end = self._encoding.size
        self._trailing: Bytes = b"" if end is None else found.data[end:]

    @property
    def program(self) -> ProgramDraft:
        """The program, which is encoded anew once it has been edited."""
        return self._program.get()

    @property
    def layouts(self) -> Mapping[str, Layout]:
        """The layouts of the tensors of all calls."""
        return {name: layout_of(table) for name, table in _tensors(self._values)}

    def replace(self, name: str, data: Any) -> None:
        """Replace the bytes of a tensor of a call."""
        found = dict(_tensors(self._values))
        if name not in found:
            raise MissingRecordError(f"the bundle has no tensor {name!r}", record=RECORD)
        found[name]["data"] = bytes_for(name, layout_of(found[name]), data)

    def strip_test_suites(self) -> bool:
        """Remove all calls. Returns whether there were any."""
        had_any = bool(self._values.get("method_test_suites"))
        if had_any:
            self._values["method_test_suites"] = []
        return had_any

    def assemble(self) -> Pieces:
        """Return the whole file."""
        if self._program.made is not None and self._program.made.is_edited:
            self._values["program"] = self.program.assemble()
        made = encode(
            BUNDLED_PROGRAM, self._values, self._encoding.order, self._encoding.alignments
        )
        return Pieces((made.head(), made.body, self._trailing))


def _tensors(root: Values) -> Iterator[tuple[str, Values]]:
    """Yield tensors by the names that archives use: ``test_suites/forward/0/inputs/1``."""
    for suite in root.get("method_test_suites", ()):
        for number, case in enumerate(suite.get("test_cases", ())):
            folder = f"{SUITES}{suite.get('method_name', '')}/{number}"
            for group in ("inputs", "expected_outputs"):
                for index, value in enumerate(case.get(group, ())):
                    kind, table = value.get("val", (None, None))
                    if kind == "Tensor":
                        yield f"{folder}/{group}/{index}", table
