"""Take the pictures of the report page, of a comparison, and of the command in a terminal.

    python docs/screenshots.py

needs Chromium, and writes `docs/pictures/*.png` from archives of this repository.
"""

import os
import subprocess
import sys
import tempfile
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import tsarchive  # noqa: E402
from tests.reporting.browser import Browser, executable  # noqa: E402

PICTURES = ROOT / "docs/pictures"
MODEL = ROOT / "fixtures/archives/trace_submodules.pt"
BEFORE, AFTER = (ROOT / f"fixtures/pt2/linear-{torch}.pt2" for torch in ("2.7", "2.8"))
COLUMNS = 92


def terminal() -> str:
    """Return what `tsarchive info` shows on a terminal, as a page."""
    name = MODEL.name
    done = subprocess.run(
        [sys.executable, "-m", "tsarchive", "info", name], capture_output=True, text=True,
        check=True, cwd=MODEL.parent,
        env={**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(COLUMNS)},
    )  # fmt: skip
    console = Console(record=True, width=COLUMNS, file=StringIO())
    console.print(Text.from_ansi(f"$ tsarchive info {name}\n{done.stdout}"))
    return console.export_html()


def main() -> None:
    path = executable()
    if path is None:
        raise SystemExit("there is no Chromium: 'apt-get install chromium' brings one")
    with tempfile.TemporaryDirectory() as folder:
        pages = {name: Path(folder, f"{name}.html") for name in ("report", "diff", "terminal")}
        tsarchive.report(MODEL, pages["report"])
        tsarchive.report(BEFORE, pages["diff"], against=AFTER)
        pages["terminal"].write_text(terminal())
        browser = Browser(path, Path(folder, "profile"))
        for name, page, width, dark in (
            ("report-light", "report", 1240, False), ("report-dark", "report", 1240, True),
            ("diff", "diff", 1240, False), ("terminal", "terminal", 1000, False),
        ):  # fmt: skip
            browser.size(width, 800, dark=dark)
            browser.open(pages[page])
            browser.picture(PICTURES / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    main()
