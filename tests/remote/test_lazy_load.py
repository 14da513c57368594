"""Tensors of a file elsewhere, fetched at once or when a module first hands them out."""

from __future__ import annotations

import copy
import gc
import io
import pickle
import sys
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from types import FrameType

import pytest
import torch

import tsarchive
from tests.support.archives import FIXTURES, export_saved, loaded, torch_saved
from tests.support.comparing import equal
from tests.support.elsewhere import CountedRanges, Seekable
from tests.support.elsewhere_loads import FewRanges, Layers, loaded_from
from tests.support.networks import NETWORKS, build
from tests.support.web_server import web_server
from tsarchive.container.ranges import RangedSource
from tsarchive.container.source import Span
from tsarchive.errors import CallError, FormatError, PickleError, RemoteError
from tsarchive.formats import awaited
from tsarchive.formats.base import LoadOptions
from tsarchive.formats.registry import opened_source
from tsarchive.loading import load_opened
from tsarchive.policy import Guard

X = torch.linspace(-1, 1, 2 * 256).reshape(2, 256)


def of_torchscript() -> bytes:
    torch.manual_seed(0)
    return torch_saved(torch.jit.script(Layers().eval()))


def of_pt2() -> bytes:
    torch.manual_seed(0)
    return export_saved(torch.export.export(Layers().eval(), (X,)))


MADE = {"torchscript": of_torchscript, "pt2": of_pt2}


@pytest.fixture(scope="module", params=MADE)
def data(request) -> bytes:
    return MADE[request.param]()


@pytest.fixture(scope="module")
def scripted() -> bytes:
    return of_torchscript()


def bytes_of(tensor: torch.Tensor) -> bytes:
    return tensor.detach().numpy().tobytes()


def test_what_never_runs_is_never_fetched(data):
    local, ranges = loaded(data), FewRanges(data)
    module = loaded_from(ranges, lazy=True)
    before = ranges.traffic
    assert before.nbytes < len(data) // 4
    assert equal(module(X), local(X))
    called = ranges.traffic
    assert ranges.has_asked(bytes_of(local.first.weight))
    assert not ranges.has_asked(bytes_of(local.never.weight))
    assert equal(module(X), local(X))
    assert ranges.traffic == called
    assert equal(dict(module.state_dict()), dict(local.state_dict()))
    assert ranges.has_asked(bytes_of(local.never.weight))


def test_tables_are_plain_once_all_is_there(scripted):
    module = loaded_from(FewRanges(scripted), lazy=True)
    kept = module.first._parameters
    assert type(kept) is not dict
    weight = kept["weight"]
    assert type(module.first._parameters) is dict
    assert type(module.first._buffers) is dict
    assert module.first.weight is weight
    kept["weight"] = other = torch.nn.Parameter(torch.zeros(256, 256))
    assert module.first.weight is other
    assert type(module.never._parameters) is not dict


def test_a_module_is_fetched_at_one_request(scripted):
    ranges = FewRanges(scripted)
    module = loaded_from(ranges, lazy=True)
    before = ranges.traffic.requests
    for tensor in (module.first.weight, module.first.bias):
        assert tensor.any()
    assert ranges.traffic.requests == before + 1


