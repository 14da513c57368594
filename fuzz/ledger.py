"""Progress and results of a run, kept on disk so that it can be resumed."""

from __future__ import annotations

import base64
import json
from collections import Counter
from pathlib import Path
from typing import Any

from child import Stretch

# Examples kept of each kind of violation.
_EXAMPLES = 5


class Ledger:
    """Counts of outcomes by layer, finished ranges, and violations."""

    def __init__(self, folder: Path | None, seed: int) -> None:
        self.folder = folder
        self.seed = seed
        self.counts: dict[str, Counter[str]] = {}
        self.violations: Counter[str] = Counter()
        self._finished: set[str] = set()
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            self._resume(folder / "state.json")

    def _resume(self, path: Path) -> None:
        if not path.exists():
            return
        state = json.loads(path.read_text())
        if state["seed"] != self.seed:
            raise SystemExit(f"{path} is of a run with seed {state['seed']}")
        self.counts = {layer: Counter(counts) for layer, counts in state["counts"].items()}
        self.violations = Counter(state["violations"])
        self._finished = set(state["finished"])

    def has(self, stretch: Stretch) -> bool:
        return _key(stretch) in self._finished

    def finished(self, stretch: Stretch, counts: Counter[str]) -> None:
        """Record that a range was run to its end."""
        self.counts.setdefault(stretch.layer, Counter()).update(counts)
        self._finished.add(_key(stretch))
        if self.folder is not None:
            state = {**self.as_json(), "finished": sorted(self._finished)}
            (self.folder / "state.json").write_text(json.dumps(state, indent=1) + "\n")

    def violation(self, problem: dict[str, Any]) -> bool:
        """Count a violation by its kind; return whether it is among the first few, which are
        kept.
        """
        error = str(problem["error"]).partition("\n")[0].partition("(")[0][:80]
        kind = (
            " | ".join(str(problem.get(k, "")) for k in ("layer", "door", "place")) + f" | {error}"
        )
        self.violations[kind] += 1
        if self.violations[kind] > _EXAMPLES:
            return False
        if self.folder is not None:
            self._keep(self.folder, problem)
        return True

    def _keep(self, folder: Path, problem: dict[str, Any]) -> None:
        name = f"{problem['layer']}-{problem.get('number', 'all')}"
        data = base64.b64decode(problem.pop("data", ""))
        (folder / f"{name}.bin").write_bytes(data)
        text = "\n".join(f"{key}: {value}" for key, value in problem.items())
        (folder / f"{name}.txt").write_text(f"seed: {self.seed}\n{text}\n")

    @property
    def inputs(self) -> int:
        return sum(sum(counts.values()) for counts in self.counts.values())

    def as_json(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "inputs": self.inputs,
            "violations": dict(self.violations),
            "counts": {layer: dict(c.most_common()) for layer, c in self.counts.items()},
        }

    def summary(self, seconds: float) -> str:
        """Return a summary of a few lines."""
        lines = []
        for layer, counts in self.counts.items():
            total = sum(counts.values())
            sound = sum(n for name, n in counts.items() if name.endswith(": sound"))
            lines.append(f"{layer}: {total:,} inputs, {sound:,} with a result")
        lines += [f"VIOLATION x{count}: {kind}" for kind, count in self.violations.most_common()]
        rate = self.inputs / max(seconds, 0.001)
        lines.append(
            f"{self.inputs:,} inputs, {sum(self.violations.values()):,} violations, "
            f"{seconds:,.0f} s ({rate:,.0f} a second)"
        )
        return "\n".join(lines)


def _key(stretch: Stretch) -> str:
    return f"{stretch.layer}:{stretch.start}:{stretch.stop}"
