"""Comparison of one module with torch: every record of our save against torch's.

`S1` is torch's first save, `S2` and `S3` its saves after one and two rounds of loading. Code is
compared with S1, pickles and storages with S2, which no longer depends on reference counts, and
debug records with S3, the form that torch converges to.
"""

from __future__ import annotations

import io
import itertools
import pickle
import re
import zipfile
from collections.abc import Iterator
from typing import Any

import torch

import tsarchive

Records = dict[str, bytes]

# The rows of the table; a record belongs to the first row whose pattern matches its name.
ROWS = {
    "code": r"code/.*\.py",
    "debug records": r".*\.debug_pkl",
    "data.pkl": r"data\.pkl",
    "constants.pkl": r"constants\.pkl",
    "storages": r"(data|constants)/\d+",
    "traced inputs": r"traced_inputs.*",
    "version, byteorder": r"(\.data/)?version|byteorder",
    "serialization_id": r"\.data/serialization_id",
}
ORDER = "names and order"
LOADED = "save, load, save"
GRAPHS = "parse, print"
ALL_ROWS = (*ROWS, ORDER, LOADED, GRAPHS)


def row_of(name: str) -> str:
    return next(row for row, pattern in ROWS.items() if re.fullmatch(pattern, name))


def records_of(data: bytes) -> Records:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


def torch_saved(module: Any) -> bytes:
    buffer = io.BytesIO()
    torch.jit.save(module, buffer)
    return buffer.getvalue()


def resaved(data: bytes) -> bytes:
    return torch_saved(torch.jit.load(io.BytesIO(data)))


def expected_records(module: Any) -> Records:
    """Return torch's records, each from the save in which it reaches its fixpoint.

    Where the text of torch's own code changes from save to save, records of later saves may not
    belong to the text of S1: its debug records are then omitted, and where the constants have other
    numbers in S2, those of S1 are expected.
    """
    saves = [torch_saved(module)]
    saves += [resaved(saves[0])]
    saves += [resaved(saves[1])]
    first, second, third = map(records_of, saves)
    constants = second if numbers_of_constants(first) == numbers_of_constants(second) else first
    found = {}
    for name, content in first.items():
        row = row_of(name)
        if name.startswith("constants"):
            content = constants[name]
        elif row in ("data.pkl", "storages"):
            content = second[name]
        elif row == "debug records":
            code = name.removesuffix(".debug_pkl")
            if first[code] != third.get(code):
                continue
            content = third[name]
        found[name] = content
    found[".data/serialization_id"] = serialization_id(found)
    return found


def numbers_of_constants(records: Records) -> dict[str, list[bytes]]:
    """Return the constant table entries that code mentions, record by record."""
    return {
        name: re.findall(rb"CONSTANTS\.c\d+", content)
        for name, content in records.items()
        if row_of(name) == "code"
    }


def serialization_id(records: Records) -> bytes:
    """Return the id that torch's writer gives to an archive of these records."""
    buffer = io.BytesIO()
    writer = torch._C.PyTorchFileWriter(buffer)
    writer.set_min_version(int(records.get("version") or records[".data/version"]))
    for name, content in records.items():
        if row_of(name) not in ("version, byteorder", "serialization_id"):
            writer.write_record(name, content, len(content))
    writer.write_end_of_file()
    return records_of(buffer.getvalue())[".data/serialization_id"]


def our_save(module: Any) -> bytes:
    buffer = io.BytesIO()
    tsarchive.save(module, buffer)
    return buffer.getvalue()


def compare(module: Any) -> dict[str, str]:
    """Return the rows that differ, each with its first difference; empty when all is equal."""
    expected = expected_records(module)
    saved = our_save(module)
    ours = records_of(saved)
    found: dict[str, str] = {}
    for row, text in differences(ours, expected):
        found.setdefault(row, text)
    for row, text in jitter(saved):
        found.setdefault(row, text)
    return found


def jitter(saved: bytes) -> Iterator[tuple[str, str]]:
    """Yield what changes when our archive is loaded and saved, or printed from its graphs."""
    report = tsarchive.check_jitter(io.BytesIO(saved))
    if not (report.stable and report.as_read and report.as_read.same_file):
        yield LOADED, f"{report.as_read} {report.records}"
    graph = report.graph
    for differences in (graph.code, graph.records, graph.debug, graph.unprinted):
        if differences:
            yield GRAPHS, str(differences[0])


def differences(ours: Records, expected: Records) -> Iterator[tuple[str, str]]:
    left_out = {name for name in ours.keys() - expected.keys() if name.endswith(".debug_pkl")}
    names = [name for name in ours if name not in left_out]
    if names != list(expected):
        yield ORDER, f"ours {names}, torch's {list(expected)}"
    for name in names:
        if name == ".data/serialization_id" and left_out:
            continue
        if name not in expected or ours[name] == expected[name]:
            continue
        if left_out and name.endswith(".debug_pkl"):
            # Tags are counted over all records, including those of the changed text.
            yield from debug_differences(name, ours[name], expected[name])
        else:
            yield row_of(name), f"{name}: {first_difference(ours[name], expected[name])}"


def debug_differences(name: str, ours: bytes, theirs: bytes) -> Iterator[tuple[str, str]]:
    for pair in itertools.zip_longest(debug_rows(ours), debug_rows(theirs)):
        if pair[0] != pair[1]:
            yield row_of(name), f"{name}: ours {pair[0]}, torch's {pair[1]}"
            return


class WithoutClasses(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> type:
        return list


def debug_rows(record: bytes) -> list[tuple[Any, ...]]:
    """Return offset, source (text, file, line), begin, end and tag of each row of a debug record.

    The tags are renumbered within the record.
    """
    _, texts, rows = WithoutClasses(io.BytesIO(record)).load()
    tags: dict[int, int] = {}
    return [
        (at, "".join(texts[line] for line in lines), texts[file], first, begin, end,
         tags.setdefault(tag, len(tags)))
        for at, ((lines, file, first), begin, end), tag in rows
    ]  # fmt: skip


def first_difference(ours: bytes, theirs: bytes, context: int = 60) -> str:
    pairs = zip(ours, theirs, strict=False)
    shorter = min(len(ours), len(theirs))
    at = next((place for place, (a, b) in enumerate(pairs) if a != b), shorter)
    window = slice(max(0, at - context), at + context)
    return f"byte {at}: ours {ours[window]!r}, torch's {theirs[window]!r}"
