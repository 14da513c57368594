"""The checklist for pickles, row by row: what is taken and what is refused, up to the boundary.

``read`` rows are about the machine that reads opcodes, the others about an archive that is
opened for looking and loaded.
"""

from __future__ import annotations

import contextlib
import io
import random
import subprocess
import sys
import warnings
from functools import cache

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import tsarchive
from tests.support.archives import ARCHIVES, records_of
from tsarchive.container import NewRecord, write_container
from tsarchive.errors import PickleError
from tsarchive.formats.torchscript.debug_records import MAX_TEXT, read_any_debug_record
from tsarchive.formats.torchscript.inspection import MAX_DEPTH, MAX_LETTERS
from tsarchive.pickler import Global, Limits, Object, Reduce, dumps, loads
from tsarchive.pickler import opcodes as op
from tsarchive.testing.mutated_records import mutate_pickle

HEADER = b"\x80\x02"
ORDERED_DICT = Global("collections", "OrderedDict")
INT_LIST = Global("torch.jit._pickle", "build_intlist")
TAG = Global("torch.jit._pickle", "restore_type_tag")
CODE = """class Root(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
  held : {type}
  def forward(self: __torch__.Root) -> int:
    return 1
"""


def read(body, **limits):
    return loads(HEADER + body + b".", limits=Limits(**limits))


def refuses(body, match, **limits):
    with pytest.raises(PickleError, match=match):
        read(body, **limits)


def text(content):
    return b"X" + len(content).to_bytes(4, "little") + content


def packed(records):
    buffer = io.BytesIO()
    write_container(buffer, [NewRecord(name, content) for name, content in records.items()])
    buffer.seek(0)
    return buffer


def archive(held, type_="Any", constants=b"\x80\x02).", **records):
    """An archive whose root holds ``held``: a pickle value, or the opcodes of one."""
    root = Object(Global("__torch__", "Root"), {"training": True, "held": "HELD"})
    pickled = dumps(root)
    opcodes = held if isinstance(held, bytes) else dumps([held])[3:-2]
    if not isinstance(held, bytes):
        root.state["held"] = held
        pickled = dumps(root)
    else:
        start = pickled.index(text(b"HELD"))
        pickled = pickled[:start] + opcodes + pickled[start + 11 :]
    return packed(
        {
            "data.pkl": pickled,
            "code/__torch__.py": CODE.replace("{type}", type_).encode(),
            "constants.pkl": constants,
            "version": b"3\n",
            **records,
        }
    )


def both(made, match=None):
    """Look at an archive and load it. With ``match``, loading is refused by an error of ours."""
    with tsarchive.open(made) as opened, contextlib.suppress(tsarchive.ArchiveError):
        dict(opened.tensors)
        opened.tree()
    made.seek(0)
    if match is None:
        return tsarchive.load(made)
    with pytest.raises(tsarchive.ArchiveError, match=match):
        tsarchive.load(made)
    return None


# Opcode table, framing


def test_opcode_allowlist():
    for code in set(range(256)) - set(op.BY_CODE):
        refuses(bytes((code,)), "opcode")
    for opcode in op.READ:
        with contextlib.suppress(PickleError):
            read(opcode.byte)


def test_every_opcode_of_python_that_is_not_in_the_table_is_named():
    import pickletools

    foreign = {ord(o.code) for o in pickletools.opcodes} - set(op.BY_CODE)
    assert foreign == set(op.FOREIGN)


def test_trailing_bytes_after_stop():
    assert loads(HEADER + b"N.") is None
    with pytest.raises(PickleError, match="bytes follow the end"):
        loads(HEADER + b"N.\0")


@pytest.mark.parametrize("start", [b"", b"\x80", b"\x80\x01", b"\x80\x03", b"\x80\x05", b"("])
def test_missing_proto_or_another_protocol(start):
    with pytest.raises(PickleError, match=r"PROTO|protocol"):
        loads(start + b"N.")


# Stack and memo


