"""A process that has imported torch and nothing else, and becomes a program for each request.

``python torch_server.py FD`` reads requests from a socket: the arguments of Python, a folder and an
environment, with two files for what is printed. It forks for each, and sends the exit code.
"""

from __future__ import annotations

import gc
import json
import os
import random
import runpy
import socket
import sys
import warnings
from types import ModuleType
from typing import Any


def serve(client: socket.socket) -> dict[str, Any]:
    """Fork for each request, and return it in the child."""
    while True:
        data, files, *_ = socket.recv_fds(client, 1 << 20, 2)
        if not data:
            sys.exit()
        child = os.fork()
        if child == 0:
            client.close()
            for file, stream in zip(files, (1, 2), strict=True):
                os.dup2(file, stream)
                os.close(file)
            request: dict[str, Any] = json.loads(data)
            return request
        for file in files:
            os.close(file)
        client.sendall(b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def become(args: list[str], cwd: str, env: dict[str, str]) -> None:
    """Be what ``python ARGS`` would be there."""
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    random.seed()
    if args[:2] == ["-W", "ignore"]:
        warnings.simplefilter("ignore")
        args = args[2:]
    option, *rest = args
    if option in ("-c", "-m"):
        first, what, sys.argv = "" if option == "-c" else cwd, rest[0], ["-c", *rest[1:]]
    else:
        first, what, sys.argv = os.path.dirname(os.path.abspath(option)), option, [option, *rest]
    added = [path for path in env.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:1] = added if "PYTHONSAFEPATH" in env else [first, *added]
    if option == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    elif option == "-c":
        sys.modules["__main__"] = ModuleType("__main__")
        exec(compile(what, "<string>", "exec"), vars(sys.modules["__main__"]))
    else:
        runpy.run_path(what, run_name="__main__")


if __name__ == "__main__":
    import torch  # noqa: F401  # what this process is for

    gc.freeze()  # else each child would look through all of torch as it ends
    become(**serve(socket.socket(fileno=int(sys.argv[1]))))
