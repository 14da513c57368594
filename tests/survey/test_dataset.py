"""Rows are kept as they come, whenever a process ends, and read in order."""

from __future__ import annotations

import json
import random

import pytest

from tsarchive.errors import CallError, FormatError, UnsupportedError
from tsarchive.surveying import dataset as module
from tsarchive.surveying import tables
from tsarchive.surveying.dataset import Dataset, DatasetWriter
from tsarchive.surveying.rows import FileRow, FindingRow, Surveyed, plain, row_of

FORMATS = ("parquet", "jsonl")
ASPECTS = {"digest": True}


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch):
    monkeypatch.setattr(module, "_FILES_IN_PART", 4)
    monkeypatch.setattr(tables, "_ROWS_AT_ONCE", 3)


@pytest.fixture(params=FORMATS)
def format_(request):
    if request.param == "parquet":
        pytest.importorskip("pyarrow")
    return request.param


def rows(number: int, status="read") -> Surveyed:
    """The rows of a file, with as many findings as the last digit of its number says."""
    root, path = f"root {number % 2}", f"{number:03}.pt"
    file = FileRow(root, path, status, number, "é", operators=("aten::add",) * (number % 3))
    finding = FindingRow(root, path, "audit", "rule", "info", "ability", f"of {number}", line=1)
    return Surveyed(file, (finding,) * (number % 10))


def shuffled(count: int) -> list[Surveyed]:
    made = [rows(number) for number in range(count)]
    random.Random(0).shuffle(made)
    return made


def ordered(all_rows) -> list[Surveyed]:
    return sorted(all_rows, key=lambda each: each.key)


def always(row):
    return True


