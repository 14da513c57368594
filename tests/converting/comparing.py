"""Archives that were converted, called and compared."""

from __future__ import annotations

import copy
from collections.abc import Mapping

import torch

import tsarchive
from tests.converting.rows import Module
from tests.support.comparing import equal
from tsarchive import Policy


def plain(value):
    """With the containers that TorchScript has."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    return [*map(plain, value)] if hasattr(value, "append") else value


def close(one, two):
    """Equal types and structures; tensors up to rounding, with equal strides."""
    if isinstance(two, torch.Tensor):
        torch.testing.assert_close(one, two, equal_nan=True, rtol=1e-5, atol=1e-6)
        return one.stride() == two.stride()
    if isinstance(two, dict):
        return one.keys() == two.keys() and all(close(one[key], two[key]) for key in two)
    if isinstance(two, list | tuple):
        return type(one) is type(two) and len(one) == len(two) and all(map(close, one, two))
    return equal(one, two)


def called(module, args, kwargs):
    """What a module gives, and what its arguments are then."""
    given = copy.deepcopy((args, kwargs))
    torch.manual_seed(1)
    found = plain(module(*given[0], **given[1]))
    return found, plain(given)


def assert_same_calls(modules, expected, calls):
    """Calls in their order: each may change the state of a module."""
    for args, kwargs in calls:
        wanted = called(expected, args, kwargs)
        for module in modules:
            assert close(called(module, args, kwargs), wanted)


def names(module, kind):
    return {name for name, _ in getattr(module, kind)(remove_duplicate=False)}


def written(program, path):
    """The program in the two archives: its own, and what it is converted to."""
    torch.export.save(program, path)
    tsarchive.convert(path, path.with_suffix(".pt"))
    return path.with_suffix(".pt")


def scripts(path):
    """A TorchScript archive as torch loads it, and as we do."""
    return torch.jit.load(path), tsarchive.load(path, policy=Policy.trusted())


def assert_no_jitter(path):
    report = tsarchive.check_jitter(path)
    assert report.stable
    assert report.as_read.same_file
    assert report.graph.code == report.graph.records == report.graph.unprinted == ()


class Flags(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(2, 2)

    def forward(self, x):
        return self.linear(x).relu()


def by(call):
    class Network(Module):
        forward = call

    return Network()


def texts(done):
    """Return the notes of a conversion in words."""
    return tuple(note.text for note in done.notes)
