"""Take the pictures of the report page, and of a comparison.

    python docs/screenshots.py

needs Chromium, and writes `docs/pictures/*.png` from archives of this repository.
"""

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import tsarchive  # noqa: E402
from tests.reporting.browser import Browser, executable  # noqa: E402

PICTURES = ROOT / "docs/pictures"
WIDTH = 1240
MODEL = ROOT / "fixtures/archives/trace_submodules.pt"
BEFORE, AFTER = (ROOT / f"fixtures/pt2/linear-{torch}.pt2" for torch in ("2.7", "2.8"))


def main() -> None:
    path = executable()
    if path is None:
        raise SystemExit("there is no Chromium: 'apt-get install chromium' brings one")
    with tempfile.TemporaryDirectory() as folder:
        pages = {name: Path(folder, f"{name}.html") for name in ("report", "diff")}
        tsarchive.report(MODEL, pages["report"])
        tsarchive.report(BEFORE, pages["diff"], against=AFTER)
        browser = Browser(path, Path(folder, "profile"))
        for name, page, dark in (
            ("report-light", "report", False), ("report-dark", "report", True),
            ("diff", "diff", False),
        ):  # fmt: skip
            browser.size(WIDTH, 800, dark=dark)
            browser.open(pages[page])
            browser.picture(PICTURES / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    main()