@pytest.mark.parametrize("count", [0, 1, 4, 30])
def test_rows_come_back_in_order(tmp_path, format_, count):
    given = shuffled(count)
    with DatasetWriter(tmp_path, ASPECTS, format_) as writer:
        for place in range(0, count, 3):
            writer.add(given[place : place + 3])
            assert [*writer.dataset.surveyed()] == ordered(given[: place + 3])
        writer.finish(always)
    found = Dataset(tmp_path)
    assert [*found.surveyed()] == ordered(given)
    assert [*found.files()] == [each.file for each in ordered(given)]
    assert [*found.findings()] == [row for each in ordered(given) for row in each.findings]
    assert sum(1 for path in tmp_path.rglob("*.*") if path.name[0].isdigit()) == 2 * -(-count // 4)


def test_tables_of_arrow_have_the_rows(tmp_path, format_):
    pytest.importorskip("pyarrow")
    given = ordered(shuffled(10))
    with DatasetWriter(tmp_path, ASPECTS, format_) as writer:
        writer.add(given)
        early = {name: writer.dataset.table(name) for name in ("files", "findings")}
        writer.finish(always)
    for name, kind in (("files", FileRow), ("findings", FindingRow)):
        table = Dataset(tmp_path).table(name)
        assert table.equals(early[name])
        expected = (
            [e.file for e in given]
            if name == "files"
            else [row for each in given for row in each.findings]
        )
        assert [row_of(kind, row) for row in table.to_pylist()] == expected


def test_later_rows_of_a_file_take_the_place_of_earlier_ones(tmp_path, format_):
    with DatasetWriter(tmp_path, ASPECTS, format_) as writer:
        writer.add([rows(number) for number in range(6)])
        writer.finish(always)
    with DatasetWriter(tmp_path, ASPECTS) as writer:
        writer.add([Surveyed(rows(3).file), rows(7)])
        writer.add([Surveyed(rows(5, "crashed").file), Surveyed(rows(7).file)])
        writer.finish(always)
    expected = {each.key: each for each in map(rows, (0, 1, 2, 4))}
    late = [Surveyed(rows(3).file), Surveyed(rows(5, "crashed").file), Surveyed(rows(7).file)]
    expected |= {each.key: each for each in late}
    assert [*Dataset(tmp_path).surveyed()] == ordered(expected.values())


def test_rows_that_are_not_kept_are_gone(tmp_path, format_):
    with DatasetWriter(tmp_path, ASPECTS, format_) as writer:
        writer.add(shuffled(9))
        writer.finish(lambda row: row.root == "root 1")
    assert {row.root for row in Dataset(tmp_path).files()} == {"root 1"}
    with DatasetWriter(tmp_path, ASPECTS) as writer:
        writer.finish(lambda row: row.path != "003.pt")
    assert [row.path for row in Dataset(tmp_path).files()] == ["001.pt", "005.pt", "007.pt"]


def test_a_process_may_end_within_any_line(tmp_path, format_):
    """All whole lines are kept, and what is added later stands behind none that is cut off."""
    given = [rows(1), rows(2), rows(3)]
    for cut in (1, 40, 200):
        folder = tmp_path / str(cut)
        with DatasetWriter(folder, ASPECTS, format_) as writer:
            writer.add(given)
        (journal,) = folder.glob("journal-*")
        journal.write_bytes(journal.read_bytes()[:-cut])
        assert [*Dataset(folder).surveyed()] == ordered(given[:2])
        with DatasetWriter(folder, ASPECTS) as writer:
            writer.add([rows(4)])
        assert [*Dataset(folder).surveyed()] == ordered([*given[:2], rows(4)])


@pytest.mark.parametrize("step", ["write", "unlink"])
def test_a_process_may_end_while_parts_are_made(tmp_path, format_, monkeypatch, step):
    """Before and behind the moment at which new parts count, there are all rows, each once."""
    given = shuffled(11)
    target = module.Index if step == "write" else module.Path
    with DatasetWriter(tmp_path, ASPECTS, format_) as writer:
        writer.add(given[:3])
        with monkeypatch.context() as patched:
            patched.setattr(target, step, _ended)
            with pytest.raises(InterruptedError):
                writer.add(given[3:6])
    assert [*Dataset(tmp_path).surveyed()] == ordered(given[:6])
    with DatasetWriter(tmp_path, ASPECTS) as writer:
        writer.add(given[6:])
        with monkeypatch.context() as patched:
            patched.setattr(target, step, _ended)
            with pytest.raises(InterruptedError):
                writer.finish(always)
    assert [*Dataset(tmp_path).surveyed()] == ordered(given)
    with DatasetWriter(tmp_path, ASPECTS) as writer:
        writer.finish(always)
    assert [*Dataset(tmp_path).surveyed()] == ordered(given)
    left = {path.name.partition(".")[0] for path in tmp_path.rglob("*.*") if path.name[0].isdigit()}
    assert left == set(Dataset(tmp_path).index.parts)


def _ended(*_):
    raise InterruptedError


def test_a_survey_goes_on_as_it_was_begun(tmp_path):
    DatasetWriter(tmp_path, ASPECTS, "jsonl").close()
    for aspects, chosen in (({"digest": False}, None), (ASPECTS, "parquet")):
        with pytest.raises(CallError, match="was begun with"):
            DatasetWriter(tmp_path, aspects, chosen)


def test_other_folders_are_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(CallError, match="something else"):
        DatasetWriter(tmp_path, ASPECTS)
    with pytest.raises(FileNotFoundError, match="there is no survey"):
        Dataset(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["notes.txt"]


def test_a_process_may_end_before_anything_counts(tmp_path, format_, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(module.Index, "write", _ended)
        with pytest.raises(InterruptedError):
            DatasetWriter(tmp_path, ASPECTS, format_)
    with DatasetWriter(tmp_path, ASPECTS, format_) as writer:
        writer.add([rows(1)])
        writer.finish(always)
    assert [*Dataset(tmp_path).surveyed()] == [rows(1)]


@pytest.mark.parametrize("index", [b"", b"[]", b'{"format": "csv", "aspects": {}}', b'{"x": 1}'])
def test_an_index_that_is_none_is_told(tmp_path, index):
    (tmp_path / "survey.json").write_bytes(index)
    with pytest.raises(FormatError):
        Dataset(tmp_path)


def test_two_writers_at_once_are_refused(tmp_path):
    with DatasetWriter(tmp_path, ASPECTS, "jsonl") as writer:
        writer.add([rows(1)])
        for _ in range(2):
            with pytest.raises(CallError, match="another survey is being written"):
                DatasetWriter(tmp_path, ASPECTS)
        writer.add([rows(2)])
    with DatasetWriter(tmp_path, ASPECTS) as writer:
        writer.finish(always)
    assert [*Dataset(tmp_path).surveyed()] == ordered([rows(1), rows(2)])


def test_a_writer_that_is_refused_releases_the_folder(tmp_path):
    DatasetWriter(tmp_path, ASPECTS, "jsonl").close()
    with pytest.raises(CallError, match="was begun with") as refused:
        DatasetWriter(tmp_path, {"digest": False})
    assert refused.traceback  # it keeps what the writer held
    DatasetWriter(tmp_path, ASPECTS).close()


def test_urls_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for url in ("memory://x/y", "s3://bucket/survey"):
        for refused in (lambda url=url: DatasetWriter(url, ASPECTS), lambda url=url: Dataset(url)):
            with pytest.raises(CallError, match="not to a URL"):
                refused()
    assert not [*tmp_path.iterdir()]


def test_rows_that_come_later_make_a_survey_unfinished(tmp_path, format_):
    """Tables would not have them; a writer that adds nothing leaves a survey as it was."""
    for number in (1, 2):
        with DatasetWriter(tmp_path, ASPECTS, format_) as writer:
            writer.add([rows(number)])
            writer.finish(always)
    DatasetWriter(tmp_path, ASPECTS).close()
    assert len(Dataset(tmp_path).parts("files")) == 1
    with DatasetWriter(tmp_path, ASPECTS) as writer:
        writer.add([rows(3)])
    with pytest.raises(CallError, match="not finished"):
        Dataset(tmp_path).parts("files")


def test_few_parts_are_open_at_once(tmp_path, format_, monkeypatch):
    """However often a survey was ended, and however many parts one that was finished has."""
    monkeypatch.setattr(module, "_MOST_UNORDERED", 3)
    given = shuffled(40)
    opened: list[str] = []
    part = Dataset._part

    def counted(self, name):
        opened.append(name)
        yield from part(self, name)
        opened.remove(name)

    for place in range(0, 40, 2):
        with DatasetWriter(tmp_path, ASPECTS, format_) as writer:
            writer.add(given[place : place + 2])
    with DatasetWriter(tmp_path, ASPECTS) as writer:
        writer.add([])
    monkeypatch.setattr(Dataset, "_part", counted)
    most = [len(opened) for _ in Dataset(tmp_path).surveyed()]
    assert len(most) == 40
    assert len(Dataset(tmp_path).index.parts) > 5
    assert 0 < max(most) <= 1 + 3
    assert [*Dataset(tmp_path).surveyed()] == ordered(given)


def test_parts_end_where_rows_are_long(tmp_path, format_, monkeypatch):
    longest = 2 * module._characters(rows(9))
    monkeypatch.setattr(module, "_FILES_IN_PART", 1000)
    monkeypatch.setattr(module, "_CHARACTERS_IN_PART", longest)
    given = ordered([rows(number) for number in range(30)])
    with DatasetWriter(tmp_path, ASPECTS, format_) as writer:
        for each in given:
            writer.add([each])
            assert sum(map(module._characters, writer.dataset.journal())) < longest
        writer.finish(always)
    assert [*Dataset(tmp_path).surveyed()] == given
    characters = sum(map(module._characters, given))
    parts = len(Dataset(tmp_path).index.parts)
    assert characters // (2 * longest) <= parts <= 2 * characters // longest


def test_an_index_of_a_later_version_is_told(tmp_path):
    DatasetWriter(tmp_path, ASPECTS, "jsonl").close()
    index = json.loads((tmp_path / "survey.json").read_text())
    (tmp_path / "survey.json").write_text(json.dumps(index | {"version": 2}))
    with pytest.raises(FormatError, match="another version"):
        Dataset(tmp_path)


def test_parts_are_those_of_a_finished_survey(tmp_path, format_):
    with DatasetWriter(tmp_path, ASPECTS, format_) as writer:
        writer.add(shuffled(5))
        with pytest.raises(CallError, match="not finished"):
            writer.dataset.parts("files")
        writer.finish(always)
    for name in ("files", "findings"):
        parts = Dataset(tmp_path).parts(name)
        assert [path.suffix for path in parts] == [f".{format_}"] * 2


def test_parquet_takes_its_package(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "find_spec", lambda name: None)
    assert tables.default_format() == "jsonl"
    with pytest.raises(UnsupportedError, match="pyarrow"):
        DatasetWriter(tmp_path / "out", ASPECTS, "parquet")
    with DatasetWriter(tmp_path / "lines", ASPECTS) as writer:
        writer.add([rows(1)])
        with pytest.raises(UnsupportedError, match="pyarrow"):
            writer.dataset.table("files")


def test_rows_are_plain_values():
    for each in (rows(5).file, *rows(5).findings):
        assert row_of(type(each), json.loads(json.dumps(plain(each)))) == each
