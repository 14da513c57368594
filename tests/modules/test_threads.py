"""Loading and calling from several threads at once."""

from __future__ import annotations

import copy
import pickle
import sys
import threading
from collections.abc import Callable

import pytest
import torch

import tsarchive
from tests.support.archives import loaded, torch_saved
from tests.support.comparing import equal

THREADS = 8


class Block(torch.nn.Module):
    def __init__(self, size: int):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(size, size) for _ in range(3)])

    def forward(self, x: torch.Tensor, keep: list[torch.Tensor]) -> torch.Tensor:
        for layer in self.layers:
            x = torch.relu(layer(x))
            keep.append(x)
        return x


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList([Block(4) for _ in range(3)])

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, int]:
        keep: list[torch.Tensor] = []
        for block in self.blocks:
            x = block(x, keep)
        return x, len(keep)


X = torch.arange(8.0).reshape(2, 4) / 5


@pytest.fixture(scope="module")
def data() -> bytes:
    torch.manual_seed(0)
    return torch_saved(torch.jit.script(Net()))


@pytest.fixture(autouse=True)
def switching_often():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def together(work: Callable[[int], object]) -> list[object]:
    """The results of ``work`` in threads that start at once; the first error is raised."""
    start = threading.Barrier(THREADS)
    results: list[object] = [None] * THREADS
    errors: list[Exception] = []

    def run(number: int) -> None:
        start.wait()
        try:
            results[number] = work(number)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


def test_first_calls_of_one_module(data):
    expected = loaded(data)(X)
    for _ in range(5):
        module = loaded(data)
        assert all(equal(result, expected) for result in together(lambda _, m=module: m(X)))


def test_loading_one_file(data, tmp_path):
    path = tmp_path / "net.pt"
    path.write_bytes(data)
    expected = loaded(data)(X)
    assert all(equal(result, expected) for result in together(lambda _: tsarchive.load(path)(X)))


def test_classes_are_made_once(data):
    module = loaded(data)
    copies = together(lambda _: pickle.loads(pickle.dumps(module)))
    assert {type(each) for each in copies} == {type(module)}
    assert len(set(together(lambda _: type(module).forward))) == 1


def test_calls_with_hooks_stay_apart(data):
    """A hook of one thread's module does not change what another thread's call gives."""
    modules = [copy.deepcopy(loaded(data)) for _ in range(THREADS)]
    shared = loaded(data)
    expected = shared(X)[0]
    seen: list[int] = []
    shared.blocks[1].register_forward_hook(lambda *_: seen.append(threading.get_ident()))
    for number, module in enumerate(modules):
        module.blocks[2].register_forward_hook(lambda m, a, r, number=number: r * number)

    def work(number: int) -> bool:
        own = [equal(modules[number](X)[0], expected * number) for _ in range(10)]
        return all(own) and all(equal(shared(X)[0], expected) for _ in range(10))

    assert all(together(work))
    assert len(seen) == THREADS * 10


def test_hooks_that_call_the_module_again(data):
    module = loaded(data)
    depth = threading.local()

    def again(inner, arguments, result):
        if not getattr(depth, "inside", False):
            depth.inside = True
            inner(arguments[0], [])
            depth.inside = False
        return result

    expected = module(X)
    module.blocks[0].register_forward_hook(again)
    assert all(equal(result, expected) for result in together(lambda _: module(X)))


def test_gradients_in_threads(data):
    expected = loaded(data)
    expected(X)[0].sum().backward()

    def work(_: int) -> list[torch.Tensor]:
        module = copy.deepcopy(loaded(data))
        module(X)[0].sum().backward()
        return [parameter.grad for parameter in module.parameters()]

    gradients = [parameter.grad for parameter in expected.parameters()]
    assert all(equal(result, gradients) for result in together(work))
