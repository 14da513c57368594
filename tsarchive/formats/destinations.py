"""What models are written as besides archives: ONNX, weights for frameworks; and whose tools write
the rest.

Files of these kinds are made of archives, and not read.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
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
    frozenset({"args", "kwargs", "dynamic_shapes", "model", "opset", "policy"}),
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
    """Who writes files of another kind, from which file, and how.

    In ``command``, ``{source}`` stands for that file, ``{target}`` for the new one, and ``{call}``
    for the file without its suffix and the arguments of a call.
    """

    title: str
    tool: str
    source: str
    command: str


_PROGRAM: Final = "import torch; program = torch.export.load('{source}')"
_CORE_ML: Final = OtherTool(
    "Core ML", "coremltools", ".pt2",
    f"{_PROGRAM}.run_decompositions({{{{}}}}); "
    "import coremltools; coremltools.convert(program).save('{target}')",
)  # fmt: skip
_TENSORRT: Final = OtherTool(
    "TensorRT", "trtexec", ".onnx", "trtexec --onnx={source} --saveEngine={target}"
)
_LITERT: Final = OtherTool(
    "LiteRT", "litert-torch", ".pt2",
    f"{_PROGRAM}; import litert_torch; "
    "litert_torch.convert(program.module(), *program.example_inputs[:1]).export('{target}')",
)  # fmt: skip

OTHER_TOOLS: Final = {
    ".mlpackage": _CORE_ML,
    ".mlmodel": _CORE_ML._replace(
        command=_CORE_ML.command.replace("(program)", "(program, convert_to='neuralnetwork')")
    ),
    ".engine": _TENSORRT,
    ".plan": _TENSORRT,
    ".trt": _TENSORRT,
    ".xml": OtherTool("OpenVINO", "openvino", ".onnx", "ovc {source} --output_model {target}"),
    ".tflite": _LITERT,
    ".ort": OtherTool(
        "ONNX Runtime for phones", "onnxruntime", ".onnx",
        "python -m onnxruntime.tools.convert_onnx_models_to_ort {source}",
    ),
}  # fmt: skip
"""By the suffixes of files. The commands are those of the tools' own documentation."""


def _refuse_others(path: str, suffix: str) -> None:
    other = OTHER_TOOLS.get(suffix)
    if other is None:
        return
    source = f"{path[: -len(suffix)]}{other.source}"
    command = other.command.format(source=source, target=path)
    if not command.startswith(("trtexec", "ovc", "python")):
        command = f'python -c "{command}"'
    raise UnsupportedError(
        f"files of {other.title} ({suffix}) are written by its own tools ({other.tool})",
        hint=f"Convert to {source}, then: {command}",
    )
