"""Copies and pickles of loaded modules, in this process and in others."""

from __future__ import annotations

import copy
import enum
import gc
import io
import multiprocessing
import pickle
import weakref
from typing import NamedTuple

import pytest
import torch

import tsarchive
from fixtures.modules import all_cases
from tests.support.archives import FIXTURES, case_archive, loaded, saved, torch_saved
from tests.support.both_engines import called, same
from tests.support.comparing import equal
from tests.support.processes import torch_process
from tests.support.suite import sampled
from tsarchive.run.conversion import TypedDict, TypedList

# torchbind objects of a recurrent cell share a bias, which each copies for itself.
NOT_TO_THE_BYTE = {"quantized_cell"}
# Pickled alone, each tensor takes its storage along; torch.save keeps what they share.
SHARING_STORAGES = {"views", "one_storage_two_modules"}
# torch cannot pickle tensors of these types, other than by torch.save.
UNPICKLED = ("tensor_float8", "tensor_uint16", "tensor_uint32", "tensor_uint64")


def by_torch_save(module):
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def by_pickle(module):
    return pickle.loads(pickle.dumps(module))


def check_equal(module, other, case):
    assert type(other) is type(module)
    if case.name not in NOT_TO_THE_BYTE:
        assert saved(other) == saved(module)
    for arguments in case.inputs:
        assert same(called(module, arguments), called(other, arguments))


@pytest.mark.parametrize("copied", [copy.deepcopy, by_torch_save])
def test_copies_of_fixture_modules_save_to_the_same_bytes(case, copied):
    module = loaded(case_archive(case))
    check_equal(module, copied(module), case)


def can_be_pickled(case) -> bool:
    return case.name not in SHARING_STORAGES and not case.name.startswith(UNPICKLED)


def test_pickles_of_fixture_modules():
    for case in sampled(list(filter(can_be_pickled, all_cases()))):
        module = loaded(case_archive(case))
        check_equal(module, by_pickle(module), case)


READER = """
import pickle, sys, torch
torch.set_num_threads(1)
with open(sys.argv[1], "rb") as file:
    calls = pickle.load(file)
results = []
for module, arguments in map(pickle.loads, calls):
    torch.manual_seed(1)
    results.append(pickle.dumps(module(*arguments)))
with open(sys.argv[1], "wb") as file:
    pickle.dump(results, file)
"""


