"""What records are for, by their names."""

from __future__ import annotations

import re

# Old torch wrote ``constants/0.storage``.
_STORAGES = r"(data|constants|bytecode)/\d+(\.storage)?\Z|tensors/"
# Of PT2 archives.
_PROGRAMS = r"models/.*\.json\Z|serialized_exported_program\.json\Z"
_WEIGHTS = (
    r"data/(weights/(weight_\d+\Z|.*\.pt\Z)|constants/(tensor_\d+\Z|.*\.pt\Z))"
    r"|serialized_(state_dict|constants)\.pt\Z"
)
_PAYLOADS = r"data/(weights|constants)/"
# The first row that fits counts.
_RULES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (group, re.compile(pattern))
    for group, pattern in (
        ("extra", r"extra(_files)?/"),
        ("machine code", r"data/(aotinductor|executorch)/"),
        ("inputs", r"data/sample_inputs/|serialized_example_inputs\.pt\Z|traced_inputs(/|\.pkl\Z)"),
        ("debug", r".*\.debug_pkl\Z|debug/|mobile_debug_handles\.pkl\Z|callstack_debug_map\.pkl\Z"),
        ("code", rf"(.*/)?code/|libs/|bytecode\.pkl\Z|{_PROGRAMS}"),
        ("tensors", rf"{_STORAGES}|{_WEIGHTS}"),
        ("objects", rf"(data|constants|attributes)\.pkl\Z|model\.json\Z|{_PAYLOADS}"),
        ("other", r""),
    )
)
GROUPS = tuple(group for group, _ in _RULES)

_METHODS = {0: "stored", 8: "deflated", 9: "deflate64"}


def group_of(name: str) -> str:
    """The purpose of the record of this name, one of GROUPS."""
    return next(group for group, pattern in _RULES if pattern.match(name))


def method_name(method: int) -> str:
    """A zip compression method in words."""
    return _METHODS.get(method, f"method {method}")
