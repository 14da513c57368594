"""Code records of classes that libraries bind, which hold no code that runs."""

from __future__ import annotations

from tsarchive.formats.torchscript.devices import Devices

RECORD = "code/__torch__/torch/classes/profiler.py"
TEXT = b'class _RecordFunction:\n  capsule : Capsule  # torch.device("cuda")\n'


def test_a_record_of_a_bound_class_names_no_device():
    found = Devices({RECORD: TEXT})
    found.look_into(RECORD)
    assert not found.named
