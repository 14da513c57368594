"""The rooms and their arrows: who may import whom, held by reading the imports of every file."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

from tests.support.archives import ROOT

FOLDERS = {
    "tsarchive": ROOT / "tsarchive",
    "printer": ROOT / "printer",
    "pickler": ROOT / "pickler",
}
BRIDGE = "tsarchive.adopt.torch_jit"

# Each format is a room of its own; what formats have in common is another, and the registry is on
# top of all.
FORMATS = tuple(
    f"tsarchive.formats.{name}"
    for name in ("torchscript", "legacy", "pt2", "executorch", "foreign", "registry")
)

# Room -> rooms it may import besides itself and the floor.
FLOOR = {
    "tsarchive.errors", "tsarchive.findings", "tsarchive.garbage", "tsarchive.lazy_members",
    "tsarchive.notebook", "tsarchive.renaming", "tsarchive.reports", "tsarchive.steps",
    "tsarchive.strict_json",
}  # fmt: skip
MAY_IMPORT = {
    "tsarchive.caching": set(),
    "tsarchive.container": {"tsarchive.remote"},
    "tsarchive.errors": set(),
    "tsarchive.findings": set(),
    "tsarchive.garbage": set(),
    "tsarchive.ir": set(),
    "tsarchive.lazy_members": set(),
    "tsarchive.notebook": set(),
    "tsarchive.pickler": set(),
    "tsarchive.remote": set(),
    "tsarchive.renaming": set(),
    "tsarchive.reports": set(),
    "tsarchive.steps": set(),
    "tsarchive.strict_json": set(),
    "tsarchive.adopt": {"tsarchive.ir"},
    "tsarchive.comparing": {"tsarchive.container", "tsarchive.describing"},
    "tsarchive.operators": {"tsarchive.ir"},
    "tsarchive.printer": {"tsarchive.ir"},
    "tsarchive.frontend": {"tsarchive.ir", "tsarchive.operators"},
    "tsarchive.policy": {"tsarchive.ir", "tsarchive.operators"},
    "tsarchive.analyses": {
        "tsarchive.frontend", "tsarchive.ir", "tsarchive.operators", "tsarchive.printer",
    },
    "tsarchive.describing": {"tsarchive.frontend", "tsarchive.ir", "tsarchive.operators"},
    "tsarchive.run": {
        "tsarchive.ir", "tsarchive.operators", "tsarchive.policy", "tsarchive.printer",
    },
    "tsarchive.scanning": {
        "tsarchive.container", "tsarchive.describing", "tsarchive.operators",
        "tsarchive.pickler",
    },
    "tsarchive.formats": {
        "tsarchive.analyses", "tsarchive.comparing", "tsarchive.container", "tsarchive.describing",
        "tsarchive.frontend", "tsarchive.ir", "tsarchive.operators", "tsarchive.pickler",
        "tsarchive.policy", "tsarchive.remote", "tsarchive.run", "tsarchive.scanning",
    },
    "tsarchive.formats.torchscript": {
        "tsarchive.adopt", "tsarchive.analyses", "tsarchive.caching", "tsarchive.comparing",
        "tsarchive.container", "tsarchive.describing", "tsarchive.formats", "tsarchive.frontend",
        "tsarchive.ir", "tsarchive.operators", "tsarchive.pickler", "tsarchive.policy",
        "tsarchive.printer", "tsarchive.run", "tsarchive.scanning",
    },
    "tsarchive.formats.foreign": {
        "tsarchive.container", "tsarchive.describing", "tsarchive.formats",
        "tsarchive.formats.torchscript",
    },
    "tsarchive.formats.legacy": {
        "tsarchive.container", "tsarchive.describing", "tsarchive.formats",
        "tsarchive.formats.torchscript", "tsarchive.frontend", "tsarchive.ir",
        "tsarchive.operators", "tsarchive.pickler", "tsarchive.policy", "tsarchive.run",
    },
    "tsarchive.formats.pt2": {
        "tsarchive.analyses", "tsarchive.comparing", "tsarchive.container", "tsarchive.describing",
        "tsarchive.formats", "tsarchive.formats.torchscript", "tsarchive.frontend",
        "tsarchive.ir", "tsarchive.operators", "tsarchive.pickler", "tsarchive.policy",
        "tsarchive.run", "tsarchive.scanning",
    },
    "tsarchive.formats.executorch": {
        "tsarchive.analyses", "tsarchive.comparing", "tsarchive.container", "tsarchive.describing",
        "tsarchive.formats", "tsarchive.formats.pt2", "tsarchive.formats.torchscript",
        "tsarchive.frontend", "tsarchive.ir", "tsarchive.operators", "tsarchive.policy",
        "tsarchive.remote", "tsarchive.run", "tsarchive.scanning",
    },
    "tsarchive.executorch": {"tsarchive.formats.executorch"},
    "tsarchive.formats.registry": {
        "tsarchive.container", "tsarchive.formats", "tsarchive.formats.executorch",
        "tsarchive.formats.foreign", "tsarchive.formats.legacy", "tsarchive.formats.pt2",
        "tsarchive.formats.torchscript",
    },
    "tsarchive.archive": {
        "tsarchive.formats", "tsarchive.formats.executorch", "tsarchive.formats.pt2",
        "tsarchive.formats.registry", "tsarchive.formats.torchscript", "tsarchive.frontend",
        "tsarchive.ir", "tsarchive.operators", "tsarchive.pickler", "tsarchive.remote",
        "tsarchive.run",
    },
    "tsarchive.decompiler": {
        "tsarchive.adopt", "tsarchive.analyses", "tsarchive.container", "tsarchive.describing",
        "tsarchive.diffing", "tsarchive.fingerprinting", "tsarchive.formats",
        "tsarchive.formats.registry", "tsarchive.formats.torchscript", "tsarchive.ir",
        "tsarchive.library", "tsarchive.operators", "tsarchive.policy", "tsarchive.remote",
        "tsarchive.run", "tsarchive.saving",
    },
    "tsarchive.library": {"tsarchive.ir", "tsarchive.operators", "tsarchive.run"},
    "tsarchive.loading": {
        "tsarchive.formats", "tsarchive.formats.executorch", "tsarchive.formats.registry",
        "tsarchive.formats.torchscript", "tsarchive.ir", "tsarchive.library", "tsarchive.policy",
        "tsarchive.run",
    },
    "tsarchive.saving": {
        "tsarchive.container", "tsarchive.formats", "tsarchive.formats.registry",
        "tsarchive.formats.torchscript",
    },
    "tsarchive.fingerprinting": {
        "tsarchive.analyses", "tsarchive.container", "tsarchive.formats",
        "tsarchive.formats.registry", "tsarchive.saving",
    },
    "tsarchive.diffing": {
        "tsarchive.analyses", "tsarchive.container", "tsarchive.describing",
        "tsarchive.fingerprinting", "tsarchive.formats", "tsarchive.formats.registry",
        "tsarchive.ir", "tsarchive.loading", "tsarchive.operators", "tsarchive.policy",
        "tsarchive.remote", "tsarchive.run",
    },
    "tsarchive.compatibility": {
        "tsarchive.container", "tsarchive.describing", "tsarchive.fingerprinting",
        "tsarchive.formats", "tsarchive.formats.registry", "tsarchive.operators",
    },
    "tsarchive.jitter": {
        "tsarchive.comparing", "tsarchive.container", "tsarchive.formats.registry",
        "tsarchive.loading", "tsarchive.policy", "tsarchive.remote", "tsarchive.run",
        "tsarchive.saving",
    },
    "tsarchive.lowering": {"tsarchive.formats.torchscript", "tsarchive.run"},
    "tsarchive.executorch_export": {
        "tsarchive.container", "tsarchive.formats.executorch", "tsarchive.loading",
        "tsarchive.lowering", "tsarchive.run",
    },
    "tsarchive.onnx_export": {
        "tsarchive.container", "tsarchive.formats.executorch", "tsarchive.formats.pt2",
        "tsarchive.ir", "tsarchive.lowering",
    },
    "tsarchive.weights_export": {
        "tsarchive.archive", "tsarchive.container", "tsarchive.describing", "tsarchive.formats",
    },
    "tsarchive.salvaging": {
        "tsarchive.container", "tsarchive.describing", "tsarchive.formats",
        "tsarchive.formats.registry", "tsarchive.remote",
    },
    "tsarchive.reviving": {"tsarchive.loading", "tsarchive.policy"},
    "tsarchive.verifying": {
        "tsarchive.archive", "tsarchive.container", "tsarchive.formats",
        "tsarchive.formats.registry",
    },
    "tsarchive.auditing": {
        "tsarchive.analyses", "tsarchive.archive", "tsarchive.container", "tsarchive.formats",
        "tsarchive.formats.foreign", "tsarchive.formats.registry",
        "tsarchive.formats.torchscript", "tsarchive.ir", "tsarchive.operators",
        "tsarchive.pickler", "tsarchive.scanning", "tsarchive.verifying",
    },
    "tsarchive.converting": {
        "tsarchive.container", "tsarchive.describing", "tsarchive.executorch_export",
        "tsarchive.formats", "tsarchive.formats.pt2", "tsarchive.formats.registry",
        "tsarchive.formats.torchscript", "tsarchive.loading", "tsarchive.lowering",
        "tsarchive.onnx_export", "tsarchive.operators", "tsarchive.policy", "tsarchive.remote",
        "tsarchive.run", "tsarchive.saving",
        "tsarchive.weights_export",
    },
    "tsarchive.optimizing": {
        "tsarchive.container", "tsarchive.describing", "tsarchive.formats",
        "tsarchive.formats.torchscript", "tsarchive.frontend", "tsarchive.ir", "tsarchive.loading",
        "tsarchive.operators", "tsarchive.policy", "tsarchive.run", "tsarchive.saving",
    },
    "tsarchive.testing": {
        "tsarchive.comparing", "tsarchive.container", "tsarchive.jitter", "tsarchive.pickler",
        "tsarchive.saving",
    },
    "tsarchive.reporting": {
        "tsarchive.analyses", "tsarchive.archive", "tsarchive.auditing", "tsarchive.compatibility",
        "tsarchive.container",
        "tsarchive.describing", "tsarchive.diffing", "tsarchive.formats",
        "tsarchive.formats.executorch", "tsarchive.formats.registry", "tsarchive.frontend",
        "tsarchive.ir", "tsarchive.leaving", "tsarchive.operators", "tsarchive.remote",
        "tsarchive.scanning", "tsarchive.verifying",
    },
    "tsarchive.leaving": {
        "tsarchive.archive", "tsarchive.converting", "tsarchive.decompiler", "tsarchive.describing",
        "tsarchive.formats", "tsarchive.formats.executorch", "tsarchive.formats.pt2",
        "tsarchive.formats.registry", "tsarchive.formats.torchscript", "tsarchive.loading",
        "tsarchive.lowering", "tsarchive.policy", "tsarchive.remote",
    },
    "tsarchive.stubs": {
        "tsarchive.archive", "tsarchive.formats.torchscript", "tsarchive.ir",
    },
    "tsarchive.surveying": {
        "tsarchive.archive", "tsarchive.auditing", "tsarchive.compatibility", "tsarchive.container",
        "tsarchive.describing", "tsarchive.fingerprinting", "tsarchive.formats",
        "tsarchive.formats.registry", "tsarchive.operators", "tsarchive.remote",
        "tsarchive.reporting", "tsarchive.scanning", "tsarchive.verifying",
    },
}  # fmt: skip

# Files that must work without torch installed: opening, listing and checking a file use them.
WITHOUT_TORCH = (
    "tsarchive", "tsarchive.adopt", "tsarchive.analyses", "tsarchive.archive", "tsarchive.auditing",
    "tsarchive.caching", "tsarchive.comparing", "tsarchive.compatibility", "tsarchive.container",
    "tsarchive.describing", "tsarchive.diffing", "tsarchive.errors", "tsarchive.findings",
    "tsarchive.fingerprinting", "tsarchive.formats.base", "tsarchive.formats.compatibility",
    "tsarchive.formats.contents", "tsarchive.formats.destinations",
    "tsarchive.formats.diagnosing", "tsarchive.formats.executorch",
    "tsarchive.formats.foreign", "tsarchive.formats.legacy.contents",
    "tsarchive.formats.legacy.format", "tsarchive.formats.legacy.inspection",
    "tsarchive.formats.legacy.verifying", "tsarchive.formats.pt2.audit",
    "tsarchive.formats.pt2.compatibility", "tsarchive.formats.pt2.contents",
    "tsarchive.formats.pt2.format", "tsarchive.formats.pt2.listing",
    "tsarchive.formats.pt2.metadata", "tsarchive.formats.pt2.outline",
    "tsarchive.formats.pt2.payloads", "tsarchive.formats.pt2.program_checks",
    "tsarchive.formats.pt2.pytrees", "tsarchive.formats.pt2.records",
    "tsarchive.formats.pt2.schema", "tsarchive.formats.pt2.symbols",
    "tsarchive.formats.pt2.verifying", "tsarchive.formats.pt2.view", "tsarchive.formats.reading",
    "tsarchive.formats.records", "tsarchive.formats.registry", "tsarchive.formats.safetensors",
    "tsarchive.formats.torchscript.bytecode", "tsarchive.formats.torchscript.checkpoint",
    "tsarchive.formats.torchscript.code_records", "tsarchive.formats.torchscript.compatibility",
    "tsarchive.formats.torchscript.contents", "tsarchive.formats.torchscript.debug_records",
    "tsarchive.formats.torchscript.devices", "tsarchive.formats.torchscript.format",
    "tsarchive.formats.torchscript.inspection", "tsarchive.formats.torchscript.older_pickles",
    "tsarchive.formats.torchscript.outline", "tsarchive.formats.torchscript.pickled",
    "tsarchive.formats.torchscript.plain_classes", "tsarchive.formats.torchscript.program",
    "tsarchive.formats.torchscript.retargeting", "tsarchive.formats.torchscript.stored_tensors",
    "tsarchive.formats.torchscript.ties", "tsarchive.formats.torchscript.verifying",
    "tsarchive.frontend", "tsarchive.garbage", "tsarchive.ir", "tsarchive.jitter",
    "tsarchive.operators", "tsarchive.pickler", "tsarchive.policy", "tsarchive.printer",
    "tsarchive.remote", "tsarchive.reporting", "tsarchive.salvaging", "tsarchive.scanning",
    "tsarchive.renaming", "tsarchive.reports", "tsarchive.steps", "tsarchive.strict_json",
    "tsarchive.surveying", "tsarchive.verifying",
)  # fmt: skip

WITH_TORCH = (
    BRIDGE, "tsarchive.diffing.results", "tsarchive.diffing.running",
    "tsarchive.formats.executorch.modules", "tsarchive.leaving.trying",
)  # fmt: skip


def modules() -> Iterator[tuple[str, Path]]:
    for name, folder in FOLDERS.items():
        prefix = "tsarchive" if name == "tsarchive" else f"tsarchive.{name}"
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            yield ".".join((prefix, *(part for part in parts if part != "__init__"))), path


_STATEMENTS = (ast.stmt, ast.excepthandler, ast.match_case)


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    """The nodes of a file that tests here ask for; most files hold few, but many others."""
    text = path.read_text()
    asked = _STATEMENTS + (ast.expr,) * ("torch.jit" in text)
    found, waiting = [], [ast.parse(text)]
    while waiting:
        node = waiting.pop()
        found.append(node)
        waiting += [inner for inner in ast.iter_child_nodes(node) if isinstance(inner, asked)]
    return found


def imports(module: str, path: Path, *, at_run_time: bool = False) -> set[str]:
    """Every module that ``path`` imports; typing-only imports count unless ``at_run_time``."""
    typing_only = {
        inner
        for node in nodes_of(path)
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    found = set()
    for node in nodes_of(path):
        if at_run_time and node in typing_only:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package.rsplit(".", node.level - 1)[0] if node.level else ""
            found.add(".".join(filter(None, (base, node.module))))
    return found


def room(module: str) -> str:
    parts = module.split(".")
    depth = 3 if module.startswith(FORMATS) else 2
    return ".".join(parts[:depth])


MODULES = dict(modules())


def test_arrows_point_one_way():
    wrong = {}
    for module, path in MODULES.items():
        own = room(module)
        if own in ("tsarchive", "tsarchive.cli", "tsarchive.__main__"):
            continue  # the public face and the command line may use every room
        ours = {room(name) for name in imports(module, path) if name.startswith("tsarchive")}
        wrong[module] = ours - MAY_IMPORT[own] - {own} - FLOOR
    assert {module: rooms for module, rooms in wrong.items() if rooms} == {}


def test_rooms_have_an_order():
    assert set(TopologicalSorter(MAY_IMPORT).static_order()) == MAY_IMPORT.keys()


def test_torch_stays_in_its_rooms():
    without = [
        name
        for name in MODULES
        if name.startswith(WITHOUT_TORCH[1:]) and not name.startswith(WITH_TORCH)
    ]
    used = {
        module: {name.partition(".")[0] for name in imports(module, path, at_run_time=True)}
        for module, path in MODULES.items()
        if module in {"tsarchive", *without}
    }
    assert [module for module, names in used.items() if "torch" in names] == []


def test_only_the_bridge_touches_torch_jit():
    touched = [
        f"{module}:{node.lineno}"
        for module, path in MODULES.items()
        for node in nodes_of(path)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        if (node.value.id, node.attr) == ("torch", "jit")
    ]
    imported = [
        module
        for module, path in MODULES.items()
        if any(name.startswith("torch.jit") for name in imports(module, path))
    ]
    assert [place for place in (*touched, *imported) if not place.startswith(BRIDGE)] == []


def imported_modules(module: str, path: Path) -> set[str]:
    """Our modules that ``path`` imports by name or imports names from, for typing as well."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    found = set()
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package.rsplit(".", node.level - 1)[0] if node.level else ""
            source = ".".join(filter(None, (base, node.module)))
            members = (f"{source}.{alias.name}" for alias in node.names)
            found |= {member if member in MODULES else source for member in members}
    return found & MODULES.keys() - {module}


def test_no_file_imports_itself_through_others():
    """Imports for typing alone count as well."""
    graph = {module: imported_modules(module, path) for module, path in MODULES.items()}
    while ends := {module for module, targets in graph.items() if not targets & graph.keys()}:
        graph = {module: targets for module, targets in graph.items() if module not in ends}
    while starts := graph.keys() - set().union(*graph.values()):
        graph = {module: targets for module, targets in graph.items() if module not in starts}
    assert graph == {}