LOOKS = {
    "state_dict": lambda m: m.state_dict()["first.weight"],
    "attribute": lambda m: m.first.weight,
    "get_parameter": lambda m: m.get_parameter("first.weight"),
    "named_parameters": lambda m: dict(m.named_parameters())["first.weight"],
    "parameters": lambda m: next(m.first.parameters()),
    "to": lambda m: m.to(torch.float64).to(torch.float32).first.weight,
    "deepcopy": lambda m: copy.deepcopy(m).first.weight,
    "copy": lambda m: copy.copy(m).first.weight,
    "pickle": lambda m: pickle.loads(pickle.dumps(m)).first.weight,
    "item": lambda m: m.first._parameters["weight"],
    "get": lambda m: m.first._parameters.get("weight"),
    "setdefault": lambda m: m.first._parameters.setdefault("weight", None),
    "pop": lambda m: m.first._parameters.pop("weight"),
    "popitem": lambda m: dict([m.first._parameters.popitem() for _ in range(2)])["weight"],
    "values": lambda m: next(iter(m.first._parameters.values())),
    "items": lambda m: next(iter(m.first._parameters.items()))[1],
    "dict": lambda m: dict(m.first._parameters)["weight"],
    "stars": lambda m: {**m.first._parameters}["weight"],
    "table copy": lambda m: m.first._parameters.copy()["weight"],
    "table copy.copy": lambda m: copy.copy(m.first._parameters)["weight"],
    "table deepcopy": lambda m: copy.deepcopy(m.first._parameters)["weight"],
    "or": lambda m: (m.first._parameters | {"x": 1})["weight"],
    "other or": lambda m: ({"x": 1} | m.first._parameters)["weight"],
    "update": lambda m: _updated(m.first._parameters)["weight"],
    "save": lambda m: _saved_again(m).first.weight,
    "hook": lambda m: _hooked(m),
}


def _updated(table) -> dict:
    found: dict = {}
    found.update(table)
    return found


def _saved_again(module):
    stream = io.BytesIO()
    tsarchive.save(module, stream)
    return loaded(stream.getvalue())


def _hooked(module) -> torch.Tensor:
    seen = []
    module.first.register_forward_pre_hook(lambda own, _: seen.append(own.weight.clone()))
    module(X)
    return seen[0]


@pytest.mark.whole
@pytest.mark.parametrize("look", LOOKS)
def test_whatever_looks_finds_the_values(scripted, look):
    module = loaded_from(FewRanges(scripted), lazy=True)
    assert equal(LOOKS[look](module), LOOKS[look](loaded(scripted)))


def test_looking_at_names_fetches_nothing(data):
    ranges = FewRanges(data)
    module = loaded_from(ranges, lazy=True)
    before = ranges.traffic
    table = module.first._parameters
    assert [*table] == [*table.keys()] == ["weight", "bias"]
    assert "weight" in table
    assert "other" not in table
    assert len(table) == 2
    assert repr(module) == repr(loaded(data))
    table["weight"] = torch.nn.Parameter(torch.zeros(256, 256))
    del table["bias"]
    assert not module.first.weight.any()
    assert not hasattr(module.first, "bias")
    assert ranges.traffic == before


def test_writing_is_not_undone_by_what_is_fetched_later(scripted):
    """Ranges close to each other are fetched as one, which must not go over what is there."""
    ranges = FewRanges(scripted)
    module = loaded_from(ranges, lazy=True)
    with torch.no_grad():
        module.never.bias.zero_()
        module.never.weight.zero_()
    assert module.first.bias.any()
    assert module.last.running_var.any()
    assert module.scale.any()
    module.state_dict()
    assert not module.never.weight.any()
    assert not module.never.bias.any()


def test_ranges_that_are_there_are_not_fetched_again():
    data = bytes(range(256)) * 2048
    ranges = FewRanges(data)
    source = RangedSource(ranges)
    island = source.piece(100_000, 100_010)
    island[:] = bytes(10)
    source.prefetch([Span(60_000, 60_010), Span(140_000, 140_010)])
    assert island == bytes(10)
    asked = [place for start, stop in ranges.asked for place in range(start, stop)]
    assert len(asked) == len({*asked})


def test_a_failure_is_told_and_what_was_there_stays(data):
    local, ranges = loaded(data), FewRanges(data)
    module = loaded_from(ranges, lazy=True)
    ranges.is_down = True
    for _ in range(2):
        with pytest.raises(RemoteError, match=r"'(first\.weight|scale)'.*does not answer"):
            module(X)
        with pytest.raises(RemoteError, match=r"'never\.bias'"):
            _ = module.never.bias
    ranges.is_down = False
    assert equal(module(X), local(X))
    ranges.is_down = True
    assert equal(module(X), local(X))


