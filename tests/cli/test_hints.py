"""Hints of the library, as commands give them: in options, not in Python."""

from __future__ import annotations

import pytest

from tsarchive import Policy
from tsarchive.describing.hints import in_commands
from tsarchive.frontend.libraries import what_registers

NMS = Policy.default().allow("torchvision::nms")


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        (f"Do that: policy={NMS!r}", "Do that: --allow torchvision::nms"),
        (f"policy={NMS.allow('a::*')!r}", "--allow 'a::*' --allow torchvision::nms"),
        (what_registers("torchvision::nms"), "It comes with a library: give --import torchvision"),
        ("Say which one: model='a b'", "Say which one: --model 'a b'"),
        ("Load with map_location='cpu'", "Load with --map-location 'cpu'"),
        ("Write into it with force=True", "Write into it with --force"),
        ("Limits(seconds=...) sets the budget", "--max-seconds sets the budget"),
        ("Pack the archive again", "Pack the archive again"),
    ],
)
def test_words(hint, words):
    assert in_commands(hint) == words


@pytest.mark.parametrize("name", ["mine::twice", "__backends__::run", "torchvision::nms"])
def test_libraries_are_given_as_an_option(name):
    shown = in_commands(what_registers(name))
    assert "--import" in shown
    assert "torch.ops" not in shown