@pytest.mark.parametrize(
    ("sound", "short"),
    [(b"N\x85", b"\x85"), (b"]Na", b"Na"), (b"(t", b"t"), (b"](Ne", b"]Ne"), (b"ca\nb\n)R", b")R")],
)
def test_stack_underflow_and_missing_mark(sound, short):
    read(sound)
    refuses(short, r"too few values|without a MARK")


def test_memo_get_before_put():
    assert read(b"]q\x00h\x00\x86")[0] == []
    refuses(b"h\x00", "before it is set")


def test_memo_index_sparse_and_huge():
    assert read(b"Nr\xff\xff\xff\xffj\xff\xff\xff\xff\x86") == (None, None)
    puts = b"N" + b"".join(b"q%c" % index for index in range(3))
    read(puts, max_memo=3)
    refuses(puts, "too many memos", max_memo=2)


def test_memo_overwrite():
    refuses(b"Nq\x00q\x00", "set twice")


# Lengths


@pytest.mark.parametrize(("opcode", "width", "said"), [(b"X", 4, "string"), (b"\x8d", 8, "string")])
def test_length_fields_are_checked_before_reading(opcode, width, said):
    assert read(opcode + (3).to_bytes(width, "little") + b"abc") == "abc"
    for length in (5, (1 << 8 * width) - 1):
        refuses(opcode + length.to_bytes(width, "little") + b"abc", said)


def test_long1_size_cap():
    assert read(b"\x8a\x08" + b"\xff" * 8) == -1
    for length in (0, 7, 9, 255):
        refuses(b"\x8a%c" % length + b"\1" * length, "LONG1")


def test_size_of_a_record():
    read(b"N", max_bytes=4)
    refuses(b"N", "too large", max_bytes=3)


# Depth, counts, aliasing


def nested(depth):
    """Lists in lists, of which a module holds the outermost; the root is one level itself."""
    value = 1
    for _ in range(depth - 1):
        value = Reduce(TAG, ([value], "List[Any]"))
    return value


def test_nested_depth_cap():
    both(archive(nested(MAX_DEPTH)))
    both(archive(nested(MAX_DEPTH + 1)), "nested too deeply")


OPENINGS = {
    "lists": (b"]", b"a"),
    "tuples": (b"", b"\x85"),
    "dicts": (b"}N", b"s"),
    "storages": (b"", b"\x85Q"),
    "tags": (b"ctorch.jit._pickle\nrestore_type_tag\n]", b"a" + text(b"List[Any]") + b"\x86R"),
    "parameters": (b"ctorch._utils\n_rebuild_parameter\n", b"\x88N\x87R"),
    "sparse": (
        b"ctorch._utils\n_rebuild_sparse_tensor\n(K\x01(t\x89",
        b"Nccollections\nOrderedDict\n)RtR",
    ),
    "sparse values": (
        b"ctorch._utils\n_rebuild_sparse_tensor\n(K\x01(t\x89N",
        b"ccollections\nOrderedDict\n)RtR",
    ),
    "scales": (
        b"ctorch._utils\n_rebuild_qtensor\n((X\7\0\0\0storagectorch\nQInt8Storage\n"
        b"X\1\0\0\x000X\3\0\0\0cpuK\x01tQK\x00K\x01\x85K\x01\x85"
        b"(ctorch\nper_channel_affine\n",
        b"NK\x00t\x89NtR",
    ),
    "subclasses": (
        b"ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n_rebuild_parameter\nca\nb\n",
        b"\x85NtR",
    ),
    "objects": (b"c__torch__\nRoot\n)\x81}(" + text(b"training") + b"\x88" + text(b"held"), b"ub"),
    "enums": (b"c__torch__\nColor\n", b"R"),
}  # fmt: skip


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", OPENINGS)
@pytest.mark.parametrize("depth", [150, 5_000])
def test_no_recursion_without_bound(kind, depth):
    opening, closing = OPENINGS[kind]
    made = archive(opening * depth + b"N" + closing * depth)
    with contextlib.suppress(tsarchive.ArchiveError):
        both(made)
    made.seek(0)
    if depth > MAX_DEPTH:
        both(made, ".")


