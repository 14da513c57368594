"""Written containers: the bytes of torch's own writer, readable by torch, zipfile and us."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from random import Random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tsarchive.container import Container, NewRecord, Packed, write_container
from tsarchive.container.contents import crc32
from tsarchive.container.deflating import deflated
from tsarchive.container.layout import MAX32
from tsarchive.container.writer import write_records
from tsarchive.errors import SaveError

TAIL = [("version", b"3\n"), ("byteorder", b"little")]


def written(records, **options):
    target = io.BytesIO()
    write_container(target, [NewRecord(name, data) for name, data in records], **options)
    return target.getvalue()


def written_by_torch(target, records):
    """The same records through torch's writer, which adds those of TAIL itself."""
    writer = torch._C.PyTorchFileWriter(target)
    for name, data in records:
        writer.write_record(name, data, len(data))
    writer.write_end_of_file()


RECORD_SETS = {
    "nothing": [],
    "one": [("data.pkl", b"\x80\x02.")],
    "empty records": [("a", b""), ("b", b""), ("c", b"x"), ("d", b"")],
    "every padding": [("x" * size, b"y" * (size % 5)) for size in range(1, 140)],
    "many": [(f"data/{index}", bytes([index % 256]) * (index % 90)) for index in range(1500)],
    "unicode": [("données/ß", b"1"), ("日本語", b"2"), ("emoji 🎉", b"3"), ("a\u0301", b"4")],
    "odd names": [
        ("a b", b"1"),
        (".x", b"2"),
        ("a.b..c", b"3"),
        ("q'\"?*|<>", b"4"),
        ("b\\c", b"5"),
    ],
    "long name": [("n" * 4000, b"1")],
    "descriptor look-alike": [("a", b"PK\x07\x08abcdefgh"), ("b", b"PK\x07\x08")],
    "large": [("data/0", bytes(3_000_000)), ("data/1", b"\xff" * 1_000_001)],
}


@pytest.mark.parametrize("record_set", RECORD_SETS)
@pytest.mark.parametrize("count", [0, 1, 17])
def test_stored_records_give_the_bytes_of_torch(record_set, count):
    records = RECORD_SETS[record_set] + [(f"more/{index}", b"m") for index in range(count)]
    expected = io.BytesIO()
    written_by_torch(expected, records)
    assert written(records + TAIL) == expected.getvalue()


@pytest.mark.parametrize(
    ("file", "root"),
    [
        ("net.pt", "net"),
        ("net.v2.pt", "net.v2"),
        ("noext", "noext"),
        ("a b.c", "a b"),
        ("ends.", "ends"),
        ("modèle 日本.pt", "modèle 日本"),
        ("sub\\win.pt", "win"),
        ("x" * 120 + ".pt", "x" * 120),
    ],
)
def test_the_root_of_a_path_is_that_of_torch(tmp_path, file, root):
    (tmp_path / "torch").mkdir()
    records = RECORD_SETS["one"]
    written_by_torch(str(tmp_path / "torch" / file), records)
    write_container(tmp_path / file, [NewRecord(name, data) for name, data in records + TAIL])
    with Container.open(tmp_path / file) as container:
        assert container.root == root
        assert container.buffer() == (tmp_path / "torch" / file).read_bytes()


def test_a_path_may_be_text_or_bytes(tmp_path):
    class BytesPath:
        def __fspath__(self):
            return bytes(tmp_path / "b.pt")

    for target in (str(tmp_path / "a.pt"), BytesPath()):
        write_container(target, [NewRecord("x", b"1")])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.pt", "b.pt"]


@pytest.mark.parametrize("file", [".hidden", ".pt"])
def test_a_path_that_gives_no_root_is_refused(tmp_path, file):
    with pytest.raises(SaveError, match=r"root folder '', .* is empty"):
        write_container(tmp_path / file, [])
    write_container(tmp_path / file, [], root="net")
    with Container.open(tmp_path / file) as container:
        assert container.root == "net"


