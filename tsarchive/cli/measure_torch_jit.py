"""The process of ``tsarchive demo`` that runs torch.jit, for comparison."""

from __future__ import annotations

from tsarchive.cli.measuring import serve
from tsarchive.printer.adopt import peer_load, peer_save

if __name__ == "__main__":
    serve(peer_load, peer_save)
