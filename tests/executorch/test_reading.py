"""Files of ExecuTorch, opened without torch and without the executorch package."""

from __future__ import annotations

import io
import struct
from contextlib import suppress

import pytest

import tsarchive
from fixtures.executorch_samples import (
    ADD,
    BIAS,
    DATA,
    DATA_06,
    FILES,
    LINEAR,
    LINEAR_DATA,
    STATE,
    STATE_DATA,
    WEIGHT,
    data_file,
    program,
)
from fixtures.flatbuffer_encoder import Encoder
from tests.support.executorch_files import (
    CORPUS_KINDS,
    FIXTURES,
    edited,
    mutated,
    opened,
    sound_files,
)
from tsarchive.errors import (
    ArchiveError,
    FormatError,
    LimitError,
    MissingRecordError,
    UnsupportedError,
)
from tsarchive.formats.executorch import methods
from tsarchive.formats.executorch.methods import (
    Allocation,
    DelegateCall,
    Frame,
    Free,
    JumpFalse,
    KernelCall,
    Layout,
    Move,
    Operator,
)
from tsarchive.formats.executorch.schema import FLAT_TENSOR, FLAT_TENSOR_06


def of_fixture(name):
    return tsarchive.open(FIXTURES / name)


@pytest.mark.parametrize("name", FILES)
def test_fixtures_are_what_the_samples_describe(name):
    assert (FIXTURES / name).read_bytes() == FILES[name]()


@pytest.mark.parametrize("name", FILES)
def test_kind_and_version(name):
    with of_fixture(name) as archive:
        assert (archive.kind, archive.format_version) == (name.rpartition(".")[2], 0)


@pytest.mark.parametrize(
    ("name", "records"),
    [
        ("add.pte", ["program", "segments/0"]),
        ("linear.pte", ["header", "program", "segments/0"]),
        ("inline.pte", ["program", "constants/0", "constants/1", "constants/2"]),
        ("state.pte", ["header", "program", "segments/0", "segments/1", "segments/2",
                       "named_data/blob", "named_data/again", "delegates/0"]),
        ("data.ptd", ["header", "tables", "segments/0", "segments/1", "named_data/net.weight",
                      "named_data/tied", "named_data/opaque"]),
        ("data_06.ptd", ["header", "tables", "segments/0", "named_data/a", "named_data/b"]),
        ("linear.bpte", ["bundle", "program", "program/header", "program/program",
                         "program/segments/0", "test_suites/forward/0/inputs/0",
                         "test_suites/forward/0/expected_outputs/0"]),
    ],
)  # fmt: skip
def test_records(name, records):
    data = (FIXTURES / name).read_bytes()
    with of_fixture(name) as archive:
        assert list(archive.records) == records
        for record in archive.records.values():
            assert record.crc is None
            assert record.size == record.stored_size
            end = record.offset + record.size
            assert archive.read(record.name) == data[record.offset : end]


def test_bytes_of_records():
    with of_fixture("state.pte") as archive:
        assert archive.read("segments/1") == BIAS
        assert archive.read("named_data/blob") == archive.read("delegates/0") == bytes(range(32))
        assert archive.read("header")[:4] == b"eh00"
    with of_fixture("linear.bpte") as archive:
        assert archive.read("program") == program(LINEAR, LINEAR_DATA)
        assert archive.read("test_suites/forward/0/expected_outputs/0") == BIAS * 2
    with of_fixture("inline.pte") as archive:
        assert (archive.read("constants/1"), archive.read("constants/2")) == (BIAS, WEIGHT)
    with of_fixture("data_06.ptd") as archive:
        assert archive.read("named_data/b") == WEIGHT[:32]


def test_views_are_not_copied():
    with of_fixture("linear.pte") as archive:
        view = archive.executorch.regions.view("segments/0")
        view[0] = 0xEE
        assert archive.read("segments/0")[0] == 0xEE
        found = archive.executorch.program
        assert bytes(found.initial_data(found.method("forward").values[0]))[0] == 0xEE
    assert (FIXTURES / "linear.pte").read_bytes() == FILES["linear.pte"]()


