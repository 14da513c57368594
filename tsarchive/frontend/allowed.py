"""Whether the text of a code record is TorchScript at all, with nothing imported or compiled."""

from __future__ import annotations

import ast

from tsarchive.errors import SourceError

from .splitting import without_old_lines
from .syntax import parse_statements

__all__ = ["check_code"]


def check_code(text: str, record: str) -> None:
    """Raise SourceError, with record, line and construct, for text with any other syntax.

    The same is checked wherever code is parsed; this looks at all of a record at once. Names
    are not resolved: what they mean is found out when a function is compiled.
    """
    for node in parse_statements(without_old_lines(text, record), record, 1):
        if not isinstance(node, ast.ClassDef | ast.FunctionDef):
            what = f"a {type(node).__name__} outside of classes and functions"
            error = SourceError(
                f"{what} cannot stand in TorchScript code", record=record, line=node.lineno
            )
            error.construct = what
            raise error