def test_all_is_fetched_in_one_range_without_it(data):
    ranges = FewRanges(data)
    module = loaded_from(ranges)
    before = ranges.traffic
    assert type(module.first._parameters) is dict
    assert before.nbytes <= len(data)
    largest = max(stop - start for start, stop in ranges.asked)
    assert largest > 2 * 256 * 256 * 4
    ranges.is_down = True
    assert equal(module(X), loaded(data)(X))


def test_tensors_are_views_of_what_was_fetched(data):
    source = RangedSource(FewRanges(data))
    module = load_opened(opened_source(source), LoadOptions(None, Guard()))
    arena = torch.frombuffer(memoryview(source.data), dtype=torch.uint8)
    start, stop = arena.data_ptr(), arena.data_ptr() + arena.numel()
    assert all(start <= tensor.data_ptr() < stop for tensor in module.parameters())


def looked_at(module: torch.nn.Module) -> list[torch.Tensor]:
    """What a thread sees that takes tensors one by one, and all that there are."""
    return [module.first.weight, module.scale, *module.last.buffers(), *module.parameters()]


def test_threads_that_look_at_once(scripted):
    local, module = loaded(scripted), loaded_from(FewRanges(scripted), lazy=True)
    with ThreadPoolExecutor(8) as pool:
        found = [*pool.map(lambda _: looked_at(module), range(16))]
    assert all(equal(one, looked_at(local)) for one in found)


class Interruption:
    """Lets another thread do all of its work before one line of ``awaited`` in this thread."""

    def __init__(self, line: int, work: Callable[[], object]) -> None:
        self.lines_left = line
        self._work = work

    def __call__(self, frame: FrameType, event: str, _: object) -> Interruption | None:
        if frame.f_code.co_filename != awaited.__file__:
            return None
        if event == "line":
            if self.lines_left == 0:
                run_in_thread(self._work)
            self.lines_left -= 1
        return self

    @contextmanager
    def under_way(self) -> Iterator[None]:
        before = sys.gettrace()
        sys.settrace(self)
        try:
            yield
        finally:
            sys.settrace(before)


def run_in_thread(work: Callable[[], object]) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()


@pytest.mark.parametrize("look", [
    lambda module: module.first.weight,
    lambda module: [*module.first.parameters()],
    lambda module: module.first.state_dict(),
])  # fmt: skip
def test_another_thread_is_faster_at_any_line(scripted, look):
    expected = look(loaded(scripted))
    for line in count():
        module = loaded_from(FewRanges(scripted), lazy=True)
        interruption = Interruption(line, lambda module=module: looked_at(module))
        with interruption.under_way():
            found = look(module)
        assert equal(found, expected)
        if interruption.lines_left >= 0:
            break
    assert line > 3


def test_the_connection_is_released_with_the_last_byte():
    data = b"PK" + bytes(1 << 20)
    ranges = FewRanges(data)
    source = RangedSource(ranges)
    source.piece(0, 100)
    assert not ranges.is_closed
    source.prefetch([Span(0, len(data))])
    assert ranges.is_closed


def test_the_connection_is_released_with_the_module(scripted):
    ranges = FewRanges(scripted)
    module = loaded_from(ranges, lazy=True)
    module(X)
    assert not ranges.is_closed
    del module
    gc.collect()
    assert ranges.is_closed


