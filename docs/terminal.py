"""Draw what a terminal shows of commands: the picture on top of the README, and another.

    python docs/terminal.py [NAME ...]

writes `docs/pictures/NAME-light.svg` and `docs/pictures/NAME-dark.svg`, by default of all names.
"""

import io
import os
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI, TerminalTheme
from rich.text import Text

FOLDER = Path(__file__).parent / "pictures"
ARCHIVES = FOLDER.parents[1] / "fixtures" / "archives"
WIDTH = 92
COMMANDS = {"demo": "tsarchive demo", "terminal": "tsarchive info trace_submodules.pt"}
# Black on white, in colours that can be read there.
LIGHT = TerminalTheme(
    (255, 255, 255),
    (36, 41, 47),
    [
        (36, 41, 47), (179, 29, 40), (17, 99, 41), (120, 72, 0),
        (9, 80, 174), (111, 66, 193), (15, 106, 120), (87, 96, 106),
    ],
)  # fmt: skip
THEMES = {"light": LIGHT, "dark": MONOKAI}
FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def shown(command: str) -> str:
    """Return what a command prints on a terminal, colours included."""
    done = subprocess.run(
        [sys.executable, "-m", *command.split()],
        env={**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(WIDTH)},
        capture_output=True,
        text=True,
        check=True,
        cwd=ARCHIVES,
    )
    return done.stdout


def drawn(command: str, output: str, theme: TerminalTheme) -> str:
    """Return a terminal with a command and its output as SVG, which loads nothing."""
    console = Console(width=WIDTH, file=io.StringIO(), record=True, force_terminal=True)
    console.print(Text(f"$ {command}", style="bold"))
    console.print(Text.from_ansi(output.rstrip()))
    picture = console.export_svg(title="", theme=theme, unique_id="terminal")
    return FONTS.sub("", picture)  # rich names a font that browsers would get from elsewhere


def main() -> None:
    for picture in sys.argv[1:] or COMMANDS:
        output = shown(COMMANDS[picture])
        for name, theme in THEMES.items():
            path = FOLDER / f"{picture}-{name}.svg"
            path.write_text(drawn(COMMANDS[picture], output, theme), encoding="utf-8")


if __name__ == "__main__":
    main()
