"""Every fixture, taken over from torch without an archive between, runs as torch runs it."""

from __future__ import annotations

import torch

from tests.support.running import check_same, our_module, ours


def test_live_graphs(case):
    module = case.build()
    if isinstance(module, torch.jit.ScriptFunction):
        calls = [("forward", case.inputs), ("forward", case.failing)]
        mine = ours(module)
    else:
        calls = [("forward", case.inputs), *case.methods.items(), ("forward", case.failing)]
        mine = our_module(case.build())
    for name, inputs in calls:
        theirs = module if name == "forward" else getattr(module, name)
        run = mine if name == "forward" else getattr(mine, name)
        for arguments in inputs:
            check_same(theirs, run, *arguments)