@pytest.mark.parametrize("root", ["", "a/b", "..", "C:", "a\nb", "/a", "\ud800"])
def test_a_root_that_readers_refuse_is_refused(root):
    with pytest.raises(SaveError, match="root folder"):
        written([], root=root)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "is empty"),
        ("/etc/passwd", "absolute"),
        ("a/../../b", "steps out"),
        ("..", "steps out"),
        ("C:\\x", "drive"),
        ("a\0b", "control"),
        ("folder/", "folder"),
        ("\udc80", "Unicode"),
        ("n" * 4097, "4096"),
        ("n" * 4090, "4096"),
        ("twice", "twice"),
        ("Twice", "the same as 'twice'"),
        ("./twice", "the same as 'twice'"),
        (".data/serialization_id", "itself"),
    ],
)
def test_a_name_that_readers_refuse_is_refused(name, problem):
    with pytest.raises(SaveError, match=problem):
        written([("twice", b""), (name, b"1")])


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(3, 40)
        self.second = torch.nn.Linear(40, 2)

    def forward(self, x):
        return self.second(torch.nn.functional.gelu(self.first(x)))


@pytest.fixture(scope="module")
def saved():
    target = io.BytesIO()
    torch.jit.save(torch.jit.script(Net()), target, _extra_files={"config.json": "{}", "b": "2"})
    return target.getvalue()


def copies(container, *, deflate=None):
    for name, record in list(container.records.items())[:-1]:
        if deflate is None:
            payload = container.payload(name)
            packed = Packed(record.method, record.crc, record.size, payload)
            yield NewRecord(name, b"", packed=packed)
        else:
            code = name.startswith("code/")
            yield NewRecord(name, container.read(name), deflate=deflate and code)


def test_packed_records_give_the_file_of_torch(saved):
    target = io.BytesIO()
    with Container.open(io.BytesIO(saved)) as container:
        assert 8 in {record.method for record in container.records.values()}
        write_container(target, copies(container))
    assert target.getvalue() == saved


@pytest.mark.parametrize("deflate", [False, True])
def test_torch_runs_what_was_written(saved, deflate):
    target = io.BytesIO()
    with Container.open(io.BytesIO(saved)) as container:
        write_container(target, copies(container, deflate=deflate))
        expected = [record.method for record in container.records.values()]
    target.seek(0)
    with Container.open(target) as container:
        methods = [record.method for record in container.records.values()]
        assert methods == (expected if deflate else [0] * len(expected))
    target.seek(0)
    x = torch.arange(6.0).view(2, 3)
    files = {"config.json": ""}
    module = torch.jit.load(target, _extra_files=files)
    assert torch.equal(module(x), torch.jit.load(io.BytesIO(saved))(x))
    assert files == {"config.json": b"{}"}


def test_torchs_reader_gives_every_record():
    records = RECORD_SETS["unicode"] + RECORD_SETS["empty records"] + TAIL
    reader = torch._C.PyTorchFileReader(io.BytesIO(written(records)))
    assert reader.get_all_records()[:-1] == [name for name, _ in records]
    for name, data in records:
        assert reader.get_record(name) == data
        assert reader.get_record_offset(name) % 64 == 0


@pytest.mark.parametrize(("size", "method"), [(0, 0), (1, 0), (200, 0), (201, 8), (5000, 8)])
def test_deflate_starts_above_200_bytes(size, method):
    target = io.BytesIO()
    write_container(target, [NewRecord("code/a.py", b"x" * size, deflate=True)])
    with Container.open(target_again(target)) as container:
        assert container.records["code/a.py"].method == method
        assert container.read("code/a.py") == b"x" * size
    again = io.BytesIO()
    write_container(again, [NewRecord("code/a.py", b"x" * size, deflate=True)])
    assert again.getvalue() == target.getvalue()


def target_again(target):
    return io.BytesIO(target.getvalue())


def test_data_of_other_item_types_is_written_as_bytes():
    numbers = memoryview(b"abcdefgh" * 4)
    cases = {
        "wide": (numbers.cast("d"), numbers),
        "matrix": (numbers.cast("B", (4, 8)), numbers),
        "array": (bytearray(numbers), numbers),
        "no rows": (memoryview(torch.empty(0, 3).numpy()), b""),
    }
    data = written([(name, case[0]) for name, case in cases.items()])
    with Container.open(io.BytesIO(data)) as container:
        for name, (_, expected) in cases.items():
            assert container.read(name) == expected
    with pytest.raises(SaveError, match="contiguous"):
        written([("strided", numbers[::2])])