def test_values_and_instructions():
    with of_fixture("values.pte") as archive:
        method = archive.executorch.program.method("forward")
    assert method.values[2:13] == (
        methods.Tensor(6, (4, 2), (0, 1), 0, False, 0, Allocation(1, 48), 0, 1),
        False, 7, None, 0.5, "mean", methods.IntList((4, 4)), methods.DoubleList((0.5, 2.0)),
        methods.BoolList((True, False)), methods.TensorList((1, 2)),
        methods.OptionalTensorList((-1, 1)),
    )  # fmt: skip
    assert method.chains[0].instructions == (
        JumpFalse(0, 4), KernelCall(0, (1, 2, 2)), Move(2, 13), JumpFalse(3, 5), Move(1, 13),
        Free(2),
    )  # fmt: skip
    assert (method.inputs, method.outputs, method.arenas) == ((0, 1), (13,), (0, 80))
    assert method.operators == (Operator("aten::sin", "out"),)
    assert type(method.values[3]) is bool


def test_methods_delegates_and_sources():
    with of_fixture("state.pte") as archive:
        found = archive.executorch.program
        step = found.method("step")
        assert found.method_names == ("get_size", "step")
        assert [delegate.backend for delegate in step.delegates] == ["XnnpackBackend", "MyBackend"]
        assert [bytes(found.delegate_data(d)) for d in step.delegates] == [bytes(range(32))] * 2
        assert [(key, bytes(value)) for key, value in step.delegates[0].options] == [
            ("mode", b"fast")
        ]
    assert step.chains[0].instructions[0] == DelegateCall(0, (1, 0))
    assert step.chains[0].frames == ((Frame("net.py", 7, "step", "self.count += 1"),),)
    assert step.arena_devices == ((1, 0, 0),)
    with pytest.raises(MissingRecordError, match="get_size, step"):
        found.method("forward")


def test_offsets_in_arenas_have_64_bits():
    more = {"memory_id": 1, "memory_offset_low": 16, "memory_offset_high": 3}
    plan = ADD["execution_plan"][0]
    moved = {"val": ("Tensor", {"sizes": [2], "dim_order": [0], "allocation_info": more})}
    changed = {**ADD, "execution_plan": [{**plan, "values": [moved]}]}
    with opened(program(changed)) as archive:
        (tensor,) = archive.executorch.program.method("forward").values
    assert tensor.allocation == Allocation(1, (3 << 32) + 16)


def test_tensors():
    with of_fixture("state.pte") as archive:
        found = dict(archive.tensors)
    assert {name: (i.storage, i.shape, i.nbytes, i.is_buffer) for name, i in found.items()} == {
        "count": ("segments/1", (3,), 12, True),
        "net.weight": ("external:net.weight", (4, 3), 48, False),
        "step.2": ("segments/0", (3,), 12, False),
    }
    with of_fixture("data.ptd") as archive:
        found = dict(archive.tensors)
    assert {name: (info.strides, info.storage) for name, info in found.items()} == {
        "net.weight": ((3, 1), "segments/0"),
        "tied": ((1, 4), "segments/0"),
    }


def test_a_name_of_two_tensors_is_given_once():
    """The second goes by its number, so that none is hidden."""
    plan = STATE["execution_plan"][1]
    first = plan["values"][0]
    other = {"val": ("Tensor", {**first["val"][1], "sizes": [1]})}
    changed = {**STATE, "execution_plan": [{**plan, "values": [first, other]}]}
    with opened(program(changed, STATE_DATA)) as archive:
        assert {name: info.shape for name, info in archive.tensors.items()} == {
            "count": (3,),
            "step.1": (1,),
        }


def test_the_tree():
    with of_fixture("state.pte") as archive:
        root = archive.tree()
    step = root.children[1]
    assert (step.name, step.methods) == ("step", ("step() -> float32[3]",))
    assert [(c.name, c.qualified_class, c.methods, c.nbytes) for c in step.children] == [
        ("XnnpackBackend", "delegate", ("1 call",), 32),
        ("MyBackend", "delegate", ("1 call",), 32),
    ]
    with of_fixture("linear.bpte") as archive:
        method, suite = archive.tree().children
    assert [child.name for child in method.children] == ["aten::addmm.out"]
    assert (suite.name, suite.qualified_class, suite.nbytes) == ("forward", "test suite", 56)
    with of_fixture("data.ptd") as archive:
        entries = archive.tree().children
    assert [(e.name, e.qualified_class, e.nbytes) for e in entries] == [
        ("net.weight", "float32[4, 3]", 48), ("tied", "float32[4, 3]", 48), ("opaque", "bytes", 5),
    ]  # fmt: skip


