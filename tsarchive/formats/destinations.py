"""What models are written as besides archives: ONNX, weights for frameworks; and whose tools write
the rest.

Files of these kinds are made of archives, and not read.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from tsarchive.errors import CallError, UnsupportedError
from tsarchive.formats.base import leave_out


@dataclass(frozen=True, slots=True)
class Destination:
    """A kind of file: how its names end, and the arguments of ``convert`` that it takes.

    ``beside`` says what the name of a second file has in the place of ``suffix``.
    """

    kind: str
    title: str
    suffix: str
    beside: str
    takes: frozenset[str]

    def require(self, argument: str) -> None:
        """Raise CallError unless files of this kind take the argument."""
        if argument not in self.takes:
            raise CallError(f"files of {self.title} take no {argument}", hint=leave_out(argument))

    def path_beside(self, path: str) -> str:
        """Return the path or URL of the second file."""
        return f"{path[: -len(self.suffix)]}{self.beside}"


ONNX: Final = Destination(
    "onnx", "ONNX", ".onnx", ".onnx.data",
    frozenset(
        {"args", "kwargs", "dynamic_shapes", "specialize", "dequantize", "model", "opset", "policy"}
    ),
)  # fmt: skip
SAFETENSORS: Final = Destination(
    "safetensors", "safetensors", ".safetensors", ".json", frozenset({"model", "policy"})
)
DESTINATIONS: Final = (ONNX, SAFETENSORS)


def destination_of(path: str) -> Destination | None:
    """Return the kind of file that a name says, None where it is that of an archive, or of none.

    Raises UnsupportedError for files that other tools write, with their command.
    """
    suffix = os.path.splitext(path)[1].lower()
    found = next((each for each in DESTINATIONS if each.suffix == suffix), None)
    if found is None:
        _refuse_others(path, suffix)
    return found


def destination_named(kind: str) -> Destination | None:
    """Return the destination of this ``kind``; None for archives."""
    return next((each for each in DESTINATIONS if each.kind == kind), None)


class OtherTool(NamedTuple):
    """Who writes files of another kind, from a file with the suffix ``source``.

    In ``command``, of a shell or (``is_python``) of Python, SOURCE stands for that file and TARGET
    for the new one.
    """

    title: str
    tool: str
    source: str
    command: str
    is_python: bool = False

    def command_for(self, source: str, target: str) -> str:
        """Return what to type in a shell."""
        quoted = json.dumps if self.is_python else shlex.quote
        text = self.command.replace("SOURCE", quoted(source)).replace("TARGET", quoted(target))
        return f"python -c {shlex.quote(text)}" if self.is_python else text


_TENSORRT: Final = OtherTool(
    "TensorRT", "trtexec", ".onnx", "trtexec --onnx=SOURCE --saveEngine=TARGET"
)
OTHER_TOOLS: Final[Mapping[str, OtherTool]] = MappingProxyType(
    {
        ".mlpackage": OtherTool(
            "Core ML", "coremltools", ".pt2",
            "import coremltools, torch; "
            "program = torch.export.load(SOURCE).run_decompositions({}); "
            "coremltools.convert(program).save(TARGET)",
            is_python=True,
        ),
        ".engine": _TENSORRT,
        ".plan": _TENSORRT,
        ".trt": _TENSORRT,
        ".xml": OtherTool("OpenVINO", "openvino", ".onnx", "ovc SOURCE --output_model TARGET"),
        ".tflite": OtherTool(
            "LiteRT", "litert-torch", ".pt2",
            "import litert_torch, torch; program = torch.export.load(SOURCE); "
            "litert_torch.convert(program.module(), program.example_inputs[0]).export(TARGET)",
            is_python=True,
        ),
        ".ort": OtherTool(
            "ONNX Runtime for small builds", "onnxruntime", ".onnx",
            "python -m onnxruntime.tools.convert_onnx_models_to_ort SOURCE",
        ),
    }
)  # fmt: skip
"""By the suffixes of files. The commands are those of the documentation of each tool."""


def _refuse_others(path: str, suffix: str) -> None:
    other = OTHER_TOOLS.get(suffix)
    if other is None:
        return
    source = f"{path[: -len(suffix)]}{other.source}"
    raise UnsupportedError(
        f"files of {other.title} ({suffix}) are written by a tool of its own, {other.tool}",
        hint=f"Convert to {source}, then run: {other.command_for(source, path)}",
    )