PACKED_REFUSED = {
    "unknown method": (Packed(93, 0, 3, b"abc"), r"method 93 \(Zstandard\)"),
    "stored in fewer bytes": (Packed(0, 0, 4, b"abc"), "stored in 3 bytes"),
    "packed into nothing": (Packed(8, 0, 4, b""), "packed into none"),
}


@pytest.mark.parametrize("fault", PACKED_REFUSED)
def test_packed_data_that_contradicts_itself_is_refused(fault):
    packed, message = PACKED_REFUSED[fault]
    with pytest.raises(SaveError, match=message) as caught:
        write_container(io.BytesIO(), [NewRecord("r", b"", packed=packed)])
    assert caught.value.record == "r"


def test_an_empty_deflated_record_becomes_a_stored_one():
    target = io.BytesIO()
    packed = Packed(8, 0, 0, b"\x03\x00")
    write_container(target, [NewRecord("r", b"", packed=packed)])
    assert target.getvalue() == written([("r", b"")])


class Sink:
    """Takes what is written in some manner of its own."""

    def __init__(self, most, answer):
        self.data, self.most, self.answer = b"", most, answer

    def write(self, data):
        piece = bytes(data[: self.most])
        self.data += piece
        return self.answer(piece)


def test_partial_writes_are_continued():
    for sink in (Sink(7, len), Sink(None, lambda piece: None)):
        write_container(sink, [NewRecord("a", b"hello" * 30)])
        assert sink.data == written([("a", b"hello" * 30)])


def test_a_sink_that_takes_nothing_is_an_error():
    with pytest.raises(SaveError, match="takes no more bytes"):
        write_container(Sink(0, len), [NewRecord("a", b"hello")])


def test_a_file_object_is_written_from_its_position_on():
    target = io.BytesIO(b"12345")
    target.seek(5)
    write_container(target, [NewRecord("a", b"hello")])
    assert target.getvalue() == b"12345" + written([("a", b"hello")])


def test_records_are_taken_one_at_a_time():
    target = io.BytesIO()
    sizes = []

    def records():
        for index in range(3):
            sizes.append(len(target.getvalue()))
            yield NewRecord(f"data/{index}", b"x" * 100)

    write_container(target, records())
    assert sizes == [0, 180, 372]


def far_and_large(zip64_from):
    records = [("a", b"x" * 10), ("b", b"y" * 300), ("c", b""), ("d", b"z" * 10), ("e", b"w" * 500)]
    target = io.BytesIO()
    new = [NewRecord(name, data) for name, data in records]
    new.append(NewRecord("code", b"code" * 100, deflate=True))
    write_records(target, new, "root", zip64_from)
    return target.getvalue(), {**dict(records), "code": b"code" * 100}


@pytest.mark.parametrize("zip64_from", [1, 11, 300, 301, 400, 501, 1000])
def test_members_in_zip64_form(zip64_from):
    data, expected = far_and_large(zip64_from)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert {name: archive.read(f"root/{name}") for name in expected} == expected
    with Container.open(io.BytesIO(data)) as container:
        assert {name: container.read(name) for name in expected} == expected
        assert all(record.offset % 64 == 0 for record in container.records.values())
        for record in container.records.values():
            assert record.size == len(expected.get(record.name, b"." * 40))


