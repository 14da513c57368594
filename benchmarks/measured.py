"""What every command says of the figures that it prints: their date, and what they depend on."""

import platform
import time
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path


def measured() -> str:
    """Return the line that stands by the tables of the docs; torch is not imported."""
    torch = version("torch").partition("+")[0]
    python = ".".join(platform.python_version_tuple()[:2])
    return f"Measured on {time.strftime('%Y-%m-%d')}, torch {torch}, Python {python}."


def table(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> str:
    """Return rows as a table in Markdown."""
    lines = [columns, *([str(row[column]) for column in columns] for row in rows)]
    head, *others = (f"| {' | '.join(cells)} |" for cells in lines)
    return "\n".join([head, f"|{'---|' * len(columns)}", *others])


def put(text: str, page: Path, name: str) -> None:
    """Write text between the comments ``<!-- NAME -->`` and ``<!-- end of NAME -->`` of a page."""
    start, end = f"<!-- {name} -->\n", f"\n<!-- end of {name} -->"
    head, found, rest = page.read_text(encoding="utf-8").partition(start)
    _, ended, tail = rest.partition(end)
    if not (found and ended):
        raise ValueError(f"{page} has no place for {name}: {start.strip()} and {end.strip()}")
    page.write_text(f"{head}{start}\n{text}\n{end}{tail}", encoding="utf-8")
