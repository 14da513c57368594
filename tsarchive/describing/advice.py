"""What to do about what does not come with torch."""

from __future__ import annotations

from tsarchive.describing.hints import in_commands
from tsarchive.frontend.libraries import what_registers
from tsarchive.ir.names import NATIVE_PREFIX


def advice(name: str) -> str:
    """What to do about an operator or torchbind class that does not come with torch."""
    hint = what_registers(name if "::" in name else f"{NATIVE_PREFIX}{name}")
    return in_commands(hint)