def test_code_is_a_listing_of_each_method():
    with of_fixture("linear.pte") as archive:
        assert dict(archive.code) == {"forward": LISTING}
        assert archive.needs.operators == {"aten::addmm": 1}
        assert archive.needs.foreign == ()
    with of_fixture("data.ptd") as archive:
        assert not archive.code


LISTING = """\
method forward(float32[2, 4]) -> float32[2, 3]
  nested inputs: T1#1($)
  nested outputs: $
  arena 1: 64 bytes
  inputs: %1
  outputs: %4
values:
  %0: float32[3], segments/0 at 0, 12 bytes
  %1: float32[2, 4], arena 1 at 0, 32 bytes
  %2: float32[4, 3], segments/0 at 16, 48 bytes
  %3: int = 1
  %4: float32[2, 3], arena 1 at 32, 24 bytes
instructions:
  0: aten::addmm.out(%0, %1, %2, %3, %3, %4, %4)
"""


def test_texts_of_the_file_stay_in_their_line():
    plan = ADD["execution_plan"][0]
    text = {"val": ("String", {"string_val": "a\nmethod evil()"})}
    changed = {**ADD, "execution_plan": [{**plan, "name": "f\n\x1b[2J", "values": [text],
                                          "inputs": [], "outputs": [], "chains": []}]}  # fmt: skip
    with opened(program(changed)) as archive:
        (listing,) = archive.code.values()
    assert listing.isascii()
    assert [line for line in listing.splitlines() if not line.startswith(" ")] == [
        "method f\\n\\x1b[2J() -> ()",
        "values:",
    ]


@pytest.mark.parametrize(
    "ask",
    [
        lambda archive: archive.container,
        lambda archive: archive.root,
        lambda archive: archive.classes,
        lambda archive: archive.exported,
    ],
)
def test_what_only_zip_archives_have_is_refused_with_a_word(ask):
    with of_fixture("linear.pte") as archive, pytest.raises(UnsupportedError, match="pte"):
        ask(archive)


def test_an_argument_for_other_files_is_refused():
    with of_fixture("linear.pte") as archive:
        for ask in (lambda: archive.only("model"), lambda: archive.moved("cpu")):
            with pytest.raises(ArchiveError, match="this is a program of ExecuTorch") as told:
                ask()
            assert told.value.record is None
            assert "Leave out the argument m" in str(told.value)


def test_zip_archives_have_no_program():
    archive = tsarchive.open(FIXTURES.parent / "archives" / "sequential.pt")
    with archive, pytest.raises(UnsupportedError, match="not a file of ExecuTorch"):
        _ = archive.executorch


def test_a_closed_file_is_told():
    archive = of_fixture("linear.pte")
    archive.close()
    with pytest.raises(ArchiveError, match="closed"):
        archive.read("header")


@pytest.mark.parametrize(
    "ask",
    [
        lambda archive: archive.read("segments/0"),
        lambda archive: archive.tree(),
        lambda archive: archive.tensors,
        lambda archive: archive.code["forward"],
        lambda archive: archive.records,
    ],
)
def test_files_that_are_cut_meanwhile_are_told(tmp_path, ask):
    """Reading behind the end of a map would end the process."""
    path = tmp_path / "model.pte"
    path.write_bytes(FILES["linear.pte"]())
    with tsarchive.open(path) as archive:
        assert list(archive.code) == ["forward"]
        path.write_bytes(b"")
        with pytest.raises(FormatError, match="when it was opened"):
            ask(archive)


