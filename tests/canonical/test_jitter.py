"""Three depths of no jitter: saving twice, saving what was loaded, and printing what was read."""

from __future__ import annotations

import io
import zipfile
from collections import OrderedDict

import pytest
import torch

import tsarchive
from tests.support.archives import ARCHIVES, CORPUS, records_of, saved, torch_loaded, torch_saved
from tests.support.running import hand_written, method
from tsarchive.container import NewRecord, write_container
from tsarchive.errors import ArchiveError

REAL = sorted((CORPUS / "torchscript").glob("*")) if CORPUS.is_dir() else []
# torch prints a list of constants that it made of an enum in one piece, and reads it back as a
# list that is put together; its second save has that form.
CHANGED_BY_TORCH = {"enum_loop"}


def resaved_by_torch(module, times: int) -> bytes:
    data = torch_saved(module)
    for _ in range(times):
        data = torch_saved(torch_loaded(data))
    return data


def rewritten(data: bytes, changes: dict[str, bytes]) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as read, zipfile.ZipFile(written, "w") as archive:
        for name in read.namelist():
            archive.writestr(name, changes.get(name.partition("/")[2], read.read(name)))
    return written.getvalue()


def test_the_first_depth_saving_twice(case):
    module = case.build()
    assert saved(module) == saved(module)
    assert saved(module, canonical=True) == saved(module, canonical=True)


def test_the_second_depth_saving_what_was_loaded(case):
    first = saved(case.build())
    second = saved(tsarchive.load(io.BytesIO(first)))
    assert saved(tsarchive.load(io.BytesIO(second))) == second == first


def test_the_third_depth_printing_what_was_read(case):
    found = tsarchive.check_jitter(case.build())
    assert found.stable
    assert found.twice == tsarchive.SaveComparison()
    assert not found.records
    assert found.as_read is None
    assert found.graph.is_own
    assert found.graph.stable == (case.name not in CHANGED_BY_TORCH)
    assert not found.graph.records
    assert not found.graph.unprinted
    assert bool(found.graph.code) == (case.name in CHANGED_BY_TORCH)
    assert not found.graph.debug


def test_the_third_depth_of_canonical_files(case):
    data = saved(case.build(), canonical=True)
    assert tsarchive.check_jitter(io.BytesIO(data)).graph == tsarchive.GraphReport()


def test_what_torch_has_read_twice_is_kept_as_a_whole(case):
    """torch's third save is the form that it keeps: code, pickles and debug records."""
    data = resaved_by_torch(case.build(), 2)
    found = tsarchive.check_jitter(io.BytesIO(data))
    assert found.stable
    assert found.as_read.same_file
    assert not found.as_read.records
    assert found.graph == tsarchive.GraphReport()


@pytest.mark.parametrize("name", sorted(CHANGED_BY_TORCH))
def test_code_that_torch_changes_is_printed_as_torch_changes_it(name):
    from fixtures.modules import all_cases

    (case,) = [case for case in all_cases() if case.name == name]
    second = records_of(resaved_by_torch(case.build(), 1))
    for difference in tsarchive.check_jitter(case.build()).graph.code:
        start = slice(difference.offset, difference.offset + len(difference.second))
        assert second[difference.record][start] == difference.second


def test_a_first_save_of_torch_is_told_apart():
    """Its pickles and debug records are in another form, and its code is not."""
    found = tsarchive.check_jitter(ARCHIVES / "sequential.pt")
    assert found.stable
    assert found.graph.stable
    assert not found.as_read.same_file
    names = {difference.record for difference in found.as_read.records}
    assert names == {"data.pkl", ".data/serialization_id"}
    assert found.graph.debug
    assert not found.graph.code
    debug = records_of((ARCHIVES / "sequential.pt").read_bytes())
    for difference in found.graph.debug:
        assert difference.record.endswith(".debug_pkl")
        assert debug[difference.record][difference.offset :].startswith(difference.first)
        assert difference.first != difference.second


