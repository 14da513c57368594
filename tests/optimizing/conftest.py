"""Choices that the clock would make are made here: no test depends on it."""

from __future__ import annotations

import pytest
import torch

from tsarchive import optimizing
from tsarchive.optimizing import packing


@pytest.fixture(autouse=True)
def one_thread():
    """Several threads wait for each other, long where processors are busy."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def always_quicker(monkeypatch):
    """Let oneDNN compute all that it can."""
    monkeypatch.setattr(packing, "times_of", lambda *_: [1.0, 0.5])


@pytest.fixture(autouse=True)
def no_way_pays(monkeypatch):
    monkeypatch.setattr(optimizing, "_pays", lambda *_: False)


@pytest.fixture
def each_way_pays(monkeypatch, no_way_pays):
    """Take every way that gives the same."""
    monkeypatch.setattr(optimizing, "_pays", lambda *_: True)


@pytest.fixture
def never_quicker(monkeypatch):
    monkeypatch.setattr(packing, "times_of", lambda *_: [1.0, 1.0])
