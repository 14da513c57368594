"""The process of ``tsarchive demo`` that runs tsarchive, with torch.jit disabled."""

from __future__ import annotations

from tsarchive.adopt.torch_jit import forbid_torch_jit
from tsarchive.cli.measuring import serve
from tsarchive.loading import load
from tsarchive.policy import Policy
from tsarchive.saving import save

if __name__ == "__main__":
    # Libraries may use torch.jit while they are imported.
    trusted = Policy.trusted()  # torch.jit runs the same file beside this process
    serve(
        lambda path: load(path, map_location="cpu", policy=trusted),
        save,
        prepare=forbid_torch_jit,
    )
