"""Archives of before torch 1.3, made by hand, and the fixtures that old releases wrote."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

from tests.support.archives import ROOT

FIXTURES = sorted(
    path for path in (ROOT / "fixtures" / "legacy").glob("*.pt") if not path.name.endswith(".io.pt")
)

# The empty tuple that torch wrote where no module had an attribute.
NO_ATTRIBUTES = b"\x80\x02(t."
FORWARD = "op_version_set = 1\ndef forward(self,\n    x: Tensor) -> Tensor:\n"


def fixture(name: str) -> Path:
    return ROOT / "fixtures" / "legacy" / f"{name}.pt"


def model_of(**changes: Any) -> dict[str, Any]:
    """A ``model.json`` with one tensor, a parameter of the main module."""
    tensor = {
        "dims": ["2"], "offset": "0", "strides": ["1"], "requiresGrad": True, "dataType": "FLOAT",
        "data": {"key": "tensors/0"}, "device": "cpu",
    }  # fmt: skip
    main = {
        "torchscriptArena": {"key": "code/m.py"},
        "name": "m",
        "parameters": [{"isBuffer": False, "tensorId": "0", "name": "weight"}],
    }
    return {"protoVersion": "5", "mainModule": main, "tensors": [tensor], **changes}


def archive(model: Any, **records: str | bytes) -> io.BytesIO:
    """A file with a model, with two floats for its tensor, and with ``records`` by place.

    The names of ``records`` have ``__`` for a slash and leave out the suffix of code.
    """
    members: dict[str, str | bytes] = {
        "version": "1\n",
        "model.json": model if isinstance(model, str | bytes) else json.dumps(model),
        "attributes.pkl": NO_ATTRIBUTES,
        "tensors/0": b"\x00\x00\x80\x3f\x00\x00\x00\x40",
        "code/m.py": f"{FORWARD}  return torch.add(x, self.weight, alpha=1)\n",
    }
    members |= records
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as zipped:
        for name, content in members.items():
            zipped.writestr(f"m/{name}", content)
    written.seek(0)
    return written


def program(code: str, libraries: str | None = None) -> io.BytesIO:
    """A file whose main module has the methods in ``code`` and no tensors."""
    model = model_of(tensors=[])
    del model["mainModule"]["parameters"]
    records = {"code/m.py": f"op_version_set = 1\n{code}"}
    if libraries is not None:
        records["libs/__torch__/lib.py"] = f"op_version_set = 1\n{libraries}"
    return archive(model, **records)
