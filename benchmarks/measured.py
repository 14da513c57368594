"""What every command says of the figures that it prints: their date, and what they depend on."""

import platform
import time
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version


def measured() -> str:
    """Return the line that stands by the tables in the README; torch is not imported."""
    torch = version("torch").partition("+")[0]
    python = ".".join(platform.python_version_tuple()[:2])
    return f"Measured on {time.strftime('%Y-%m-%d')}, torch {torch}, Python {python}."


def table(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> str:
    """Return rows as a table in Markdown."""
    lines = [columns, *([str(row[column]) for column in columns] for row in rows)]
    head, *others = (f"| {' | '.join(cells)} |" for cells in lines)
    return "\n".join([head, f"|{'---|' * len(columns)}", *others])