HEADERS = {
    "another version": (b"eh01", 8, UnsupportedError, "eh01"),
    "too short": (struct.pack("<I", 16), 12, FormatError, "16 bytes"),
    "tables behind the end": (struct.pack("<Q", 1 << 40), 16, FormatError, "would end"),
    "tables of nothing": (struct.pack("<Q", 30), 16, FormatError, "longer than the program"),
    "segments in the tables": (struct.pack("<Q", 64), 24, FormatError, "in the tables"),
    "segments behind all": (struct.pack("<Q", (1 << 64) - 16), 24, FormatError, "would end"),
    "more than the file": (struct.pack("<Q", 1 << 63), 32, FormatError, "would end"),
    "an older program": (b"ET11", 4, FormatError, "ET11"),
}


@pytest.mark.parametrize("what", HEADERS)
def test_headers_that_contradict_are_refused(what):
    made, at, error, message = HEADERS[what]
    with pytest.raises(error, match=message) as raised:
        opened(edited(FILES["linear.pte"](), at, made))
    assert raised.value.offset is not None


def test_a_cut_file_is_refused_wherever_it_is_cut():
    data = FILES["linear.pte"]()
    for size in range(8, len(data)):
        with pytest.raises(FormatError):
            opened(data[:size])


def test_segments_with_bytes_need_a_header():
    buffer = program({**LINEAR, "segments": [{"offset": 0, "size": 60}]})
    with opened(buffer) as archive, pytest.raises(FormatError, match="no header"):
        _ = archive.records


def test_data_files_need_a_header():
    with pytest.raises(FormatError, match="header"):
        opened(Encoder(FLAT_TENSOR).encode(DATA).ljust(64, b"\0"))


def test_layouts_of_data_files_are_told_apart():
    """In 0.6 the alignment, a number, stands where the vector of segments stands since."""
    for alignment in (1, 4, 16, 64, 1 << 20):
        values_06 = {**DATA_06, "tensor_alignment": alignment}
        with opened(data_file(values_06, bytes(48), FLAT_TENSOR_06)) as archive:
            assert list(archive.tensors) == ["a", "b"]
    with opened(data_file(DATA, bytes(133))) as archive:
        assert list(archive.tensors) == ["net.weight", "tied"]


def test_names_that_stand_everywhere_are_short():
    plan = ADD["execution_plan"][0]
    archive = opened(program({**ADD, "execution_plan": [{**plan, "name": "x" * 256}]}))
    with archive, pytest.raises(LimitError, match="256 letters"):
        _ = list(archive.code)


@pytest.mark.parametrize(
    ("sizes", "order", "strides"),
    [
        ((), (), ()),
        ((2, 3, 4), (0, 1, 2), (12, 4, 1)),
        ((2, 3, 4, 5), (0, 2, 3, 1), (60, 1, 15, 3)),
        ((2, 0, 3), (0, 1, 2), (3, 3, 1)),
        ((2, 3), (0, 0), ()),
        ((2, 3), (0,), ()),
    ],
)
def test_strides_follow_the_order_of_dimensions(sizes, order, strides):
    assert Layout(6, sizes, order).strides == strides


@pytest.mark.parametrize("kind", CORPUS_KINDS)
def test_every_sound_file_of_the_corpus_opens(corpus, kind):
    paths = sound_files(corpus, kind)
    assert paths
    for path in paths:
        with tsarchive.open(path) as archive:
            assert archive.kind == kind
            places = {name for name in archive.records if len(archive.read(name)) >= 0}
            methods = [c for c in archive.tree().children if c.qualified_class == "method"]
            assert list(archive.code) == [method.name for method in methods]
            stored = {info.storage for info in archive.tensors.values()}
            assert {name for name in stored if not name.startswith("external:")} <= places


@pytest.mark.parametrize("seed", range(40))
def test_damage_gives_a_result_or_an_error_of_the_family(seed):
    for data in mutated(seed, 25):
        asked = (
            lambda a: [a.read(name) for name in a.records], lambda a: list(a.code.values()),
            lambda a: dict(a.tensors), lambda a: a.tree(), lambda a: a.needs,
        )  # fmt: skip
        try:
            archive = tsarchive.open(io.BytesIO(data))
        except ArchiveError:
            continue
        with archive:
            for ask in asked:
                with suppress(ArchiveError):
                    ask(archive)
