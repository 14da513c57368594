"""The contents of a checkpoint of torch.save: tensors and plain values, as TorchScript has them."""

from __future__ import annotations

from typing import NoReturn

from tsarchive.analyses.encoding import Plain
from tsarchive.errors import UnsupportedError

from .contents import TorchScriptContents


class CheckpointContents(TorchScriptContents):
    """The contents of a checkpoint without objects, such as a state dict."""

    @property
    def code(self) -> Plain:
        return []

    def class_named(self, qualified_name: str) -> NoReturn:
        self._refuse(qualified_name)

    def type_of(self, tag: str) -> NoReturn:
        self._refuse(tag)

    def _refuse(self, name: str) -> NoReturn:
        raise UnsupportedError(
            f"the checkpoint holds a {name[:100]}, of which nothing is known",
            record=self.values_record,
            hint="Fingerprints are of models, and of checkpoints of tensors and plain values",
        )