@pytest.mark.long("test_pickles_of_fixture_modules")
def test_pickles_are_read_by_another_process(tmp_path):
    """The file goes with modules and arguments, and comes back with results."""
    modules, calls = [], []
    for case in list(filter(can_be_pickled, all_cases()))[::3]:
        if not case.inputs or case.construct.startswith("printing"):
            continue
        module = loaded(case_archive(case))
        try:
            calls.append(pickle.dumps((module, case.inputs[0])))
        except (pickle.PicklingError, TypeError, AttributeError):
            continue  # arguments that no pickle holds
        modules.append((case, module))
    path = tmp_path / "calls.pkl"
    path.write_bytes(pickle.dumps(calls))
    done = torch_process("-c", READER, path, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    results = pickle.loads(path.read_bytes())
    assert len(results) == len(modules) > 80
    for (case, module), result in zip(modules, results, strict=True):
        assert same(called(module, case.inputs[0]), pickle.loads(result)), case.name


pytestmark = pytest.mark.filterwarnings("ignore:TypedStorage is deprecated:UserWarning")


class Pair(NamedTuple):
    first: torch.Tensor
    second: int


class Color(enum.Enum):
    RED = 1
    GREEN = 2


@torch.jit.script
class Counter:
    def __init__(self, start: int):
        self.value = start
        self.weights = torch.ones(2)

    def count(self) -> int:
        self.value += 1
        return self.value


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(2, 2)
        self.color = Color.RED
        self.counter = Counter(3)
        self.items = [self.inner.weight]
        self.words = {"a": 1}

    def forward(self, x: torch.Tensor) -> Pair:
        self.words["b"] = 2
        return Pair(self.inner(x), self.counter.count())

    @torch.jit.export
    def made(self, start: int) -> Counter:
        return Counter(start)

    @torch.jit.export
    def chosen(self) -> Color:
        return self.color


X = torch.ones(1, 2)
WAYS = {"deepcopy": copy.deepcopy, "pickle": by_pickle, "torch.save": by_torch_save}
each_way = pytest.mark.parametrize("copied", WAYS.values(), ids=WAYS)


@pytest.fixture
def module():
    torch.manual_seed(0)
    return loaded(torch_saved(torch.jit.script(Net())))


@each_way
def test_parts_of_a_module(module, copied):
    """Objects of script classes, members of enums, named tuples, submodules."""
    counter = copied(module.made(5))
    assert type(counter) is type(module.made(5))
    assert counter.count() == 6
    assert copied(module.chosen()) is module.chosen()
    pair = copied(pair_of(module))
    assert type(pair) is type(pair_of(module))
    assert pair.second > 3
    inner = copied(module.inner)
    assert equal(inner(X), module.inner(X))


def pair_of(module):
    with torch.no_grad():
        return module(X)


def double(module, arguments, result):
    return result * 2


@each_way
def test_what_was_changed_survives(module, copied):
    module.eval()
    module.inner.register_forward_hook(double)
    module.inner.bias.requires_grad_(False)
    module.inner.weight.data *= 3
    module.words = {"c": 4}
    module.extra = "of Python"
    other = copied(module)
    assert equal(other(X)[0], module(X)[0])
    assert not other.training
    assert not other.inner.bias.requires_grad
    assert other.inner.weight.requires_grad
    assert (other.words, other.extra) == ({"c": 4, "b": 2}, "of Python")
    assert other.items[0] is other.inner.weight is not module.inner.weight
    assert other.counter is not module.counter


@each_way
def test_replaced_children_are_copied_too(module, copied):
    module.inner = torch.nn.Linear(2, 2)
    other = copied(module)
    assert type(other.inner) is torch.nn.Linear
    assert equal(other(X)[0], module(X)[0])


def test_a_shallow_copy_shares_its_tables(module):
    other = copy.copy(module)
    assert type(other) is type(module)
    assert other.inner is module.inner
    other.color = module.chosen()
    assert equal(other(X)[0], module(X)[0])


def test_deep_copies_keep_types_of_empty_containers():
    for empty in (TypedList("List[int]"), TypedDict("Dict[str, int]")):
        holder = [empty, empty]
        one, two = copy.deepcopy(holder)
        assert one is two is not empty
        assert (type(one), one.type) == (type(empty), empty.type)
        assert type(by_pickle(empty)) in (list, dict)


def test_a_lambda_as_a_hook_cannot_be_pickled(module):
    module.inner.register_forward_hook(lambda *_: None)
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(module)
    copy.deepcopy(module)


def test_pickles_with_earlier_names_of_modules_are_read(module):
    text = pickle.dumps(module, protocol=2)
    for now, before in (
        (b"ctsarchive.loading\nclasses_of_pickle\n", b"ctsarchive.reviving\n_revived\n"),
        (b"ctsarchive.policy\nGuard\n", b"ctsarchive.policy.guard\nGuard\n"),
        (b"ctsarchive.policy\nLimits\n", b"ctsarchive.policy.limits\nLimits\n"),
    ):
        assert now in text
        text = text.replace(now, before)
    assert type(pickle.loads(text)) is type(module)


def test_a_module_that_was_not_loaded_cannot_be_pickled():
    from tests.support.running import our_module

    made = our_module(torch.jit.script(torch.nn.Linear(2, 2)))
    assert equal(copy.deepcopy(made)(X), made(X))
    with pytest.raises(tsarchive.SaveError, match="not loaded from an archive"):
        pickle.dumps(made)


def test_classes_end_with_their_modules():
    module = loaded(torch_saved(torch.jit.script(torch.nn.Linear(2, 2))))
    pickle.dumps(module)
    class_ = weakref.ref(type(module))
    del module
    gc.collect()
    assert class_() is None


def test_a_pickle_outlives_the_classes_it_was_made_of():
    module = loaded(torch_saved(torch.jit.script(Net())))
    expected, pickled, archive = module(X), pickle.dumps(module), saved(module)
    del module
    gc.collect()
    again = pickle.loads(pickled)
    assert equal(expected.first, again(X).first)
    assert saved(pickle.loads(pickle.dumps(again)))[:4] == archive[:4]


@pytest.mark.long("test_pickles_of_fixture_modules")
def test_a_pickle_keeps_the_whole_archive_but_its_tensors(tmp_path):
    """Code, debug records, extra files: what is saved from a copy is what was read."""
    data = io.BytesIO()
    tsarchive.save(torch.jit.script(Net()), data, extra_files={"note.txt": "text"})
    module = loaded(data.getvalue())
    archive, pickled = saved(module), pickle.dumps(module)
    path = tmp_path / "module.pkl"
    path.write_bytes(pickled)
    target = tmp_path / "again.pt"
    program = (
        "import pickle, sys, tsarchive\n"
        "tsarchive.save(pickle.load(open(sys.argv[1], 'rb')), open(sys.argv[2], 'wb'))"
    )
    done = torch_process("-W", "ignore", "-c", program, path, target, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert target.read_bytes() == archive


def test_legacy_archives_can_be_pickled():
    paths = sorted((FIXTURES / "legacy").glob("*.pt"))
    archives = [path for path in paths if not path.match("*.io.pt")]
    assert archives
    for path in archives[::4]:
        module = tsarchive.load(path)
        assert equal(dict(by_pickle(module).state_dict()), dict(module.state_dict()))


def run_in_worker(work):
    module, x = work
    with torch.no_grad():
        return module(x)


@pytest.mark.long("test_pickles_of_fixture_modules")
@pytest.mark.parametrize("method", ["spawn", "fork"])
@pytest.mark.parametrize("library", [multiprocessing, torch.multiprocessing])
def test_worker_processes(module, library, method):
    """Modules go to workers, and named tuples come back as those of this process."""
    expected = pair_of(copy.deepcopy(module))
    with library.get_context(method).Pool(1) as pool:
        # A worker that cannot unpickle its work dies, and the pool would wait for ever.
        results = pool.map_async(run_in_worker, [(module, X)] * 2).get(timeout=120)
    for result in results:
        assert type(result) is type(expected)
        assert equal(result.first, expected.first)
        assert result.second >= expected.second


class Rows(torch.utils.data.Dataset):
    def __init__(self, module):
        self.module = module

    def __len__(self):
        return 4

    def __getitem__(self, index):
        with torch.no_grad():
            return self.module.inner(X[0] * index)


@pytest.mark.long("test_pickles_of_fixture_modules")
@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_data_loader_workers(module, method):
    rows = Rows(module)
    loader = torch.utils.data.DataLoader(rows, 2, num_workers=1, multiprocessing_context=method)
    assert equal(torch.cat(list(loader)), torch.stack([rows[i] for i in range(4)]))