class Enlarged(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.interpolate(x, size=(4, 4), mode="bilinear")


class Chosen(torch.nn.Module):
    def forward(self, flag: bool):
        return [1, 2] if flag else None


@pytest.mark.parametrize(
    ("module", "what"),
    [
        # of an overload that has no default there; torch reads back one that has
        (torch.jit.trace(Enlarged(), torch.zeros(1, 1, 2, 2)), "False, None)"),
        # to which torch adds a cast when it reads it back
        (torch.jit.script(Chosen()), " : Optional[List[int]] = [1, 2]"),
    ],
    ids=["a default", "a list for an Optional"],
)
def test_text_that_torch_changes_is_kept(module, what):
    def texts(data: bytes) -> str:
        return "".join(c.decode() for n, c in records_of(data).items() if n.endswith(".py"))

    assert what in texts(torch_saved(module))
    assert what not in texts(resaved_by_torch(module, 1))
    found = tsarchive.check_jitter(io.BytesIO(torch_saved(module)))
    assert found.stable
    assert not found.graph.code
    assert tsarchive.check_jitter(module).graph == tsarchive.GraphReport()


# --- who saved first ---


def repacked(data: bytes) -> bytes:
    """The records of an archive as tsarchive compresses them."""
    content = {n: c for n, c in records_of(data).items() if not n.startswith(".data/")}
    records = [
        NewRecord(name, value, deflate=name.startswith("code/")) for name, value in content.items()
    ]
    written = io.BytesIO()
    write_container(written, records)
    return written.getvalue()


def test_files_that_tsarchive_saved_first_are_known():
    module = torch.jit.script(torch.nn.Linear(2, 2))
    assert repacked(saved(module)) == saved(module)
    for data, is_own in ((saved(module), True), (torch_saved(module), False)):
        loaded = tsarchive.load(io.BytesIO(data))
        for source in (io.BytesIO(data), io.BytesIO(saved(loaded)), loaded):
            assert tsarchive.check_jitter(source).graph.is_own == is_own


def test_debug_records_that_change_are_jitter_of_our_own_files_alone():
    """Those of torch's first save, in its file and in one that tsarchive might have written."""
    theirs = (ARCHIVES / "sequential.pt").read_bytes()
    ours = repacked(theirs)
    other, own = (tsarchive.check_jitter(io.BytesIO(data)).graph for data in (theirs, ours))
    assert own.debug == other.debug != ()
    assert (own.is_own, own.stable) == (True, False)
    assert (other.is_own, other.stable) == (False, True)


@pytest.mark.parametrize("name", sorted(CHANGED_BY_TORCH))
def test_code_that_changes_is_jitter_of_our_own_files_alone(name):
    from fixtures.modules import all_cases

    (case,) = [case for case in all_cases() if case.name == name]
    module = case.build()
    own = tsarchive.check_jitter(io.BytesIO(saved(module))).graph
    other = tsarchive.check_jitter(io.BytesIO(torch_saved(module))).graph
    assert own.code == other.code != ()
    assert (own.stable, other.stable) == (False, True)


# --- other saves ---


class Counting(torch.nn.Module):
    """Its state is another each time that it is asked for."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x

    @torch.jit.export
    def __getstate__(self) -> tuple[int, bool]:
        self.count += 1
        return self.count, self.training

    @torch.jit.export
    def __setstate__(self, state: tuple[int, bool]) -> None:
        self.count, self.training = state


def test_saves_that_differ_from_each_other():
    found = tsarchive.check_jitter(torch.jit.script(Counting()))
    assert not found.stable
    assert not found.twice.same
    assert found.twice.records[0].record == "data.pkl"


@pytest.mark.long("test_the_first_depth_saving_twice")
def test_the_canonical_form_in_other_processes(tmp_path):
    module = torch.jit.script(torch.nn.Linear(2, 2))
    path = tmp_path / "model.pt"
    tsarchive.save(module, path)
    for source in (module, path):
        found = tsarchive.check_jitter(source, map_location="cpu", canonical=True)
        assert found.canonical == tsarchive.SaveComparison()
    assert tsarchive.check_jitter(path).canonical is None


def test_a_canonical_form_that_differs_is_shown(monkeypatch):
    module = torch.jit.script(torch.nn.Linear(2, 2))
    other = saved(torch.jit.script(torch.nn.Linear(2, 3)), canonical=True)
    forms = [saved(module, canonical=True), other]
    monkeypatch.setattr("tsarchive.jitter.canonical_saves", lambda *_: forms)
    found = tsarchive.check_jitter(module, canonical=True)
    assert found.stable
    assert not found.canonical.same
    assert "data.pkl" in {difference.record for difference in found.canonical.records}


def test_a_process_that_fails_says_why(monkeypatch):
    monkeypatch.setattr("tsarchive.jitter._SAVE", "raise ValueError('no such library')")
    with pytest.raises(ArchiveError, match="form: ValueError: no such library") as caught:
        tsarchive.check_jitter(torch.jit.script(torch.nn.ReLU()), canonical=True)
    assert "Traceback" not in caught.value.message


def test_paths_file_objects_and_modules(tmp_path):
    module = torch.jit.script(torch.nn.Linear(2, 2))
    path = tmp_path / "model.pt"
    tsarchive.save(module, path)
    by_path = tsarchive.check_jitter(path)
    with path.open("rb") as file:
        assert tsarchive.check_jitter(file) == by_path
    assert by_path.as_read == tsarchive.ReadComparison(True, ())
    assert by_path.graph == tsarchive.GraphReport()
    live = tsarchive.check_jitter(module)
    assert (live.stable, live.records, live.as_read) == (True, (), None)
    assert tsarchive.check_jitter(tsarchive.load(path)) == live


def test_records_as_read_in_another_container():
    data = saved(torch.jit.script(torch.nn.Linear(2, 2)))
    found = tsarchive.check_jitter(io.BytesIO(rewritten(data, {})))
    assert found.stable
    assert found.as_read == tsarchive.ReadComparison(False, ())


def test_code_in_another_form_changes_once():
    data = saved(torch.jit.script(torch.nn.Linear(2, 2)))
    (record,) = [name for name in records_of(data) if name.endswith(".py")]
    spaced = records_of(data)[record].replace(b"torch.linear(", b"torch.linear( ")
    found = tsarchive.check_jitter(io.BytesIO(rewritten(data, {record: spaced})))
    assert found.stable
    assert found.graph.stable
    (difference,) = found.graph.code
    assert difference.record == record
    assert difference.first.startswith(b" input")
    assert difference.second.startswith(b"input")
    assert found.graph.debug == ()


@pytest.mark.parametrize(
    "names", [("0", "1"), ("-1", "0", "1"), ("+0", "0"), ("1", "-1", "_1", "x", "-x")]
)
def test_names_that_are_numbers_but_for_a_sign(names):
    layers = torch.nn.Sequential(OrderedDict((name, torch.nn.ReLU()) for name in names))
    found = tsarchive.check_jitter(torch.jit.script(layers))
    assert found.stable
    assert found.graph == tsarchive.GraphReport(is_own=True)


def test_code_that_cannot_be_read_is_reported_with_a_reason():
    data = hand_written(method("return ops.nowhere.nothing(x)"))
    found = tsarchive.check_jitter(io.BytesIO(data))
    assert found.stable
    (unprinted,) = found.graph.unprinted
    assert unprinted.record.startswith("code/")
    assert "nowhere::nothing" in unprinted.reason


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        # ((offset, ((text, file name, line), begin, end), tag), ...)
        (b"\x80\x02K\x00X\x00\x00\x00\x00X\x00\x00\x00\x00K\x00\x87K\x00K\x00\x87K\x00\x87\x85.",
         "no table of texts"),
        (b"\x80\x02X\x18\x00\x00\x00FORMAT_WITH_STRING_TABLE)K\x00\x85\x87.", "malformed"),
    ],
    ids=["older", "damaged"],
)  # fmt: skip
def test_debug_records_of_other_forms_are_reported(content, reason):
    data = saved(torch.jit.script(torch.nn.ReLU()))
    with tsarchive.open(io.BytesIO(data)) as opened:
        # Another ReLU of this process may have the name without a number.
        debug = (name for name in opened.records if name.endswith(".debug_pkl"))
        (name,) = (name for name in debug if "/activation" in name)
    found = tsarchive.check_jitter(io.BytesIO(rewritten(data, {name: content})))
    assert found.stable
    assert found.graph.stable
    (unprinted,) = found.graph.unprinted
    assert unprinted.record == name
    assert reason in unprinted.reason


def test_without_debug_records_there_is_nothing_to_compare():
    data = saved(torch.jit.script(torch.nn.ReLU()), debug=False)
    assert tsarchive.check_jitter(io.BytesIO(data)).graph == tsarchive.GraphReport()


@pytest.mark.sample(3)
@pytest.mark.filterwarnings("ignore::UserWarning")  # quantized tensors, which torch warns of
@pytest.mark.skipif(not REAL, reason="the corpus of real archives is not beside the repository")
@pytest.mark.parametrize("path", REAL, ids=lambda path: path.name)
def test_real_archives(path):
    try:
        found = tsarchive.check_jitter(path, map_location="cpu")
    except ArchiveError as error:
        with pytest.raises(ArchiveError):
            saved(tsarchive.load(path, map_location="cpu"))
        pytest.skip(f"it is not loaded and saved: {str(error)[:100]}")
    assert found.stable
    assert found.graph.stable
    if not found.graph.unprinted:
        again = saved(tsarchive.load(path, map_location="cpu"), canonical=True)
        module = tsarchive.load(io.BytesIO(again))
        assert saved(module, canonical=True) == again
