"""Malicious pickles in every form and hiding place, which audit must find."""

from __future__ import annotations

import base64
import io
import pickle
import struct
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from texts import text, zipped

# Callables that exist on most machines, or through careless readers, with an argument each.
CALLS = (
    ("os", "system", "id"), ("posix", "system", "id"), ("nt", "system", "dir"),
    ("subprocess", "Popen", "id"), ("subprocess", "check_output", "id"),
    ("builtins", "eval", "print(1)"), ("builtins", "exec", "import os; os.system('id')"),
    ("__builtin__", "eval", "1"), ("builtins", "__import__", "antigravity"),
    ("builtins", "getattr", "x"), ("commands", "getoutput", "id"), ("torch", "load", "x.pt"),
    ("torch.hub", "load", "a/b"), ("numpy", "load", "x.npy"), ("runpy", "run_path", "x.py"),
    ("pty", "spawn", "/bin/sh"), ("webbrowser", "open", "http://a.example"),
    ("importlib", "import_module", "this"), ("shutil", "rmtree", "/tmp/x"),
    ("ctypes", "CDLL", "./x.so"), ("pickle", "loads", "cos\nsystem\n."), ("bdb", "Bdb", "x"),
    ("operator", "attrgetter", "__class__"), ("socket", "create_connection", "h:1"),
)  # fmt: skip
# Modules known only to the attacker: in the working directory, or of a rare package.
STRANGE = (("evil", "run", "x"), ("my_package.tools", "start", "a b"), ("setup", "main", "--all"))


@dataclass(frozen=True)
class Attack:
    """A file with a malicious pickle.

    ``data`` are the bytes of the file, ``pickled`` the pickle in it, and ``how`` describes how it
    was made and hidden.
    """

    data: bytes
    pickled: bytes
    how: str


def attack(random: Random) -> Attack:
    """Return a file that calls something when it, or a part of it, is unpickled."""
    form, make = random.choice(list(FORMS.items()))
    place, hide = random.choice(list(PLACES.items()))
    end, finish = random.choice(list(ENDS.items()))
    is_whole = end == "whole"
    calls = CALLS + STRANGE if is_whole and place not in ELSEWHERE else CALLS
    is_plain = place not in ELSEWHERE or (is_whole and make is not _kept_arguments)
    protocols = PROTOCOLS[form] if is_plain or make is not _kept_arguments else _LATER
    writer = Writer(random.choice(calls), random.choice(protocols), random, is_plain)
    pickled = finish(writer.wrapped(make), random)
    how = f"{form}, protocol {writer.protocol}, {writer.call[0]}.{writer.call[1]}, {end}, {place}"
    return Attack(hide(pickled, random), pickled, how)


class Writer:
    """Writes opcodes of a protocol, as ``pickle`` does and in other forms that it reads."""

    def __init__(
        self, call: tuple[str, str, str], protocol: int, random: Random, is_plain: bool
    ) -> None:
        """Initialize; ``is_plain`` allows text without quotes, and a missing PROTO opcode."""
        self.call = call
        self.is_plain = is_plain
        self.protocol = protocol
        self.random = random
        self._memo = 0

    def text(self, value: str) -> bytes:
        """Return text, often memoised."""
        raw = value.encode()
        if self.protocol == 0:
            line = value.replace("\n", "\\u000a").encode()
            is_quoted = not self.is_plain or self.random.random() < 0.5
            return self._maybe_kept(f"S{value!r}\n".encode() if is_quoted else b"V%s\n" % line)
        if self.protocol < 4:
            return self._maybe_kept(b"X" + struct.pack("<I", len(raw)) + raw)
        return self._maybe_kept(b"\x8c" + bytes([len(raw)]) + raw)

    def name(self) -> bytes:
        """Return the called global, as lines or as two strings."""
        module, name, _ = self.call
        if self.protocol >= 4 and self.random.random() < 0.7:
            return self.text(module) + self.text(name) + b"\x93"
        return self._maybe_kept(f"c{module}\n{name}\n".encode())

    def arguments(self) -> bytes:
        """Return a tuple of the argument."""
        argument = self.text(self.call[2])
        tuple_ = argument + b"\x85" if self.protocol >= 2 else b"(" + argument + b"t"
        return self._maybe_kept(tuple_)

    def _maybe_kept(self, value: bytes) -> bytes:
        return value + self.kept() if self.random.random() < 0.5 else value

    def kept(self) -> bytes:
        """Memoise the value on top of the stack."""
        self._memo += 1
        if self.protocol == 0:
            return b"p%d\n" % self.last
        return b"\x94" if self.protocol >= 4 else b"q" + bytes([self.last])

    @property
    def last(self) -> int:
        """Return the number of the last memoised value."""
        return self._memo - 1

    def got(self, number: int) -> bytes:
        """Return a value from the memo."""
        return b"g%d\n" % number if self.protocol == 0 else b"h" + bytes([number])

    def wrapped(self, make: Callable[[Writer], bytes]) -> bytes:
        """Nest a value in a container or behind others, with a PROTO opcode where allowed."""
        says_so = self.protocol >= 2 and (not self.is_plain or self.random.random() < 0.9)
        head = b"\x80" + bytes([self.protocol]) if says_so else b""
        begin, end = self.random.choice(_CONTAINERS)
        key = self.text("k") if begin in (b"}", b"((") else b""
        return head + begin + key + make(self) + end


_CONTAINERS = (
    (b"", b""), (b"", b""), (b"(", b"l"), (b"N0", b""), (b"]", b"a"), (b"}", b"s"),
    (b"((", b"dl"), (b"(I1\nI0x2\nF0.5\nL3L\n1", b""),
)  # fmt: skip


