"""The hash table model and the serialization id, against libstdc++ and torch."""

from __future__ import annotations

import ctypes
import io
import random
import string

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tsarchive.container import Container, unordered_map_order
from tsarchive.container.names import fold_name
from tsarchive.container.serialization_id import (
    RECORD_NAME,
    SerializationId,
    bucket_count,
    combine,
    iteration_order,
    string_hash,
)


@pytest.fixture(scope="module")
def libstdcxx():
    try:
        return ctypes.CDLL("libstdc++.so.6")
    except OSError:
        pytest.skip("libstdc++ is not on this machine")


def test_string_hash_is_that_of_libstdcxx(libstdcxx):
    hash_bytes = libstdcxx._ZSt11_Hash_bytesPKvmm
    hash_bytes.restype = ctypes.c_size_t
    hash_bytes.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_size_t]
    source = random.Random(1)
    for size in [*range(70), 255, 4096]:
        data = source.randbytes(size)
        assert string_hash(data) == hash_bytes(data, size, 0xC70F6907), data


class RehashPolicy(ctypes.Structure):
    _fields_ = [("max_load_factor", ctypes.c_float), ("next_resize", ctypes.c_size_t)]


def test_bucket_counts_are_those_of_libstdcxx(libstdcxx):
    next_count = libstdcxx._ZNKSt8__detail20_Prime_rehash_policy11_M_next_bktEm
    next_count.restype = ctypes.c_size_t
    next_count.argtypes = [ctypes.POINTER(RehashPolicy), ctypes.c_size_t]
    policy = RehashPolicy(1.0, 0)
    wanted = 0
    while wanted < 2**32 - 5:
        count = next_count(policy, wanted)
        assert bucket_count(wanted) == count
        wanted = wanted + 1 if wanted < 20_000 else count + 1


class Plain(torch.nn.Module):
    def forward(self, x):
        return x


def extra_order(module, names):
    target = io.BytesIO()
    torch.jit.save(module, target, _extra_files=dict.fromkeys(names, "x"))
    target.seek(0)
    with Container.open(target) as container:
        prefix = "extra/"
        return [name[len(prefix) :] for name in container.records if name.startswith(prefix)]


def random_names(source, count):
    letters = string.ascii_letters + string.digits + "_./- é日"
    # "/" and "." may not make a name that leads out of its folder.
    names = {"n" + "".join(source.choices(letters, k=source.randrange(40))) for _ in range(count)}
    safe = [name.replace("..", "x").rstrip("/.") for name in sorted(names)]
    # Nor may two names differ only in what some readers pass over.
    return list({fold_name(name): name for name in safe}.values())


def test_extra_files_are_in_the_order_of_torch():
    module = torch.jit.script(Plain())
    source = random.Random(2)
    for count in [*range(1, 45), 97, 128, 200, 300, 1000]:
        names = list(dict.fromkeys(random_names(source, count)))
        source.shuffle(names)
        assert extra_order(module, names) == unordered_map_order(names, len(names)), names


def test_a_repeated_key_counts_once():
    assert unordered_map_order(["b", "a", "b"], 0) == unordered_map_order(["b", "a"], 0)
    assert unordered_map_order([], 0) == []


def test_a_key_that_is_no_text_is_left_to_the_writer():
    assert sorted(unordered_map_order(["\ud800", "a"], 2)) == ["a", "\ud800"]


def walked_by_hand(hashes, reserve):
    """The same order from one plain list, searched for the place of each element."""
    order, count, room = (
        [],
        bucket_count(reserve) if reserve else 1,
        reserve and bucket_count(reserve),
    )

    def insert(index):
        in_bucket = [other % count == hashes[index] % count for other in map(hashes.get, order)]
        order.insert(in_bucket.index(True) if True in in_bucket else 0, index)

    for index in hashes:
        if len(order) + 1 > room:
            wanted = max(len(order) + 1, 11 if room == 0 else 0)
            if wanted >= count:
                count = bucket_count(max(wanted + 1, 2 * count))
                nodes, order = order, []
                for node in nodes:
                    insert(node)
            room = count
        insert(index)
    return order


@given(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 30)), st.integers(0, 100))
def test_iteration_order_is_that_of_a_linked_list(hashes, reserve):
    assert iteration_order(hashes, reserve) == walked_by_hand(dict(enumerate(hashes)), reserve)


def torch_records(names):
    target = io.BytesIO()
    writer = torch._C.PyTorchFileWriter(target)
    for index, name in enumerate(names):
        data = f"{name} {index}".encode() if index % 7 else b""
        writer.write_record(name, data, len(data))
    writer.write_end_of_file()
    return target.getvalue(), writer.serialization_id()


def check_id(names):
    data, expected = torch_records(names)
    with Container.open(io.BytesIO(data)) as container:
        fingerprint = SerializationId()
        for name, record in container.records.items():
            if name != RECORD_NAME:
                fingerprint.add(name, record.method, record.crc, container.payload(name))
        assert container.read(RECORD_NAME).decode() == expected
    assert fingerprint.digits() == expected


@pytest.mark.parametrize("count", [*range(1, 301, 13), 300, 1500])
def test_ids_of_many_records(count):
    check_id([f"data/{index}" for index in range(count)])


def test_ids_of_all_small_counts():
    for count in range(1, 120):
        check_id([f"code/__torch__/m{index}.py" for index in range(count)])


def test_ids_of_odd_names():
    check_id(list(dict.fromkeys(random_names(random.Random(3), 200))))


@pytest.mark.parametrize("data", [b"PK\x07\x08abcd", b"PK\x07\x08abc", b"PK\x07\x08\0\0\0\0" * 9])
def test_data_that_looks_like_a_descriptor_counts_as_one(data):
    target = io.BytesIO()
    writer = torch._C.PyTorchFileWriter(target)
    writer.write_record("a", data, len(data))
    writer.write_end_of_file()
    target.seek(0)
    with Container.open(target) as container:
        fingerprint = SerializationId()
        for name, record in container.records.items():
            if name != RECORD_NAME:
                fingerprint.add(name, record.method, record.crc, container.payload(name))
    assert fingerprint.digits() == writer.serialization_id()


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_combine_stays_within_64_bits_and_undoes_itself(seed, value):
    mixed = combine(seed, value)
    assert 0 <= mixed < 2**64
    shifted = 0x9E3779B9 + (seed << 6) + (seed >> 2)
    assert ((mixed ^ seed) - shifted) % 2**64 == value