def test_zip64_form_field_by_field():
    """As torch writes a member of 4 GiB and the one after it, small numbers in place of large."""
    target = io.BytesIO()
    write_records(target, [NewRecord("large", b"x" * 100), NewRecord("far", b"hello")], "r", 100)
    data = target.getvalue()
    crc, large = zlib.crc32(b"x" * 100), data.index(b"PK\x07\x08")
    far = large + 24
    central = data.index(b"PK\x01\x02")
    central_far = data.index(b"PK\x01\x02", central + 1)
    # In the local header the stored size is not known yet. The padding follows.
    assert data[30:64] == b"r/large" + struct.pack("<2H2Q", 1, 16, 100, 0) + b"FB\x03\x00ZZZ"
    assert data[large:far] == b"PK\x07\x08" + struct.pack("<L2Q", crc, 100, 100)
    assert data[far + 30 :][:17] == b"r/far" + struct.pack("<2HQ", 1, 8, far)
    assert data[central + 20 :][:8] == data[central_far + 42 :][:4] * 2 == b"\xff" * 8
    assert data[central + 46 :][:27] == b"r/large" + struct.pack("<2H2Q", 1, 16, 100, 100)
    assert data[central_far + 46 :][:17] == b"r/far" + struct.pack("<2HQ", 1, 8, far)


NAMES = st.text(
    st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="/\\:"),
    min_size=1,
    max_size=20,
).filter(lambda name: name != "..")
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
RECORDS = st.dictionaries(PATHS, st.tuples(st.binary(max_size=600), st.booleans()), max_size=12)


@given(RECORDS, NAMES, st.sampled_from([MAX32, 1, 100, 300]))
def test_any_records_round_trip(records, root, zip64_from):
    target = io.BytesIO()
    new = [NewRecord(name, data, deflate) for name, (data, deflate) in records.items()]
    write_records(target, new, root, zip64_from)
    with Container.open(target_again(target)) as container, zipfile.ZipFile(target) as archive:
        assert container.root == root
        assert list(container.records)[:-1] == list(records)
        assert archive.namelist() == [f"{root}/{name}" for name in container.records]
        assert archive.testzip() is None
        for name, (data, _) in records.items():
            assert container.read(name) == container.view(name) == data
            info = archive.getinfo(f"{root}/{name}")
            assert info.file_size == len(data) == container.records[name].size


def test_files_that_reserve_their_space_have_the_bytes_of_streams(tmp_path):
    large = bytes(range(256)) * (1 << 14)
    records = [("a", b"first"), ("large", large), ("larger", large + b"more"), ("z", b"last")]
    write_container(tmp_path / "archive.pt", [NewRecord(name, data) for name, data in records])
    assert (tmp_path / "archive.pt").read_bytes() == written(records)


@given(st.binary(max_size=2000), st.integers(0, 2**32 - 1))
def test_checksums_are_those_of_zlib(data, start):
    assert crc32(data) == zlib.crc32(data)
    assert crc32(memoryview(data), start) == zlib.crc32(data, start)


def usually_deflated(data):
    deflater = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return deflater.compress(data) + deflater.flush()


WORDS = [
    bytes(Random(seed).choices(b"abcdefghijklmnop_.:, \n", k=Random(seed).randint(1, 9)))
    for seed in range(40)
]
TEXT = b" ".join(Random(0).choices(WORDS, k=10_000))


@pytest.mark.parametrize("size", [201, 249, 250, 251, 762, 1024, 1025, 3834, 3835, 7930, 40_000])
@pytest.mark.parametrize("text", [TEXT, bytes(40_000)], ids=["words", "zeros"])
def test_small_windows_give_what_large_ones_do(size, text):
    assert deflated(text[:size]) == usually_deflated(text[:size])


# Bytes whose hashes are one in small tables, where they are two in large ones.
COLLIDING = [b"\x61\x71", b"\x20\x30", b"\x00\x10"]


@pytest.mark.parametrize("size", [1024, 7929])
@pytest.mark.parametrize("symbols", COLLIDING)
@pytest.mark.parametrize("seed", range(5))
def test_long_chains_are_cut_where_they_usually_are(size, symbols, seed):
    """The best match lies behind more positions than are looked at, if chains are joined."""
    random = Random(seed)
    noise = bytes(random.choices(symbols, k=size))
    best = bytes(random.choices(symbols, k=120))
    begun = b"Z" + best[:40] + b"Y" + noise[:200] + b"Z" + best + b"X"
    data = noise[:50] + best + noise[: size - 50 - len(best) - len(begun)] + begun
    assert len(data) == size
    assert deflated(data) == usually_deflated(data)
