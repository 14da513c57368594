"""Code importers with this process's operators and classes, so that the code can run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tsarchive.frontend import CodeImporter
from tsarchive.ir.types import Type
from tsarchive.run.operators import find_native, native_class, operator_schemas


def runnable_code(
    files: Mapping[str, Callable[[], str] | str],
    constant: Callable[[int], tuple[Any, Type]],
    version: int,
    **options: Any,
) -> CodeImporter:
    """Make a CodeImporter with what this process has registered; ``options`` are passed on."""
    return CodeImporter(
        files,
        operators=operator_schemas,
        constant=constant,
        version=version,
        native_class=native_class,
        evaluate=find_native,
        **options,
    )
