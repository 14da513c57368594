"""How good decompiled code is: scripted again, beside its original, and by linters.

    python benchmarks/decompiling.py [--json] [--lint] [--cases] [PATH ...]

Each archive is decompiled with `check`: its package is scripted again, and methods are counted
whose code comes back. Functions whose Python source is at hand, in this repository or installed,
torch's own aside, are compared with it: the share of tokens that both have in order, where names
count and comments, docstrings, decorators, annotations, quotes and line breaks do not. With --lint,
ruff and mypy with their default rules count errors of the packages.

Without paths: the corpus beside the repository and the fixture archives; with --cases also all
fixtures that are scripted or traced here. Each archive is tried in a process of its own; --timeout
is in seconds and for each archive.
"""

import argparse
import ast
import io
import json
import re
import shutil
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from difflib import SequenceMatcher
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT))

from measured import measured  # noqa: E402

import tsarchive  # noqa: E402

CORPUS = ROOT.parent / "shared" / "corpus"
CASE = "case:"
_MARK = "row: "
_LAYOUT = {
    tokenize.ENCODING, tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT, tokenize.ENDMARKER,
}  # fmt: skip
_INDENTATION = {tokenize.INDENT: "<indent>", tokenize.DEDENT: "<dedent>"}
_MYPY_ERROR = re.compile(r"^(?P<package>package_\d+)/.*: error: ", re.MULTILINE)
Row = dict[str, Any]
_FINE = ("equal", "library")


def default_names(*, with_cases: bool) -> list[str]:
    paths = sorted((CORPUS / "torchscript").glob("*"))
    for folder in (CORPUS / "generated", ROOT / "fixtures" / "archives"):
        paths += sorted(path for path in folder.glob("*.pt") if not path.match("*.io.pt"))
    if not with_cases:
        return [*map(str, paths)]
    from fixtures.modules import all_cases

    return [*map(str, paths), *(f"{CASE}{case.name}" for case in all_cases())]


class _Plain(ast.NodeTransformer):
    """Takes out what is no code: docstrings, annotations, decorators."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        node.decorator_list, node.returns = [], None
        if ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        self.generic_visit(node)
        return None if node.value is None else ast.Assign([node.target], node.value)


def tokens_of(function: ast.FunctionDef) -> list[str]:
    """Return the tokens of a function as `ast` writes it."""
    plain = ast.fix_missing_locations(_Plain().visit(function))
    text = io.StringIO(ast.unparse(plain))
    tokens = tokenize.generate_tokens(text.readline)
    return [_INDENTATION.get(t.type, t.string) for t in tokens if t.type not in _LAYOUT]


def similarity(one: ast.FunctionDef, other: ast.FunctionDef) -> float:
    return SequenceMatcher(None, tokens_of(one), tokens_of(other), autojunk=False).ratio()


def functions_in(path: Path) -> dict[str, ast.FunctionDef]:
    """Return the functions of a file and the methods of its classes by their names."""
    found: dict[str, ast.FunctionDef] = {}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef):
            own = (each for each in node.body if isinstance(each, ast.FunctionDef))
            found |= {f"{node.name}.{each.name}": each for each in own}
        elif isinstance(node, ast.FunctionDef):
            found.setdefault(node.name, node)
    return found


def original_of(module: str) -> Path | None:
    """Return the file of a module that is at hand; torch's own are no measure of a program."""
    if not module or module.startswith("torch."):
        return None
    name = Path(*module.split("."))
    candidates = (Path(folder) / name.with_suffix(".py") for folder in (ROOT, *sys.path) if folder)
    return next(filter(Path.is_file, candidates), None)


def similarities(folder: Path, definitions: dict[str, str]) -> Iterator[tuple[str, float]]:
    """Yield the functions of a package that are beside their originals, and how like they are."""
    for place, qualified_name in definitions.items():
        module, _, own = place.partition(":")
        original, _, name = qualified_name.removeprefix("__torch__.").rpartition(".")
        source = original_of(original)
        if source is None:
            continue
        ours = functions_in(folder / Path(*module.split(".")).with_suffix(".py"))
        theirs = functions_in(source)
        for key, function in ours.items():
            rest = key.removeprefix(own)
            is_own = rest == "" or (rest.startswith(".") and rest != ".__init__")
            if key.startswith(own) and is_own and name + rest in theirs:
                yield f"{qualified_name}{rest}", similarity(theirs[name + rest], function)


def archive_of(name: str, folder: Path) -> Path:
    """Return the path of an archive; that of a case is made first."""
    if not name.startswith(CASE):
        return Path(name)
    import torch

    from fixtures.modules import all_cases

    case = next(case for case in all_cases() if case.name == name.removeprefix(CASE))
    path = folder / f"{case.name}.pt"
    torch.jit.save(case.build(), str(path))  # type: ignore[no-untyped-call]
    return path


