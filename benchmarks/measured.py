"""What every command says of the figures that it prints: their date, and what they depend on."""

import platform
import time
from importlib.metadata import version


def measured() -> str:
    """Return the line that stands by the tables in the README; torch is not imported."""
    torch = version("torch").partition("+")[0]
    python = ".".join(platform.python_version_tuple()[:2])
    return f"Measured on {time.strftime('%Y-%m-%d')}, torch {torch}, Python {python}."
