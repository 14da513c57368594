"""Draw what stands where in real files: the pictures of the pages about formats.

    python docs/pictures.py

reads archives of this repository and writes `docs/pictures/*.svg`, the same for the same files.
"""

from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path

import tsarchive

ROOT = Path(__file__).parents[1]
FILES = {
    "format-torchscript": "fixtures/archives/trace_convolution.pt",
    "format-pt2": "fixtures/pt2/linear-2.8.pt2",
    "format-executorch": "fixtures/executorch/linear.pte",
}
COLOURS = {
    "data": "#5b8def", "constants": "#5b8def", "segments": "#5b8def", "named_data": "#5b8def",
    "code": "#3a9d6e", "models": "#3a9d6e", "program": "#3a9d6e",
}  # fmt: skip
OTHER, ROW, WIDTH = "#b08030", 22, 720
STYLE = "text{font:12px sans-serif;fill:#333}@media(prefers-color-scheme:dark){text{fill:#ddd}}"


def colour(name: str) -> str:
    """Return the colour of a record: weights, code, or anything else."""
    return OTHER if name.endswith(".pkl") else COLOURS.get(name.partition("/")[0], OTHER)


def drawn(number: int, name: str, offset: int, size: int, total: int) -> Iterator[str]:
    """Yield the row of a record: its place in the file, and a bar where it stands."""
    y = ROW * (number + 1)
    left, width = 360 * offset / total, max(360 * size / total, 2)
    yield f'<text x="60" y="{y + 15}" text-anchor="end">{offset:,}</text>'
    yield f'<text x="70" y="{y + 15}">{escape(name)}</text>'
    yield (
        f'<rect x="{340 + left:.1f}" y="{y + 4}" width="{width:.1f}" height="14" '
        f'fill="{colour(name)}"><title>{size:,} bytes</title></rect>'
    )


def picture(path: Path) -> str:
    """Return the records of a file as SVG, in the order of their bytes."""
    with tsarchive.open(path) as archive:
        places = sorted(
            (record.offset, record.size, name) for name, record in archive.records.items()
        )
    total = path.stat().st_size
    height = ROW * (len(places) + 2)
    title = f"{path.name}: {total:,} bytes"
    rows: Iterable[str] = (
        line
        for number, (offset, size, name) in enumerate(places)
        for line in drawn(number, name, offset, size, total)
    )
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'role="img" aria-label="{escape(title)}">'
    )
    return (
        "\n".join(
            [head, f"<style>{STYLE}</style>", f'<text x="70" y="15">{escape(title)}</text>', *rows]
        )
        + "\n</svg>\n"
    )


def main() -> None:
    for name, path in FILES.items():
        text = picture(ROOT / path)
        (ROOT / "docs" / "pictures" / f"{name}.svg").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
