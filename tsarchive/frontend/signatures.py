"""Parameters without a default behind ones with a default, which Python's grammar refuses.

torch drops defaults that it cannot write (``stride: BroadcastingList2[int] = 1``), so code of old
archives has such signatures.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

_HEADER = re.compile(r"^[ \t]*def +\w+\(", re.MULTILINE)
# Strings are skipped: they may hold any of the signs.
_SIGN = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|[\[({\])}=,]")
_DEPTH = {**dict.fromkeys("[({", 1), **dict.fromkeys("])}", -1)}


def hide_defaults(source: str) -> tuple[str, list[list[bool]]]:
    """Put ``|`` for each ``=`` in a signature: ``x: int=1`` becomes ``x: int|1``.

    No column changes. Also says of each parameter of each signature whether it has a default.
    """
    signs = list(source)
    signatures: list[list[bool]] = []
    for header in _HEADER.finditer(source):
        has_default = [False]
        for position in _between_parameters(source, header.end()):
            if source[position] == ",":
                has_default.append(False)
            else:
                signs[position] = "|"
                has_default[-1] = True
        signatures.append(has_default)
    return "".join(signs), signatures


def _between_parameters(source: str, start: int) -> Iterator[int]:
    """Yield the positions of ``=`` and ``,`` in a signature, outside of inner brackets."""
    depth = 1
    for match in _SIGN.finditer(source, start):
        depth += _DEPTH.get(match[0], 0)
        if depth == 0:
            return
        if depth == 1 and match[0] in ("=", ","):
            yield match.start()


def restore_defaults(tree: ast.AST, signatures: list[list[bool]]) -> None:
    """Take the hidden defaults out of the annotations.

    ``defaults`` then has an entry for every parameter, None where there is no default.
    """
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    functions.sort(key=lambda node: node.lineno)
    for function, has_default in zip(functions, signatures, strict=True):
        # A comma may stand behind the last parameter.
        pairs = zip(function.args.args, has_default, strict=False)
        defaults = [_taken_out(parameter) if given else None for parameter, given in pairs]
        function.args.defaults = defaults  # type: ignore[assignment]  # gaps are filled with None


def _taken_out(parameter: ast.arg) -> ast.expr:
    hidden = parameter.annotation
    if not isinstance(hidden, ast.BinOp):
        raise SyntaxError(f"the default of {parameter.arg!r} is not a literal")
    parameter.annotation = hidden.left
    return hidden.right
