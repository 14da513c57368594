"""What an open archive of any format shows, each part read when it is asked for; no torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from tsarchive.errors import UnsupportedError

if TYPE_CHECKING:
    from tsarchive.describing.facts import ModuleInfo, Needs
    from tsarchive.describing.tensors import TensorInfo
    from tsarchive.frontend import CodeImporter
    from tsarchive.ir.source_ranges import TaggedRange
    from tsarchive.pickler import Object


class View(ABC):
    """The members of :class:`tsarchive.Archive` that depend on the format, which says there what
    they are. A format overrides all of them but those that have a default here.
    """

    methods_record: str | None = None
    """Where ``code`` is of methods, not of records: the record that they are all in."""
    has_listings = False
    """Whether ``code`` are listings of programs, which have lines of user source between them."""

    @property
    def has_modules(self) -> bool:
        """Whether there are modules and tensors that can be listed."""
        return True

    @property
    def has_tensors(self) -> bool:
        """Whether tensors can be listed, also those of no module."""
        return self.has_modules

    @property
    @abstractmethod
    def format_version(self) -> int: ...

    @property
    @abstractmethod
    def code(self) -> Mapping[str, str]: ...

    @property
    def source(self) -> Mapping[str, str]:
        """The same, with Python source that is no code of TorchScript."""
        return self.code

    @property
    def sourced_code(self) -> Mapping[str, str]:
        """Listings with lines of user source. Raises UnsupportedError where code is no listing."""
        raise UnsupportedError(
            "only listings of programs are shown with lines of user source between their own"
        )

    def require_code(self) -> None:
        """Raise ArchiveError, saying what the file is instead, if it is of no kind with code."""
        _ = self.code

    @property
    def debug(self) -> Mapping[str, Sequence[TaggedRange]]:
        return MappingProxyType({})

    @property
    @abstractmethod
    def classes(self) -> CodeImporter: ...

    @property
    @abstractmethod
    def root(self) -> Object: ...

    @abstractmethod
    def tensors(self) -> Iterator[tuple[str, TensorInfo]]: ...

    @abstractmethod
    def tree(self) -> ModuleInfo: ...

    @abstractmethod
    def needs(self) -> Needs: ...

    def operators(self) -> Mapping[str, int]:
        """How many places call each operator."""
        return self.needs().operators

    @abstractmethod
    def element_bytes(self, name: str, info: TensorInfo) -> memoryview:
        """The storage of a tensor from its first element on, for ``info`` that tells a place.

        Raises UnsupportedError for tensors whose elements are not there as they are.
        """
