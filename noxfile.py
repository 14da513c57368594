"""Sessions for every torch and Python that tsarchive is tried with.

``nox -s suite`` runs the demo and the short suite for each row of docs/compatibility.md, in an
environment of its own that is removed afterwards, and writes the row; ``nox -s "suite(torch 2.15.0,
Python 3.11)"`` does one. ``nox -s registry`` reads the schemas of each torch into
tsarchive/operators/schemas.txt; ``nox -s registry -- 2.16.0`` reads those of one, and keeps the
others.
"""

from __future__ import annotations

import re
import shutil
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path

import nox

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT))

from fixtures.schemas import schemas_of_each, schemas_text  # noqa: E402  # found by the line above

TABLE = ROOT / "docs" / "compatibility.md"
SCHEMAS = ROOT / "tsarchive" / "operators" / "schemas.txt"
TESTED, NEWEST = "2.13.0", "2.15.0"
TORCHES = ("2.6.0", "2.8.0", "2.10.0", "2.12.1", TESTED, "2.14.1", NEWEST)
# Each torch on one Python, the other Pythons on one torch, and the newest on the newest.
CELLS = [
    *((torch, "3.11") for torch in TORCHES),
    *((TESTED, python) for python in ("3.10", "3.12", "3.13", "3.14")),
    (NEWEST, "3.14"),
]
_ROW = re.compile(r"\| (?P<torch>[\d.]+) \| (?P<python>[\d.]+) \|.*\|\n")
_RULE = "|---|---|---|---|---|---|---|\n"
# Torches whose schemas are told, the oldest that wrote archives of today's form first.
REGISTRIES = (
    "1.4.0", "1.5.1", "1.6.0", "1.7.1", "1.8.1", "1.9.1", "1.10.2", "1.11.0", "1.12.1", "1.13.1",
    "2.0.1", "2.1.2", "2.2.2", "2.3.1", "2.4.1", "2.5.1", "2.6.0", "2.7.1", "2.8.0", "2.9.1",
    "2.10.0", "2.11.0", "2.12.1", "2.13.0", "2.14.1", "2.15.0",
)  # fmt: skip
_REGISTRY = """
import torch
for schema in torch._C._jit_get_all_schemas():
    print(schema)
for schema in getattr(torch._C, "_jit_get_custom_class_schemas", tuple)():
    line = "{}.{}".format(schema.arguments[0].type, schema)
    if line.startswith("__torch__."):
        print(line)
"""

nox.options.sessions = ["suite"]


@nox.session(python=False)
@nox.parametrize(("torch", "python"), CELLS, ids=[f"torch {t}, Python {p}" for t, p in CELLS])
def suite(session: nox.Session, torch: str, python: str) -> None:
    """Run the demo and the short suite on one torch and one Python, and write the row."""
    with _environment(session, torch, python, "-e", ".[test]") as folder:
        results = folder / "results.xml"
        demo = _passes(session, folder / "bin" / "tsarchive", "demo")
        tests = (folder / "bin" / "python", "-m", "pytest", "-q", f"--junitxml={results}")
        passed = _passes(session, *tests)
        _write_row(torch, python, "passes" if demo else "fails", results)
    if not (demo and passed):
        session.error("the demo or a test fails")


def _passes(session: nox.Session, *command: object) -> bool:
    try:
        session.run(*map(str, command), external=True)
    except nox.command.CommandFailed:
        return False
    return True


@nox.session(python=False)
def registry(session: nox.Session) -> None:
    """Read the schemas of each torch, or of those that are named."""
    listed = schemas_of_each(SCHEMAS.read_text("ascii")) if session.posargs else {}
    for torch in session.posargs or REGISTRIES:
        python = "3.8" if torch.startswith("1.") else "3.11"
        with _environment(session, torch, python) as folder:
            command = (str(folder / "bin" / "python"), "-W", "ignore", "-c", _REGISTRY)
            listed[torch] = session.run(*command, external=True, silent=True).splitlines()
    SCHEMAS.write_text(schemas_text(listed, TORCHES), "ascii")


@contextmanager
def _environment(session: nox.Session, torch: str, python: str, *more: str) -> Iterator[Path]:
    """An environment with this torch; its packages are kept in no cache, as they are large."""
    folder = Path(session.create_tmp()) / f"torch-{torch}-python-{python}"
    try:
        session.run(f"python{python}", "-m", "venv", "--clear", str(folder), external=True)
        install = (str(folder / "bin" / "pip"), "install", "--quiet", "--no-cache-dir")
        session.run(*install, f"torch=={torch}", "numpy", *more, external=True)
        yield folder
    finally:
        shutil.rmtree(folder)


def _write_row(torch: str, python: str, demo: str, results: Path) -> None:
    (suite,) = ElementTree.parse(results).getroot().iter("testsuite")
    total, skipped, *failed = (
        int(suite.get(name, 0)) for name in ("tests", "skipped", "failures", "errors")
    )
    counts = (total - skipped - sum(failed), sum(failed), skipped)
    columns = (torch, python, demo, *(f"{count:,}" for count in counts), str(date.today()))
    head, rule, tail = TABLE.read_text(encoding="utf-8").partition(_RULE)
    rows = {match.group("torch", "python"): match[0] for match in _ROW.finditer(tail)}
    rows[torch, python] = f"| {' | '.join(columns)} |\n"
    rest = _ROW.sub("", tail)
    written = "".join(rows[cell] for cell in CELLS if cell in rows)
    TABLE.write_text(head + rule + written + rest, encoding="utf-8")