@pytest.mark.parametrize("record", ["attributes.pkl", "constants.pkl"])
def test_keys_of_dicts_are_not_shown_by_walking_them(record):
    key = b"N" + b"\x85Q" * 5_000
    value = b"}" + key + b"Ns"
    both(archive(value), ".")
    pickled = HEADER + value + b"."
    assert isinstance(loads(pickled), dict)


def test_total_object_and_container_edge_caps():
    read(b"](NNNe", max_items=3, max_values=2)
    refuses(b"](NNNe", "too many items", max_items=2)
    refuses(b"](NNNe", "too many values", max_values=1)


def laughs(levels):
    """A list of two references to a list of two references ...: two to the ``levels`` paths."""
    opcodes = [b"]q\x64"]
    opcodes += [b"](h%ch%ceq%c" % (100 + n, 100 + n, 101 + n) for n in range(levels)]
    return b"(" + b"".join(opcodes) + b"l"


def test_billion_laughs_by_memo_aliasing():
    assert len(read(laughs(15))) == 16
    refuses(laughs(100), "referred to too often")
    both(archive(laughs(100)), "referred to too often")


@pytest.mark.parametrize("type_", ["Any", "List[Any]", "List[List[Any]]"])
def test_what_is_built_of_shared_values_is_shared(type_):
    module = both(archive(laughs(15), type_))
    last = module.held[-1]
    assert last[0] is last[1]


def test_long_names_of_many_tensors():
    """A key of a megabyte before many short entries would make names of a terabyte."""
    key = b"k" * 1_000_000
    made = archive(b"}" + text(key) + b"](" + b"]" * 1_000 + b"es", "Any")
    with tsarchive.open(made) as opened, pytest.raises(PickleError, match="too many") as caught:
        dict(opened.tensors)
    assert caught.value.limit == MAX_LETTERS


