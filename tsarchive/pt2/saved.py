"""Records that are a file of ``torch.save`` themselves, read without unpickling."""

from __future__ import annotations

from functools import cached_property

from tsarchive.container import Container
from tsarchive.errors import ArchiveError, MissingRecordError, PickleError
from tsarchive.pickler import Reduce, Value, loads
from tsarchive.torchscript.stored_tensors import StoredTensors
from tsarchive.torchscript.stored_values import StoredStorage, StoredTensor, check_record_size

__all__ = ["Saved"]

_PICKLE = "data.pkl"
_HINT = "It is a file of torch.save, which 'tsarchive audit' looks into"


class Saved:
    """What ``torch.save`` wrote into one record. Errors name the record and what is inside."""

    def __init__(self, container: Container, record: str) -> None:
        """Raises what ``Container.inside`` raises: the record may be missing, or no zip."""
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
        """A tensor in ``root``, where its bounds fit its storage. Raises TensorError."""
        return self._tensors.tensor(value)

    def check_storage(self, storage: StoredStorage) -> str:
        """The record inside that holds a storage.

        Raises MissingRecordError when there is none, TensorError when it is of another size.
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
    """An error of the container inside, whose records have names behind that of ``record``."""
    error.record = record if error.record is None else f"{record}/{error.record}"
    return error
