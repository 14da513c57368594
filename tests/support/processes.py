"""Python in processes of its own, which find the tests and the fixtures of this checkout."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TextIO

from tests.support.archives import ROOT
from tests.support.command_line import process

__all__ = ["output_of", "torch_output_of", "torch_process"]

_TIMEOUT = 1800  # seconds: no process hangs a suite for good


def output_of(*args: object, cwd: Path = ROOT, env: Mapping[str, str] | None = None) -> bytes:
    """What ``python ARGS`` prints; a failure raises with what it says to stderr on top."""
    done = subprocess.run(
        [sys.executable, *map(str, args)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), **(env or {})},
        stdout=subprocess.PIPE,
        timeout=_TIMEOUT,
        check=True,
    )
    return done.stdout


def torch_output_of(*args: object, cwd: Path = ROOT, env: Mapping[str, str] | None = None) -> str:
    """The same of a program that imports torch, by ``torch_process``."""
    done = torch_process(*args, cwd=cwd, env={"PYTHONPATH": str(ROOT), **(env or {})})
    assert done.returncode == 0, done.stderr
    return done.stdout


def torch_process(
    *args: object, cwd: Path, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """What ``process`` gives for a program that imports torch: that takes longer than most do.

    It is forked from a process that has done so. Where it would show, ``process`` is right: Python
    and torch have read their own variables already, and modules before torch come after it.
    """
    if sys.platform != "linux":
        return process(*args, cwd=cwd, env=env)
    command = list(map(str, args))
    request = {"args": command, "cwd": str(cwd), "env": {**os.environ, **(env or {})}}
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        _, server = _torch_server()
        socket.send_fds(server, [json.dumps(request).encode()], [out.fileno(), err.fileno()])
        code = server.recv(16)
        assert code, "the process that has imported torch has ended"
        return subprocess.CompletedProcess(command, int(code), _read(out), _read(err))


def _read(file: TextIO) -> str:
    file.seek(0)
    return file.read()


@cache
def _torch_server() -> tuple[subprocess.Popen[bytes], socket.socket]:
    """The server, which ends when this process does, and a connection to it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    program = Path(__file__).with_name("torch_server.py")
    with theirs:
        command = [sys.executable, str(program), str(theirs.fileno())]
        server = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
    return server, ours