def test_texts_of_debug_records():
    lines = 70
    row = (0, ((Reduce(INT_LIST, ([0] * lines,)), 0, 1), 0, 1), 0)
    form = "FORMAT_WITH_STRING_TABLE"
    fits = "x" * (MAX_TEXT // (lines + 1))
    ((_, place, *_),) = read_any_debug_record(dumps((form, (fits,), (row,))), "a.debug_pkl")
    assert len(place.source.text) == lines * len(fits)
    with pytest.raises(PickleError, match="too long") as caught:
        read_any_debug_record(dumps((form, (fits * 2,), (row,))), "a.debug_pkl")
    assert caught.value.limit == MAX_TEXT


@pytest.mark.parametrize(
    "row",
    [
        (-1, (None, 0, 1), 0), (True, (None, 0, 1), 0), (0, (None, -1, 1), 0),
        (0, (None, 0, False), 0), (0, (None, 0, 1), None), (0, (None, 0), 0), 1,
    ],
    ids=repr,
)  # fmt: skip
def test_places_of_debug_records(row):
    source = (Reduce(INT_LIST, ([0],)), 0, 1)

    def record(row, first_line=1):
        given = (*source[:2], first_line)
        filled = tuple(given if part is None else part for part in row[1]), *row[2:]
        return dumps(("FORMAT_WITH_STRING_TABLE", ("x",), ((row[0], *filled),)))

    assert read_any_debug_record(record((0, (None, 0, 1), 0)), "a.debug_pkl")
    wrong = record(row) if isinstance(row, tuple) else dumps(("FORMAT", (), (row,)))
    for data in (wrong, record((0, (None, 0, 1), 0), 1 << 31)):
        with pytest.raises(PickleError, match="malformed"):
            read_any_debug_record(data, "a.debug_pkl")


@pytest.mark.parametrize(
    "body", [b"]q\x00h\x00a", b"}q\x00Nh\x00s", b"ca\nb\n)\x81q\x00h\x00b", b"](]q\x00h\x00ae"]
)
def test_self_containing_containers(body):
    refuses(body, "contains itself")


# Names and targets


@pytest.mark.parametrize(
    "named",
    ["os.system", "builtins.eval", "torch._utils._import", "torch.jit._pickle.x", "torch.load"],
)
def test_global_by_table(named):
    module, _, name = named.rpartition(".")
    assert loads(dumps(Global(module, name))) == Global(module, name)
    both(archive(Reduce(Global(module, name), ("ls",))), named.rpartition(".")[2])
    both(archive(Global(module, name)), "stands where a value")
    both(archive(Object(Global(module, name), {})), name)


def test_no_name_is_imported():
    """Nothing that a pickle names is imported, known or not."""
    script = (
        "import sys, io, tsarchive, tsarchive.pickler as p\n"
        "seen = []\n"
        "sys.addaudithook(lambda event, args: event == 'import' and seen.append(args[0]))\n"
        "p.loads(p.dumps(p.Reduce(p.Global('antigravity', 'x'), ())))\n"
        "assert seen == [] and 'antigravity' not in sys.modules, seen\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd="/")


@pytest.mark.parametrize("name", ["a..b", ".a", "a.", "a b", "a\x00b", "a\u202eb", ""])
def test_names_are_dotted(name):
    assert read(b"c__torch__.a\nb\n") == Global("__torch__.a", "b")
    refuses(b"c__torch__\n" + name.encode() + b"\n", "dotted name")


@pytest.mark.parametrize(
    ("value", "match"),
    [
        (Reduce(Global("builtins", "complex"), (1.0,)), "2 arguments"),
        (Reduce(Global("builtins", "complex"), (1.0, 2.0, 3.0)), "2 arguments"),
        (Reduce(Global("builtins", "complex"), (1, 2)), "malformed"),
        (Reduce(Global("builtins", "complex"), 1.0), "2 arguments"),
        (Reduce(Global("torch", "device"), ()), "1 arguments"),
        (Reduce(Global("torch", "device"), ("cuda", 0)), "1 arguments"),
        (Reduce(Global("torch", "device"), (0,)), "malformed"),
        (Reduce(Global("torch", "device"), ("cuda:999999999999",)), "malformed"),
        (Reduce(Global("torch", "device"), ("nothing",)), "not a device"),
        (Reduce(ORDERED_DICT, (1,)), "0 arguments"),
        (Reduce(INT_LIST, ()), "malformed"),
        (Reduce(INT_LIST, ((1, 2),)), "malformed"),
        (Reduce(INT_LIST, ([], 1)), "malformed"),
        (Reduce(INT_LIST, 1), "malformed"),
        (Reduce(TAG, ([],)), "malformed"),
        (Reduce(TAG, ((), "Tuple[]")), "malformed"),
        (Reduce(TAG, ([], 1)), "malformed"),
        (Reduce(Global("torch._utils", "_rebuild_tensor_v2"), ()), "not given a view"),
        (Reduce(Global("torch._tensor", "_rebuild_from_type_v2"), ()), "malformed"),
    ],
    ids=repr,
)
def test_arity_and_argument_types(value, match):
    both(archive(value), match)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Reduce(Global("builtins", "complex"), (1.0, 2.0)), 1 + 2j),
        (Reduce(Global("torch", "device"), ("cuda:127",)), torch.device("cuda:127")),
        (Reduce(ORDERED_DICT, ()), None),
        (Reduce(INT_LIST, ([1, 2],)), [1, 2]),
        (Reduce(TAG, ({"a": 1}, "Dict[str, int]")), {"a": 1}),
        (float("inf"), float("inf")),
        (2**63 - 1, 2**63 - 1),
        ("\U0001f600\0", "\U0001f600\0"),
    ],
    ids=repr,
)
def test_values_of_the_table(value, expected):
    assert both(archive(value)).held == expected


def test_not_a_number_is_fine():
    held = both(archive(float("nan"))).held
    assert held != held


