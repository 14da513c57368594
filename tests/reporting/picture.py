"""A picture of a page, as the documents have them.

python -m tests.reporting.picture PAGE PNG [--width 1240] [--height 1000] [--dark]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tests.reporting.browser import Browser, executable


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("page", type=Path)
    parser.add_argument("png", type=Path)
    parser.add_argument("--width", type=int, default=1240)
    parser.add_argument("--height", type=int, default=1000)
    parser.add_argument("--dark", action="store_true")
    options = parser.parse_args()
    path = executable()
    if path is None:
        parser.error("there is no Chromium: 'apt-get install chromium' brings one")
    with tempfile.TemporaryDirectory() as profile:
        browser = Browser(path, Path(profile))
        browser.size(options.width, options.height, dark=options.dark)
        browser.open(options.page.resolve())
        browser.picture(options.png)
        browser.close()


if __name__ == "__main__":
    main()
