"""The process of ``tsarchive demo`` that runs torch.jit, for comparison."""

from __future__ import annotations

from tsarchive.adopt.torch_jit import peer_load, peer_save
from tsarchive.cli.measuring import serve

if __name__ == "__main__":
    serve(peer_load, peer_save)