@pytest.mark.parametrize("body", [b"ca\nb\nN\x81", b"ca\nb\nN\x85\x81", b"N)\x81"])
def test_newobj(body):
    read(b"ca\nb\n)\x81Nb")
    refuses(body, "class is")


@pytest.mark.parametrize("body", [b"]Nb", b"}Nb", b"ca\nb\n)RNb", b"ca\nb\n)\x81NbNb"])
def test_build(body):
    refuses(body, "BUILD")


def test_items_of_a_dict_go_to_a_dict_and_of_a_list_to_a_list():
    for sound in (b"}NNs", b"}(NNu", b"]Na", b"](Ne"):
        read(sound)
    for opcode, target in ((b"(NNu", b"]"), (b"NNs", b")"), (b"Na", b"}"), (b"(Ne", b")")):
        refuses(target + opcode, "are put in")
    refuses(b"ca\nb\n)\x81" + b"NNs", "are put in")


@pytest.mark.parametrize(
    "key", [Reduce(INT_LIST, ([1],)), Object(Global("__torch__", "Root"), {}), Global("a", "b")]
)
def test_keys_of_dicts(key):
    both(archive({1: 2, "a": 3, (1, "b"): 4}))
    both(archive({key: 1}), ".")


def test_two_keys_that_become_one():
    first, second = (Reduce(Global("torch", "device"), ("cpu",)) for _ in range(2))
    both(archive({first: 1}))
    both(archive({first: 1, second: 2}), "key twice")


def test_rebuild_from_type_needs_what_follows():
    storage = (Global("torch._utils", "_rebuild_tensor_v2"), Global("a", "B"))
    function = Global("torch._tensor", "_rebuild_from_type_v2")
    for arguments in ((), storage[:1], storage, (*storage, ()), (*storage, (), {}, 1)):
        both(archive(Reduce(function, arguments)), ".")


# Types that slots declare


@pytest.mark.parametrize(
    ("type_", "sound", "wrong"),
    [
        ("int", 1, True),
        ("float", 1.0, 1),
        ("bool", True, 1),
        ("str", "a", 1),
        ("List[int]", Reduce(INT_LIST, ([1],)), Reduce(INT_LIST, (["a"],))),
        ("Dict[str, int]", Reduce(TAG, ({"a": 1}, "")), Reduce(TAG, ({1: 1}, ""))),
        ("Tuple[int, str]", (1, "a"), (1, "a", 2)),
        ("Optional[int]", None, "a"),
        ("Optional[Tensor]", None, 1),
        ("Tensor", None, 1),
        ("Device", Reduce(Global("torch", "device"), ("cpu",)), "cpu"),
    ],
)
def test_a_slot_holds_what_it_declares(type_, sound, wrong):
    if type_ != "Tensor":
        both(archive(sound, type_))
    both(archive(wrong, type_), "is declared")


# Bytes that are no text


@pytest.mark.parametrize("content", [b"\xff", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80"])
def test_invalid_utf8_and_lone_surrogates(content):
    assert read(text("é\U0001f600".encode())) == "é\U0001f600"
    refuses(text(content), "not UTF-8")
    refuses(b"ca\n" + content + b"\n", "not UTF-8")


# Whatever the bytes


@cache
def seeds():
    made = []
    for path in sorted(ARCHIVES.glob("*.pt")):
        records = records_of(path.read_bytes()) if not path.name.endswith(".io.pt") else {}
        records.pop(".data/serialization_id", None)
        if "data.pkl" in records and len(records["data.pkl"]) < 20_000:
            made.append(records)
    return made


@given(st.randoms(use_true_random=False))
def test_any_opcodes_give_a_value_or_an_error_of_ours(drawn):
    records = drawn.choice(seeds())
    name = drawn.choice([name for name in records if name.endswith((".pkl", ".debug_pkl"))])
    mutated = mutate_pickle(records[name], random.Random(drawn.getrandbits(64)))
    with contextlib.suppress(PickleError):
        loads(mutated)
    made = packed(records | {name: mutated})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with contextlib.suppress(tsarchive.ArchiveError):
            both(made)