def _by_memo(w: Writer) -> bytes:
    named = w.name() + w.kept()
    number = w.last
    return named + b"0" + w.arguments() + b"0" + w.got(number) + w.arguments() + b"R"


def _kept_arguments(w: Writer) -> bytes:
    arguments = w.arguments() + w.kept()
    number = w.last
    return arguments + b"0" + w.name() + w.got(number) + b"R"


FORMS: dict[str, Callable[[Writer], bytes]] = {
    "REDUCE": lambda w: w.name() + w.arguments() + b"R",
    "REDUCE of a memo": _by_memo,
    "REDUCE of a copy": lambda w: w.name() + b"2" + w.arguments() + b"R",
    "REDUCE of kept arguments": _kept_arguments,
    "INST": lambda w: b"(" + w.text(w.call[2]) + f"i{w.call[0]}\n{w.call[1]}\n".encode(),
    "OBJ": lambda w: b"(" + w.name() + w.text(w.call[2]) + b"o",
    "NEWOBJ": lambda w: w.name() + w.arguments() + b"\x81",
    "NEWOBJ_EX": lambda w: w.name() + w.arguments() + b"}\x92",
    "BUILD": lambda w: w.name() + b"}" + w.text("x") + w.text("y") + b"sb",
    "items": lambda w: w.name() + b"(" + w.text("x") + w.text("y") + b"u",
    "by another": lambda w: (
        b"ccopyreg\n_reconstructor\n(" + w.name() + b"cbuiltins\nobject\nNtR"
    ),
    "call of a result": lambda w: (
        w.name() + w.arguments() + b"R" + b"(" + w.text("x") + b"tR"
    ),
}  # fmt: skip
_LATER = (2, 3, 4, 5)
PROTOCOLS = {form: _LATER if form.startswith("NEWOBJ") else (0, 1, *_LATER) for form in FORMS}


def _broken(pickled: bytes, random: Random) -> bytes:
    """Truncate directly after the last opcode that matters."""
    return pickled + random.choice(
        [b"\xff\xff", b"\n", b"0000000R", b"g99\n.", b"#", b"zz.", b"t."]
    )


ENDS: dict[str, Callable[[bytes, Random], bytes]] = {
    "whole": lambda data, _: data + b".",
    "cut": lambda data, _: data,
    "broken": _broken,
}


def _in_archive(name: str, method: int = zipfile.ZIP_STORED) -> Callable[[bytes, Random], bytes]:
    plain = {"data.pkl": b"\x80\x02}.", "version": b"3\n"}
    return lambda data, _: zipped({**plain, name: data}, method)


def _damaged(data: bytes, random: Random) -> bytes:
    """Return an archive with a wrong checksum, which other readers ignore."""
    made = bytearray(zipped({"data.pkl": data}, random.choice([zipfile.ZIP_STORED, 8])))
    made[made.index(b"PK\x01\x02") + 46] ^= 1
    return bytes(made)


def _in_tar(data: bytes, _: Random) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        member = tarfile.TarInfo("pickle")
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    return written.getvalue()


def _in_array(data: bytes, random: Random) -> bytes:
    head = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }".ljust(117) + b"\n"
    if random.random() < 0.5:
        return b"\x93NUMPY\x01\0" + struct.pack("<H", len(head)) + head + data
    return b"\x93NUMPY\x02\0" + struct.pack("<I", len(head)) + head + data


def _after_others(data: bytes, random: Random) -> bytes:
    others = ({"a": 1}, [1, "x"], "text", 5, None)
    protocols = random.choices(range(2, 6), k=random.randrange(1, 4))
    return b"".join(pickle.dumps(random.choice(others), protocol) for protocol in protocols) + data


def _before_words(data: bytes, random: Random) -> bytes:
    return data + text(random)


def _in_words(data: bytes, random: Random) -> bytes:
    return text(random).rstrip(b"\r\n") + b"\n" + data + b"\n" + text(random)


_IMAGE = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89"
PLACES: dict[str, Callable[[bytes, Random], bytes]] = {
    "alone": lambda data, _: data,
    "before words": _before_words,
    "after other pickles": _after_others,
    "data.pkl": lambda data, _: zipped({"data.pkl": data, "version": b"3\n"}),
    "deflated": lambda data, _: zipped({"data.pkl": data}, zipfile.ZIP_DEFLATED),
    "an extra file": _in_archive("extra/vocab.txt"),
    "a tensor": _in_archive("data/0"),
    "a zip in a zip": lambda data, _: zipped({"inner.zip": zipped({"data.pkl": data})}),
    "a damaged zip": _damaged,
    "a tar": _in_tar,
    "an array": _in_array,
    "bytes": lambda data, random: pickle.dumps({"w": data}, random.randrange(3, 6)),
    "base 64": lambda data, _: pickle.dumps({"w": base64.b64encode(data).decode()}),
    "hexadecimal": lambda data, _: pickle.dumps({"w": data.hex()}),
    "after an image": lambda data, random: _IMAGE + random.randbytes(random.randrange(400)) + data,
    "in words": _in_words,
    "before a zip": lambda data, _: data + zipped({"data.pkl": b"\x80\x02}.", "version": b"3\n"}),
    "behind a zip": lambda data, _: zipped({"data.pkl": b"\x80\x02}.", "version": b"3\n"}) + data,
}
# Places where no reader begins by itself.
ELSEWHERE = {"after an image", "in words", "behind a zip"}