class Holders(torch.nn.Module):
    """Tensors that tables of modules do not hold alone."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(200, 200))
        self.listed = [self.weight, torch.rand(200, 200)]
        self.named = {"a": torch.rand(200, 200)}
        self.pair = (torch.rand(200, 200), 1)
        self.plain = torch.rand(200, 200)
        self.own = torch.nn.Linear(200, 200)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.listed[0] + self.listed[1] + self.named["a"] + self.pair[0] + self.plain


def test_tensors_that_others_hold_are_fetched_at_once():
    data = torch_saved(torch.jit.script(Holders()))
    local, ranges = loaded(data), FewRanges(data)
    module = loaded_from(ranges, lazy=True)
    ranges.is_down = True
    for name in ("weight", "listed", "named", "pair", "plain"):
        assert equal(getattr(module, name), getattr(local, name)), name
    with pytest.raises(RemoteError):
        module.own(torch.rand(2, 200))


class Tied(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = torch.nn.Linear(200, 200)
        self.b = torch.nn.Linear(200, 200, bias=False)
        self.b.weight = self.a.weight
        self.register_buffer("part", self.a.weight.detach()[100:])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(self.a(x))


def test_shared_storages_are_fetched_once_and_stay_shared():
    data = torch_saved(torch.jit.script(Tied()))
    local, ranges = loaded(data), FewRanges(data)
    module = loaded_from(ranges, lazy=True)
    assert equal(module.b.weight, local.b.weight)
    before = ranges.traffic
    assert equal(module.part, local.part)
    assert equal(module.a.weight, local.a.weight)
    assert ranges.traffic.nbytes - before.nbytes < 200 * 200
    with torch.no_grad():
        module.a.weight.zero_()
    assert not module.b.weight.any()
    assert not module.part.any()


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("kind", ["script", "trace"])
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.filterwarnings("ignore:enable_nested_tensor", "ignore:.*in ScriptModule constants")
def test_networks_compute_the_same(name, kind, lazy):
    torch.manual_seed(0)
    module, inputs = build(name, kind)
    data = torch_saved(module)
    assert equal(loaded_from(FewRanges(data), lazy=lazy)(*inputs), loaded(data)(*inputs))


ARCHIVES = sorted(
    path
    for folder, suffix in (("archives", "pt"), ("pt2", "pt2"))
    for path in (FIXTURES / folder).glob(f"*.{suffix}")
    if not path.name.endswith(".io.pt")
)


@pytest.mark.parametrize("path", ARCHIVES, ids=lambda path: path.name)
def test_archives_have_the_same_values(path):
    data = path.read_bytes()
    with tsarchive.open(path) as archive:
        kind = archive.kind
    if kind not in MADE:
        pytest.skip(f"{kind} is not loaded lazily")
    try:
        local = loaded(data)
    except tsarchive.ArchiveError as error:
        with pytest.raises(type(error)):
            loaded_from(FewRanges(data), lazy=True)
        return
    for lazy in (False, True):
        found = loaded_from(FewRanges(data), lazy=lazy)
        assert equal(dict(found.state_dict()), dict(local.state_dict()))


@pytest.mark.filterwarnings("ignore:.*torch.ao.quantization is deprecated.*:DeprecationWarning")
def test_quantized_modules():
    torch.manual_seed(0)
    model = torch.ao.quantization.quantize_dynamic(
        torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.Linear(256, 8)).eval()
    )
    data = torch_saved(torch.jit.script(model))
    ranges = FewRanges(data)
    module = loaded_from(ranges, lazy=True)
    ranges.is_down = True  # packed weights are made when they are loaded
    assert equal(module(X), loaded(data)(X))


@pytest.mark.parametrize("lazy", [False, True])
def test_names_of_no_record_are_told_as_of_a_local_file(lazy):
    data = (FIXTURES / "hostile" / "pickle-storage-key-path.pt").read_bytes()
    with pytest.raises(PickleError, match="not the name of a record"):
        loaded_from(FewRanges(data), lazy=lazy)


def _repacked(data: bytes, **options) -> bytes:
    """The archive as zipfile writes it, which does not align records."""
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(stream, "w", **options) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    return stream.getvalue()


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_records_that_others_have_packed(scripted, method):
    data = _repacked(scripted, compression=method)
    module = loaded_from(FewRanges(data), lazy=True)
    assert equal(dict(module.state_dict()), dict(loaded(scripted).state_dict()))


def test_data_that_is_not_where_it_is_expected(scripted):
    """A local header can only be looked at once the data is fetched."""
    start = scripted.index(bytes_of(loaded(scripted).never.weight))
    header = scripted.rindex(b"PK\x03\x04", 0, start)
    forged = bytearray(scripted)
    length = int.from_bytes(forged[header + 28 : header + 30], "little")
    forged[header + 28 : header + 30] = (length - 1).to_bytes(2, "little")
    module = loaded_from(FewRanges(bytes(forged)), lazy=True)
    assert module.first.weight.any()
    with pytest.raises(FormatError, match=r"never\.(weight|bias)"):
        _ = module.never.weight


@pytest.mark.parametrize("lazy", [False, True])
def test_nothing_is_fetched_for_tensors_without_data(data, lazy):
    ranges = FewRanges(data)
    module = loaded_from(ranges, "meta", lazy=lazy)
    assert all(tensor.is_meta for tensor in module.parameters())
    assert not ranges.has_asked(bytes_of(loaded(data).never.weight))


def test_programs_of_one_model_alone_are_fetched():
    torch.manual_seed(0)
    both = {name: torch.export.export(Layers().eval(), (X,)) for name in ("one", "two")}
    stream = io.BytesIO()
    tsarchive.save(both, stream)
    ranges = FewRanges(stream.getvalue())
    module = loaded_from(ranges, model="two")
    assert equal(module(X), both["two"].module()(X))
    other = both["one"].state_dict["never.weight"]
    assert not ranges.has_asked(bytes_of(other))


def test_tracers_see_ordinary_modules(scripted):
    local = loaded(scripted)
    compiled = torch.compile(
        loaded_from(FewRanges(scripted), lazy=True), backend="eager", fullgraph=True
    )
    assert equal(compiled(X), local(X))
    exported = tsarchive.to_exported_program(loaded_from(FewRanges(scripted), lazy=True), (X,))
    assert equal(exported.module()(X), local(X))


def test_training_from_there(scripted):
    first, second = loaded(scripted), loaded_from(FewRanges(scripted), lazy=True)
    for module in (first, second):
        module.train()
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        module(X).sum().backward()
        optimizer.step()
    assert equal(dict(first.state_dict()), dict(second.state_dict()))


def test_objects_that_read_and_seek(scripted):
    file = Seekable(scripted)
    module = tsarchive.load(file, lazy=True)
    before = file.nbytes
    assert before < len(scripted) // 2
    assert equal(module(X), loaded(scripted)(X))
    assert before < file.nbytes < len(scripted)


def test_nothing_changes_on_disk(scripted, tmp_path):
    path = tmp_path / "net.pt"
    path.write_bytes(scripted)
    module = tsarchive.load(path, lazy=True)
    assert type(module.first._parameters) is dict
    assert equal(module(X), loaded(scripted)(X))


@pytest.mark.parametrize(("folder", "pattern"), [("executorch", "*.pte"), ("legacy", "*.pt")])
def test_other_formats_are_refused(folder, pattern):
    path = next(p for p in sorted((FIXTURES / folder).glob(pattern)) if ".io." not in p.name)
    with pytest.raises(CallError, match="TorchScript and PT2") as caught:
        tsarchive.load(path, lazy=True)
    assert "lazy" in (caught.value.hint or "")


@pytest.mark.parametrize(("folder", "pattern"), [("executorch", "*.pte"), ("legacy", "*.pt")])
def test_other_formats_are_fetched_whole(folder, pattern):
    path = next(p for p in sorted((FIXTURES / folder).glob(pattern)) if ".io." not in p.name)
    ranges = CountedRanges(path.read_bytes())
    found = loaded_from(ranges)
    assert equal(dict(found.state_dict()), dict(tsarchive.load(path).state_dict()))


def test_a_file_that_changes_on_its_server(scripted):
    """Bytes of two versions are never mixed; what is there stays usable."""
    pytest.importorskip("aiohttp")
    local = loaded(scripted)
    with web_server({"/net.pt": scripted}) as server:
        module = tsarchive.load(f"{server.url}/net.pt", lazy=True)
        assert equal(module(X), local(X))
        server.files["/net.pt"] = scripted.replace(b"first", b"other")
        with pytest.raises(RemoteError, match=r"'never\.weight'.*net\.pt"):
            _ = module.never.weight
        assert equal(module(X), local(X))
        server.files["/net.pt"] = scripted
        assert equal(module.never.weight, local.never.weight)
