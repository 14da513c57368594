"""The rows of the table as data: measurements, networks, and goals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from fnmatch import fnmatch
from importlib.util import find_spec
from typing import Any

from processes import SIDES, Bench

MIB = 2**20
GIB = 2**30
PICKLED, SAFE = "torch.save", "safetensors"
ONCE_IN_A_PROCESS = ("opened", "load", "load and first", "save")  # parts that may need imports
Pair = tuple[str, str]


class Kind(Enum):
    """The quantity that a limit applies to."""

    VALUE = "ours"
    RATIO = "ours / theirs, geometric mean"
    WORST = "ours / theirs, the worst"


@dataclass(frozen=True, slots=True)
class Goal:
    """One line of the table.

    part: the measured part of the probe;
    measure: "time", or the key of a number of bytes, or of a share;
    limit: seconds, bytes or a ratio, by kind and measure; None when nothing is promised;
    shown: the limit in words.
    """

    part: str
    measure: str
    kind: Kind
    limit: float | None
    shown: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class Sizes:
    """The amount of measurements, and shell patterns of the networks."""

    large: int = GIB
    saved: int = 320 * MIB
    lowered: int = 192 * MIB
    checked: int = 84 * MIB
    warm: int = 20
    calls: int = 60
    again: int = 5
    processes: int = 5
    operators: int = 600
    is_quick: bool = False
    patterns: tuple[str, ...] = ("*",)

    def named(self, figure: str) -> str:
        names = ("large", "saved", "lowered", "checked")
        sizes = {name: getattr(self, name) for name in names}
        texts = {name: f"{size // MIB} MiB" for name, size in sizes.items()}
        return figure.format(**texts, operators=self.operators)


QUICK = Sizes(
    64 * MIB,
    32 * MIB,
    16 * MIB,
    8 * MIB,
    warm=3,
    calls=3,
    again=1,
    processes=1,
    operators=20,
    is_quick=True,
)
Subjects = Callable[[Bench, Sizes], list[Pair]]


@dataclass(frozen=True, slots=True)
class Row:
    """Lines that one probe measures.

    name: the row's name for ``--rows``;
    figure: the row's title, with the names of sizes in braces;
    peer: what tsarchive is compared with;
    subjects: the networks and forms;
    code: the range of code sizes in bytes;
    others: further sides, which have no part in the goals;
    settings: the fields of `Sizes` that the probe takes;
    own: settings of the probe that are the same for all sizes.
    """

    name: str
    figure: str
    probe: str
    subjects: Subjects
    goals: tuple[Goal, ...]
    peer: str = "torch.jit"
    code: tuple[int, int] = (0, 2**62)
    others: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    own: Mapping[str, Any] = field(default_factory=dict)

    def sides(self) -> tuple[str, ...]:
        absent = () if find_spec("safetensors") else (SAFE,)
        return (*SIDES, *(side for side in self.others if side not in absent))

    def settings_for(self, made: dict[str, Any], sizes: Sizes) -> dict[str, Any]:
        return made | {key: getattr(sizes, key) for key in self.settings} | dict(self.own)


def networks(bench: Bench, sizes: Sizes) -> list[Pair]:
    if sizes.is_quick:
        return [("recurrent", "traced")]
    return chosen(bench.names("networks") + bench.names("torchvision"), sizes)


def frozen(bench: Bench, sizes: Sizes) -> list[Pair]:
    names = {name for name, form in networks(bench, sizes) if form == "scripted"}
    return [(name, "frozen") for name in sorted(names or {"recurrent"})]


def own_networks(bench: Bench, sizes: Sizes) -> list[Pair]:
    return networks(bench, sizes) if sizes.is_quick else chosen(bench.names("networks"), sizes)


def chosen(pairs: list[Pair], sizes: Sizes) -> list[Pair]:
    return [
        (name, form)
        for name, form in pairs
        if any(fnmatch(name, pattern) for pattern in sizes.patterns)
    ]


def programs(bench: Bench, sizes: Sizes) -> list[Pair]:
    return [("integers", "scripted")] if sizes.is_quick else bench.names("programs")


def large(_: Bench, sizes: Sizes) -> list[Pair]:
    return [(f"weights:{sizes.large}", "scripted")]


def to_save(_: Bench, sizes: Sizes) -> list[Pair]:
    return [(f"weights:{sizes.saved}", "scripted")]


def to_check(_: Bench, sizes: Sizes) -> list[Pair]:
    return [(f"modules:{sizes.checked}", "scripted")]


def large_program(_: Bench, sizes: Sizes) -> list[Pair]:
    return [(f"weights:{sizes.large}", "exported")]


def long_program(_: Bench, sizes: Sizes) -> list[Pair]:
    return [(f"layered:{sizes.operators}", "exported")]


def lowered(_: Bench, sizes: Sizes) -> list[Pair]:
    return [(f"weights:{sizes.lowered}", "lowered")] if find_spec("executorch") else []


def one(_: Bench, sizes: Sizes) -> list[Pair]:
    return [("recurrent", "traced") if sizes.is_quick else ("mobilenet", "scripted")]


def value(part: str, measure: str, limit: float | None, shown: str, label: str = "") -> Goal:
    return Goal(part, measure, Kind.VALUE, limit, shown, label)


def ratio(part: str, limit: float, shown: str, label: str = "") -> Goal:
    return Goal(part, "time", Kind.RATIO, limit, shown, label)


def worst(part: str, limit: float, shown: str, label: str = "worst", measure: str = "time") -> Goal:
    return Goal(part, measure, Kind.WORST, limit, shown, label)


SMALL_SAVES = (
    ratio("save", 3.0, "≤ 3", "first in its process, geometric mean"),
    ratio("again", 3.0, "≤ 3", "again, geometric mean"),
)
ROWS: tuple[Row, ...] = (
    Row(
        "imports",
        "import of `tsarchive.load`, after torch",
        "ready",
        one,
        (value("imports", "time", 0.040, "≤ 40 ms"),),
    ),
    Row(
        "all-imports",
        "all that a load and calls import, after torch",
        "calls",
        one,
        (value("imports", "time", None, "-"),),
        settings=("calls", "warm"),
    ),
    Row(
        "tree",
        "`open` and `tree` of {large}",
        "tree",
        large,
        (
            value("opened", "time", 0.010, "≤ 10 ms"),
            value("opened", "anonymous", 20 * MIB, "≤ 20 MiB", "memory"),
        ),
    ),
    Row(
        "load",
        "`load` of {large} by path",
        "load",
        large,
        (
            ratio("load", 1 / 20, "≤ 0.05"),
            value("load", "anonymous", 30 * MIB, "≤ 30 MiB", "memory"),
        ),
    ),
    Row(
        "read",
        "`load` of {large} from an object that reads and seeks",
        "read",
        large,
        (value("load", "peak of size", 1.05, "≤ once the file", "most memory, of the file"),),
    ),
    Row(
        "first-call",
        "load and first call, 30 to 230 kB of code",
        "calls",
        networks,
        (
            ratio("load and first", 0.45, "≤ 0.45", "geometric mean"),
            ratio("load", 0.34, "≤ 0.34", "load alone, geometric mean"),
        ),
        code=(30_000, 230_000),
        settings=("calls", "warm"),
    ),
    Row(
        "frozen",
        "load and first call of `torch.jit.freeze` archives",
        "calls",
        frozen,
        (
            ratio("load and first", 0.8, "≤ 0.8", "geometric mean"),
            worst("load and first", 0.8, "≤ 0.8"),
        ),
        settings=("calls", "warm"),
    ),
    Row(
        "warm-start",
        "load and first call with a compile cache",
        "calls",
        networks,
        (ratio("load and first", 0.2, "≤ 0.2"),),
        code=(30_000, 230_000),
        own={"cached": True, "calls": 0},
    ),
    Row(
        "warm-process",
        "load and first call with a compile cache, imports of tsarchive included",
        "calls",
        networks,
        (ratio("load and first", 0.35, "≤ 0.35"),),
        code=(30_000, 230_000),
        own={"cached": True, "calls": 0, "imports_later": True},
    ),
    Row(
        "later-calls",
        "later calls, batch 1, small inputs",
        "calls",
        networks,
        (ratio("later", 1.08, "≤ 1.08", "geometric mean"), worst("later", 1.4, "≤ 1.4")),
        settings=("calls", "warm"),
    ),
    Row(
        "optimized",
        "later calls of what `optimize` gives",
        "optimized",
        networks,
        (
            ratio("best", 0.9, "≤ 0.9", "best of loaded, frozen, for inference; geometric mean"),
            ratio("loaded", 0.8, "≤ 0.8", "as loaded, geometric mean"),
        ),
        settings=("calls", "warm"),
    ),
    Row(
        "loops",
        "loops over scalars, lists, strings",
        "calls",
        programs,
        (ratio("later", 2.0, "≤ 2", "geometric mean"), worst("later", 2.0, "≤ 2")),
        settings=("calls", "warm"),
    ),
    Row(
        "run-memory",
        "most memory of tensors while running",
        "peak",
        networks,
        (worst("run", 1.05, "≤ 1.05", measure="tensors"),),
    ),
    Row(
        "save",
        "save, small live network",
        "save",
        own_networks,
        SMALL_SAVES,
        code=(30_000, 230_000),
        settings=("again",),
    ),
    Row(
        "resave",
        "save, small loaded network",
        "resave",
        own_networks,
        SMALL_SAVES,
        code=(30_000, 230_000),
        settings=("again",),
    ),
    Row(
        "save-large",
        "save, {saved} of weights",
        "save",
        to_save,
        (
            ratio("again", 0.7, "≤ 0.7"),
            value("save", "peak", 64 * MIB, "≤ 64 MiB", "memory above the model"),
        ),
        others=(PICKLED, SAFE),
        settings=("again",),
    ),
    Row(
        "exported-large",
        "`load` of a PT2 archive of {large}",
        "exported",
        large_program,
        (
            ratio("load", 1 / 50, "≤ 0.02"),
            value("load", "anonymous", 30 * MIB, "≤ 30 MiB", "memory"),
        ),
        peer="torch.export",
    ),
    Row(
        "exported-graph",
        "`load` of a PT2 archive of {operators} operators and weights",
        "exported",
        long_program,
        (
            ratio("load", 1 / 4, "≤ 0.25"),
            ratio("load and first", 1 / 4, "≤ 0.25", "and first call"),
        ),
        peer="torch.export",
    ),
    Row(
        "program",
        "`open` of an ExecuTorch program of {lowered}, all of its tables",
        "described",
        lowered,
        (ratio("opened", 1 / 5, "≤ 0.2"), worst("opened", 1 / 20, "≤ 0.05", "memory", "peak")),
        peer="executorch",
    ),
    Row(
        "info",
        "`tsarchive info FILE`, whole process; beside it `import torch`",
        "process",
        one,
        (
            value("process", "time", 0.12, "≤ 120 ms"),
            # Machines differ: the goal is 120 ms where importing torch takes 1.4 s.
            ratio("process", 0.12 / 1.4, "≤ 0.086"),
        ),
        peer="import torch",
        settings=("processes",),
        own={"command": ["info"], "takes_path": True},
    ),
    Row(
        "help",
        "`tsarchive --help`, whole process; beside it `import torch`",
        "process",
        one,
        (value("process", "time", 0.06, "≤ 60 ms"),),
        peer="import torch",
        settings=("processes",),
        own={"command": ["--help"], "takes_path": False},
    ),
    Row(
        "check",
        "a network of {checked} in 200 modules; beside it reading the file",
        "checked",
        to_check,
        (
            value("audit", "time", 1.0, "≤ 1 s", "`audit`"),
            value("verify", "time", 0.5, "≤ 0.5 s", "`verify`"),
        ),
        peer="read",
    ),
)
