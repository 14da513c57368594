"""Real records of other people's archives, hostile files, and damaged records."""

import contextlib
import io
import pickletools
import zipfile
from collections import Counter

import pytest
import torch

from tests.support.archives import CORPUS
from tsarchive.errors import PickleError
from tsarchive.pickler import Global, Object, PersistentId, Reduce, loads, reader

needs_corpus = pytest.mark.skipif(not CORPUS.exists(), reason="no corpus beside the project")


def archives(folder):
    return [path for path in sorted((CORPUS / folder).glob("*")) if zipfile.is_zipfile(path)]


def pickles(path):
    """Bytes of the pickle records of an archive, by name."""
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.endswith("pkl")]
        if not names:
            pytest.skip("no pickle in this archive")
        return {name: archive.read(name) for name in names}


def inert_types(value):
    """Types of everything below a value; each value is visited once."""
    found, seen, left = set(), set(), [value]
    while left:
        value = left.pop()
        found.add(type(value))
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, dict):
            left += [*value.keys(), *value.values()]
        elif isinstance(value, (list, tuple)):
            left += value
        elif isinstance(value, Object):
            left.append(value.state)
        elif isinstance(value, Reduce):
            left += [value.argument, value.items, value.state]
        elif isinstance(value, PersistentId):
            left.append(value.value)
    return found


INERT = {type(None), bool, int, float, str, list, dict, tuple, Global, Object, Reduce, PersistentId}


@pytest.fixture
def dispatched(monkeypatch):
    """Counts the opcodes that the reader obeys, by name."""
    counts = Counter()

    def counting(code, handler):
        def count(machine, position):
            counts[code] += 1
            return handler(machine, position)

        return count

    handlers = [counting(code, handler) for code, handler in enumerate(reader._HANDLERS)]
    monkeypatch.setattr(reader, "_HANDLERS", handlers)
    return counts


@needs_corpus
@pytest.mark.parametrize("path", archives("torchscript"), ids=lambda path: path.name)
def test_torchscript_records_are_read(path, dispatched):
    for name, data in pickles(path).items():
        dispatched.clear()
        assert inert_types(loads(data, record=name)) <= INERT
        expected = Counter(ord(opcode.code) for opcode, _, _ in pickletools.genops(data))
        framing = Counter(b"\x80.")
        assert dispatched == expected - framing


@needs_corpus
@pytest.mark.parametrize("path", archives("other"), ids=lambda path: path.name)
def test_other_records_are_read_unless_of_protocol_3(path):
    """torch.save writes protocol 2, torch.package protocol 3."""
    for name, data in pickles(path).items():
        if data[:2] == b"\x80\x02":
            assert inert_types(loads(data, record=name)) <= INERT
        else:
            with pytest.raises(PickleError, match="protocol 3"):
                loads(data, record=name)


def hostile_files():
    return [path for path in sorted((CORPUS / "hostile").glob("*.p*")) if path.is_file()]


@needs_corpus
@pytest.mark.parametrize("path", hostile_files(), ids=lambda path: path.name)
def test_hostile_files_are_refused_or_inert(path):
    contents = [path.read_bytes()]
    if zipfile.is_zipfile(path):
        contents = list(pickles(path).values())
    for data in contents:
        with contextlib.suppress(PickleError):
            assert inert_types(loads(data)) <= INERT


def test_state_dict_is_read():
    """torch.save puts the items and the state of an OrderedDict after the call that makes it."""
    stream = io.BytesIO()
    expected = torch.nn.Linear(2, 2).state_dict()
    torch.save(expected, stream)
    with zipfile.ZipFile(stream) as archive:
        value = loads(archive.read("archive/data.pkl"))
    assert value.function == Global("collections", "OrderedDict")
    assert list(value.items) == list(expected)
    assert list(value.state) == ["_metadata"]


# Damage: one changed byte, or an early end.


class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.names = ["a", "b"]
        self.register_buffer("t", torch.zeros(2))

    def forward(self, x):
        return x + self.t, self.names


@pytest.fixture(scope="module")
def record():
    stream = io.BytesIO()
    torch.jit.save(torch.jit.script(Small()), stream)
    with zipfile.ZipFile(stream) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("/data.pkl")]
        return archive.read(name)


def is_read(data):
    """Whether the bytes are read; raises whatever is not a PickleError."""
    try:
        value = loads(data)
    except PickleError:
        return False
    assert inert_types(value) <= INERT
    return True


def test_every_early_end_is_refused(record):
    assert is_read(record)
    for length in range(len(record)):
        assert not is_read(record[:length])


@pytest.mark.sample(1, gaps="its parts are of one piece of work")
@pytest.mark.parametrize("part", range(4))
def test_every_changed_byte_is_read_or_refused(record, part):
    refused = 0
    for position in range(part, len(record), 4):
        for byte in range(256):
            refused += not is_read(record[:position] + bytes((byte,)) + record[position + 1 :])
    assert refused > len(record)


def test_every_removed_byte_is_read_or_refused(record):
    verdicts = [is_read(record[:at] + record[at + 1 :]) for at in range(len(record))]
    assert verdicts.count(False) > len(record) // 2


def test_every_doubled_byte_is_read_or_refused(record):
    verdicts = [is_read(record[: at + 1] + record[at:]) for at in range(len(record))]
    assert verdicts.count(False) > len(record) // 2
