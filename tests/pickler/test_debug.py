"""Debug records: read, put in the writer's terms, and written as the same bytes.

A record is (format, texts, ((offset, (source, begin, end), tag), ...)); sources, texts and the
records as a whole are memoised even if they are referenced once.
"""

import io
import zipfile

import pytest
import torch

from tests.support.archives import CORPUS
from tests.support.suite import sampled
from tsarchive.pickler import MarkedTuple, Memoised, Reduce, dumps, loads

FORMAT = "FORMAT_WITH_STRING_TABLE"
ARCHIVES = [path for path in sorted((CORPUS / "torchscript").glob("*")) if zipfile.is_zipfile(path)]


def debug_records(archive):
    """Those of the format with a table of texts; older archives have another."""
    with zipfile.ZipFile(archive) as records:
        for name in records.namelist():
            data = records.read(name) if name.endswith(".debug_pkl") else b""
            if FORMAT.encode() in data:
                yield data


def as_written(read):
    name, texts, records = read
    sources = {}
    ranges = []
    for offset, (source, begin, end), tag in records:
        if id(source) not in sources:
            lines, file, start = source
            numbers = Reduce(lines.function, MarkedTuple(lines.argument))
            sources[id(source)] = Memoised((numbers, file, start))
        ranges.append((offset, (sources[id(source)], begin, end), tag))
    return (name, Memoised(texts), Memoised(tuple(ranges)))


@pytest.mark.skipif(not ARCHIVES, reason="no corpus beside the project")
def test_records_of_the_corpus():
    records = [(path.name, data) for path in sampled(ARCHIVES) for data in debug_records(path)]
    assert records
    for name, data in records:
        assert dumps(as_written(loads(data))) == data, name


class TwoCalls(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) + self.twice(x)

    def twice(self, x):
        return x + x


class NoCode(torch.nn.Module):
    def forward(self):
        pass


@pytest.mark.parametrize("python_class", [TwoCalls, NoCode])
def test_records_of_a_new_archive(python_class):
    stream = io.BytesIO()
    torch.jit.save(torch.jit.script(python_class()), stream)
    (data,) = debug_records(stream)
    assert dumps(as_written(loads(data))) == data


def test_record_of_a_file_without_text():
    data = dumps((FORMAT, Memoised(("",)), Memoised(())))
    assert len(data) == 48
    assert dumps(as_written(loads(data))) == data
