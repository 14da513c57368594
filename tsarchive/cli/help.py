"""Help of commands: text, options and examples, folded to the width of the terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

import click

from .lines import cells, folded, hanging

# Lines of a paragraph that begins with it stay lines.
_AS_IT_IS: Final = "\b"
_EXAMPLES: Final = "Examples:"
_WORD: Final = r"""(?:[^\s"']|"[^"]*"|'[^']*')+"""
# An option stays together with what follows it.
_PARTS: Final = re.compile(rf"-{_WORD} (?!-){_WORD}|{_WORD}")
_GOES_ON: Final = " \\"
_NAME: Final = re.compile(r"\s*\S+(?: \S+)*\s{2,}")


class Help(click.HelpFormatter):
    """Breaks lines at spaces alone, and examples so that a shell takes them as they stand."""

    def write_text(self, text: str) -> None:
        """Write paragraphs, with empty lines between them."""
        indent, room = " " * self.current_indent, self.width - self.current_indent
        paragraphs = (_lines_of(each, room) for each in re.split(r"\n\s*\n", text))
        shown = ("\n".join(indent + line for line in lines) for lines in paragraphs)
        self.write("\n\n".join(shown) + "\n")

    def write_dl(
        self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2
    ) -> None:
        """Write names with what they mean beside them, or below those that are long."""
        rows = list(rows)
        # On narrow terminals, meanings keep most of the width.
        longest = min(col_max, self.width // 3)
        column = min(longest, max(cells(name) for name, _ in rows)) + col_spacing
        indent = " " * self.current_indent
        for name, meaning in rows:
            lines = folded(meaning, self.width - self.current_indent - column)
            below = [" " * column + line for line in lines]
            if cells(name) + col_spacing > column:
                below.insert(0, name)
            else:
                below[0] = f"{name:{column}}{lines[0]}"
            self.write("".join(f"{(indent + line).rstrip()}\n" for line in below))


class HelpContext(click.Context):
    """The context of a command whose help is :class:`Help`."""

    formatter_class = Help


def _lines_of(paragraph: str, room: int) -> list[str]:
    first, *lines = paragraph.strip("\n").splitlines()
    if first.strip(" ") != _AS_IT_IS:
        return folded(" ".join(map(str.strip, (first, *lines))), room)
    fold = _command if lines[0] == _EXAMPLES else _row
    return [piece for line in lines for piece in fold(line, room)]


def _row(line: str, room: int) -> Iterable[str]:
    """Fold a line; what two spaces or more set apart from a name stays beside it."""
    name = _NAME.match(line)
    return hanging(line, room, name.end() if name else 0)


def _command(line: str, room: int) -> Iterator[str]:
    """Yield a line of a shell as lines of which all but the last go on."""
    begin = " " * (len(line) - len(line.lstrip(" ")))
    shown, *parts = _PARTS.findall(line)
    shown = begin + shown
    for number, part in enumerate(parts, 1):
        more = 0 if number == len(parts) else len(_GOES_ON)
        if cells(f"{shown} {part}") + more <= room:
            shown = f"{shown} {part}"
        else:
            yield shown + _GOES_ON
            shown = f"{begin}    {part}"
    yield shown
