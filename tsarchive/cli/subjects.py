"""What ``tsarchive demo`` tries: the two models of the package, or a file of the user."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from tsarchive.cli.call_inputs import Inputs

# Name, module and class of the models; each module offers example_inputs().
MODELS = (
    ("resnet18", "tsarchive.models.resnet", "ResNet18"),
    ("decoder", "tsarchive.models.decoder", "Decoder"),
)


@dataclass(frozen=True, slots=True)
class Subject:
    """A model as files. ``ours`` and ``theirs`` are what the two sides load.

    ``expected`` is the output of the original model, None when there is only the file.
    ``imports`` name the libraries that both sides import first.
    Everything that is made on the way goes to ``folder``.
    """

    name: str
    folder: Path
    ours: Path
    theirs: Path
    inputs: Path
    expected: Path | None
    imports: tuple[str, ...] = ()

    def save_path(self, side: str, turn: str) -> Path:
        """Where one side saves. The name is always the same: the archive depends on it."""
        path = self.folder / f"by_{side}" / turn / (self.ours.name if self.expected else "model.pt")
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


def model_subject(name: str, module: str, class_name: str, folder: Path) -> Subject:
    """Build a model, save it with both sides, and compute the original output."""
    import torch

    from tsarchive.adopt.torch_jit import peer_save, script
    from tsarchive.cli.measuring import call
    from tsarchive.cli.values import plain
    from tsarchive.saving import save

    # The same thread count as in the measuring processes: sums depend on it.
    torch.set_num_threads(1)
    torch.manual_seed(0)
    source = import_module(module)
    model = getattr(source, class_name)().eval()
    inputs = {"args": list(source.example_inputs()), "kwargs": {}}
    ours, theirs = (_made(folder / by) / f"{name}.pt" for by in ("by_tsarchive", "by_torch_jit"))
    with warnings.catch_warnings():
        # torch.jit's remarks on the source of the models are not for who tries the demo.
        warnings.simplefilter("ignore")
        scripted = script(model)
    save(scripted, ours)
    peer_save(scripted, str(theirs))
    expected = folder / "expected.pt"
    torch.save(plain(call(model, inputs)[0]), expected)
    return Subject(name, folder, ours, theirs, _keep(inputs, folder), expected)


def file_subject(file: str, inputs: Inputs, folder: Path, imports: tuple[str, ...] = ()) -> Subject:
    """The user's file, which both sides load as it is."""
    path = Path(file).absolute()
    kept = _keep({"args": inputs.args, "kwargs": inputs.kwargs}, folder)
    return Subject(path.name, folder, path, path, kept, expected=None, imports=imports)


def _keep(inputs: dict[str, Any], folder: Path) -> Path:
    import torch

    torch.save(inputs, folder / "inputs.pt")
    return folder / "inputs.pt"


def _made(path: Path) -> Path:
    path.mkdir(parents=True)
    return path
