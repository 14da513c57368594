"""Any bytes give a report, and nothing is imported, opened or started while it is made."""

from __future__ import annotations

import io
import pickle
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tsarchive
from tests.support.archives import ARCHIVES
from tests.support.auditing import archive_with, audited, zip_of
from tsarchive import ArchiveError
from tsarchive.auditing import AuditReport
from tsarchive.auditing.sarif import RULES

SEEDS = {
    "archive": archive_with(
        "class Net(Module):\n"
        "  __parameters__ = []\n"
        "  other : List[__torch__.Net]\n"
        "  def forward(self: __torch__.Net, x: Tensor) -> Tensor:\n"
        '    f = torch.save\n    _0 = (self.other)[0].forward(x)\n    f(x, torch.add("a", "b"))\n'
        "    return x\n"
    ),
    "pickle": pickle.dumps({"a": [1, "x", b"y", (2.5,)], "b": {1, 2}}, 4),
    "calls": b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R.",
    "text pickle": b"(dS'a'\ncos\nsystem\n(S'b'\ntRs.",
    "nested": zip_of({"a.zip": zip_of({"data.pkl": b"\x80\x02}."})}),
    "tar": b"name".ljust(124, b"\0") + b"00000000010\0".ljust(133, b"\0") + b"ustar" + bytes(300),
}
VERIFY = "'tsarchive verify' lists all that is wrong with the file"


def report_of(data: bytes) -> AuditReport | None:
    """The report; the only other outcome is an error of the library."""
    try:
        return audited(data)
    except ArchiveError:
        return None


def check(report: AuditReport | None) -> None:
    for finding in report.findings if report is not None else ():
        assert finding.rule in RULES or finding.hint == VERIFY
        assert finding.message


@given(st.binary(max_size=600))
def test_any_bytes_give_a_report(data):
    check(report_of(data))


@given(st.sampled_from(sorted(SEEDS)), st.data())
def test_changed_files_give_a_report(seed, data):
    changed = bytearray(SEEDS[seed])
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(changed) - 1))
        changed[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(changed)))
    check(report_of(bytes(changed[:cut] if data.draw(st.booleans()) else changed)))


@given(
    st.lists(
        st.sampled_from([bytes([code]) for code in range(256)] + [b"cos\nsystem\n", b"\x8c\x02os"]),
        max_size=40,
    )
)
def test_any_opcodes_give_a_report(opcodes):
    check(report_of(b"\x80\x04" + b"".join(opcodes)))


@given(st.text(alphabet="selftorch_().,=:\n [ ]x'\"123 def class return", max_size=200))
def test_any_code_gives_a_report(text):
    code = f"class Net(Module):\n  def forward(self: __torch__.Net) -> int:\n    {text}\n"
    check(report_of(archive_with(code)))


@pytest.mark.parametrize("name", sorted(SEEDS))
def test_every_cut_gives_a_report(name):
    data = SEEDS[name]
    for length in range(0, len(data), max(1, len(data) // 40)):
        check(report_of(data[:length]))


_HOOK = """
import io, sys
import tsarchive, tsarchive.auditing.files, tsarchive.auditing.sarif
forbidden = ("import", "exec", "subprocess.", "socket.", "os.system", "pickle.", "ctypes.")
armed = False
def hook(event, arguments):
    if armed and event == "open" and any(mode in str(arguments[1]) for mode in "wax+"):
        raise SystemExit(f"opened for writing: {arguments}")
    if armed and event.startswith(forbidden):
        raise SystemExit(f"{event}: {arguments}")
report = tsarchive.audit(io.BytesIO(sys.argv[1].encode()))
for name in sys.argv[2:]:
    tsarchive.audit(name)  # once before, so that Python's own lazy imports are done
sys.addaudithook(hook)
armed = True
for name in sys.argv[2:]:
    tsarchive.audit(name)
armed = False
assert "torch" not in sys.modules
"""


def test_nothing_is_imported_run_or_written(tmp_path):
    paths = []
    for name, data in SEEDS.items():
        path = tmp_path / name
        path.write_bytes(data)
        paths.append(str(path))
    paths.append(str(ARCHIVES / "buffers.pt"))
    done = subprocess.run(
        [sys.executable, "-c", _HOOK, "seed", *paths], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("source", [5, None, io.StringIO("text")])
def test_what_is_no_file_is_an_error(source):
    with pytest.raises(tsarchive.CallError):
        tsarchive.audit(source)


def test_a_missing_file_is_an_error_of_the_system(tmp_path):
    with pytest.raises(FileNotFoundError):
        tsarchive.audit(tmp_path / "missing.pt")
