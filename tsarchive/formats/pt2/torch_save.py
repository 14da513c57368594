"""Records that are ``torch.save`` files themselves, read without unpickling."""

from __future__ import annotations

from functools import cached_property

from tsarchive.container import Container
from tsarchive.errors import ArchiveError, MissingRecordError, PickleError
from tsarchive.formats.torchscript.stored_tensors import (
    StoredStorage,
    StoredTensor,
    StoredTensors,
    check_record_size,
)
from tsarchive.pickler import Reduce, Value, loads

_PICKLE = "data.pkl"
_HINT = "It is a file of torch.save, which 'tsarchive audit' looks into"


class Saved:
    """A ``torch.save`` file in one record. Errors name the record and the record inside it."""

    def __init__(self, container: Container, record: str) -> None:
        """Open the record. Raises what ``Container.inside`` raises."""
        self.record = record
        self._pickle = f"{record}/{_PICKLE}"
        self._tensors = StoredTensors(self._pickle)
        try:
            self.container = container.inside(record)
        except ArchiveError as error:
            raise _placed(error, record) from None

    @cached_property
    def root(self) -> Value:
        """The value that was saved, as the restricted reader gives it. Raises PickleError."""
        try:
            data = self.container.read(_PICKLE)
        except ArchiveError as error:
            raise _placed(error, self.record) from None
        try:
            return loads(data, record=self._pickle)
        except PickleError as error:
            error.hint = error.hint or _HINT
            raise

    def tensor(self, value: Reduce) -> StoredTensor:
        """Return a tensor in ``root`` whose bounds fit its storage. Raises TensorError."""
        return self._tensors.tensor(value)

    def check_storage(self, storage: StoredStorage) -> str:
        """Return the inner record that holds a storage.

        Raises MissingRecordError when there is none, TensorError when its size differs.
        """
        name = f"data/{storage.key}"
        size = self.container.size(name)
        if size is not None:
            check_record_size(storage, size, self._pickle)
        elif storage.elements and not storage.is_meta:
            raise MissingRecordError(
                "a tensor refers to a storage that is not there", record=f"{self.record}/{name}"
            )
        return name


def _placed(error: ArchiveError, record: str) -> ArchiveError:
    """Prefix record names of an error from the inner container with ``record``."""
    error.record = record if error.record is None else f"{record}/{error.record}"
    return error
