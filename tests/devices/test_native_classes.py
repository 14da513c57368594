"""Code records of classes that libraries bind, which hold no code that runs."""

from __future__ import annotations

from tsarchive.analyses.devices import Devices
from tsarchive.analyses.program import Program
from tsarchive.ir.types import TENSOR

RECORD = "code/__torch__/torch/classes/profiler.py"
TEXT = b'class _RecordFunction:\n  capsule : Capsule  # torch.device("cuda")\n'


def test_a_record_of_a_bound_class_names_no_device():
    found = Devices(Program({RECORD: TEXT}, lambda index: (None, TENSOR), 10))
    found.look_into(RECORD)
    assert not found.named