def examine(name: str, directory: Path) -> Row:
    """Return the row of one archive, whose package is written to a directory."""
    try:
        with TemporaryDirectory() as folder:
            archive = archive_of(name, Path(folder))
            with tsarchive.open(archive) as opened:
                is_traced = "traced_inputs.pkl" in opened.records
            policy = tsarchive.Policy.trusted()
            report = tsarchive.decompile(archive, directory, policy=policy, force=True, check=True)
    except tsarchive.ArchiveError as error:
        return {"refused": f"{type(error).__name__}: {str(error).splitlines()[0]}"[:300]}
    assert report.check is not None
    methods = [
        {
            "name": method.name, "outcome": method.outcome, "reason": method.reason,
            "before": method.before, "after": method.after,
        }
        for method in report.check.methods
    ]  # fmt: skip
    alike = dict(similarities(directory, dict(report.definitions)))
    return {
        "methods": methods,
        "traced": is_traced,
        "similarity": alike,
        "files": len(report.files),
    }


def examine_apart(name: str, directory: Path, timeout: float) -> Row:
    """Return the row of one archive as a process of its own finds it."""
    command = [sys.executable, __file__, "--here", str(directory), name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return {"refused": f"takes more than {timeout:g} seconds"}
    rows = (line for line in done.stdout.splitlines() if line.startswith(_MARK))
    said = next(rows, None)
    if said is not None:
        row: Row = json.loads(said.removeprefix(_MARK))
        return row
    last = (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1]
    return {"refused": last[:300]}


def examine_all(names: list[str], folder: Path, timeout: float, jobs: int) -> dict[str, Row]:
    places = [folder / f"package_{number}" for number, _ in enumerate(names)]
    with ThreadPoolExecutor(jobs) as pool:
        rows = pool.map(lambda name, place: examine_apart(name, place, timeout), names, places)
        return dict(zip(names, rows, strict=True))


def lint(folder: Path, rows: Iterable[Row]) -> None:
    """Add the errors of ruff and mypy to the rows, whose packages are in a folder by number."""
    found = {f"package_{number}": row for number, row in enumerate(rows)}
    packages = [name for name in found if (folder / name).is_dir()]
    ruff = ["ruff", "check", "--isolated", "--no-cache", "--output-format", "json", "."]
    said = subprocess.run(ruff, cwd=folder, capture_output=True, text=True, check=False).stdout
    errors = Counter(
        Path(error["filename"]).relative_to(folder.resolve()).parts[0] for error in json.loads(said)
    )
    mypy = [sys.executable, "-m", "mypy", "--no-color-output", "--cache-dir", ".cache"]
    names = [part for name in packages for part in ("-p", name)]
    done = subprocess.run([*mypy, *names], cwd=folder, capture_output=True, text=True, check=False)
    types = Counter(match["package"] for match in _MYPY_ERROR.finditer(done.stdout))
    for name in packages:
        found[name]["ruff"], found[name]["mypy"] = errors[name], types[name]


def table(rows: dict[str, Row]) -> str:
    tried = {name: row for name, row in rows.items() if "methods" in row}
    ratios = [ratio for row in tried.values() for ratio in row["similarity"].values()]
    lines = ["| decompiled code | |", "|---|---|"]
    for kind in ("scripted", "traced"):
        lines += _counts(
            kind, [row for row in tried.values() if row["traced"] == (kind == "traced")]
        )
    if ratios:
        shown = f"median {median(ratios):.2f} of {len(ratios):,}"
        lines.append(f"| similarity with the original | {shown} |")
    for tool in ("ruff", "mypy"):
        counts = [row[tool] for row in tried.values() if tool in row]
        if counts:
            clean = share(counts.count(0), len(counts))
            lines.append(f"| packages without errors of {tool} | {clean} |")
            lines.append(f"| errors of {tool} | {sum(counts):,} |")
    lines.append(f"\nNot tried: {len(rows) - len(tried)}\n\n{measured()}")
    return "\n".join(lines)


def _counts(kind: str, rows: list[Row]) -> Iterator[str]:
    """Yield what is counted of archives that were scripted, or of those that were traced."""
    methods = [method for row in rows for method in row["methods"]]
    outcomes = Counter(method["outcome"] for method in methods)
    whole = sum(all(m["outcome"] in _FINE for m in row["methods"]) for row in rows)
    yield f"| {kind}: archives whose code all comes back | {share(whole, len(rows))} |"
    yield f"| {kind}: methods whose code comes back | {share(outcomes['equal'], len(methods))} |"
    yield f"| {kind}: methods that differ | {outcomes['differs']:,} |"
    yield f"| {kind}: methods that are not scripted | {outcomes['not scripted']:,} |"
    yield f"| {kind}: methods of a library that have other code here | {outcomes['library']:,} |"


def share(part: int, whole: int) -> str:
    return f"{part:,} of {whole:,} ({part / whole:.1%})" if whole else "none"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("paths", nargs="*")
    parser.add_argument("--json", action="store_true", help="print all methods of each archive")
    parser.add_argument("--lint", action="store_true", help="count errors of ruff and mypy")
    parser.add_argument("--cases", action="store_true", help="make and try all fixtures, too")
    parser.add_argument("--keep", type=Path, help="write the packages below this folder")
    parser.add_argument("--jobs", type=int, default=1, help="archives at a time")
    parser.add_argument("--timeout", type=float, default=300)
    parser.add_argument("--here", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        print(f"\n{_MARK}{json.dumps(examine(options.paths[0], options.here))}")
        return
    names = options.paths or default_names(with_cases=options.cases)
    with TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        rows = examine_all(names, folder, options.timeout, options.jobs)
        if options.lint:
            lint(folder, rows.values())
    print(json.dumps(rows, indent=1) if options.json else table(rows))


if __name__ == "__main__":
    main()
