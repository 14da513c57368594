"""Plots of the scaling curves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from growth import CURVES, Curve
from rows import MIB

_COLOURS = {"tsarchive": "#0b6e4f", "torch.jit": "#c8553d"}
_DASHES = {"scripted": "-", "traced": "--"}
_PANELS = (("seconds", "ms", 1e-3), ("bytes", "MiB of anonymous memory", MIB))


def draw(found: dict[str, Any], folder: Path) -> None:
    """Draw one picture for each curve: time on the left, memory on the right."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "tsarchive"
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    for curve in CURVES:
        if curve.name not in found:
            continue
        figure, panels = pyplot.subplots(1, len(_PANELS), figsize=(10, 4))
        for panel, (key, label, scale) in zip(panels, _PANELS, strict=True):
            draw_panel(panel, curve, found[curve.name]["series"], key, scale)
            panel.set_ylabel(label)
        panels[0].legend(loc="upper left")
        figure.suptitle(f"{curve.title}, by {curve.unit[0]}")
        figure.tight_layout()
        figure.savefig(folder / f"{curve.name}.svg", metadata={"Date": None})
        pyplot.close(figure)


def draw_panel(panel: Any, curve: Curve, series: dict[str, Any], key: str, scale: float) -> None:
    unit, step = curve.unit
    for name, points in series.items():
        side, form = name.split(", ")
        panel.plot(
            [point["x"] / step for point in points],
            [point[key] / scale for point in points],
            color=_COLOURS[side],
            linestyle=_DASHES[form],
            marker="o",
            label=name if len(curve.forms) > 1 else side,
        )
    panel.set_xscale("log")
    if key == "bytes":
        panel.set_yscale("symlog")
        # Memory may not have grown, or slightly less than not at all.
        panel.set_ylim(0, max(2 * panel.dataLim.y1, 1))
    else:
        panel.set_yscale("log")
    panel.xaxis.set_major_formatter("{x:g}")
    panel.yaxis.set_major_formatter("{x:g}")
    panel.set_xlabel(unit)
    panel.grid(alpha=0.3)
