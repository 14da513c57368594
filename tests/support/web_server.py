"""A web server on loopback that answers by the book, and then as a test wants it."""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Condition, Event, Thread

__all__ = ["Answer", "Request", "WebServer", "web_server"]

_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


@dataclass(frozen=True)
class Request:
    """A request as it came; ``number`` counts those before it."""

    path: str
    headers: Message
    number: int


@dataclass
class Answer:
    """What is sent, which faults change.

    ``sent`` is how many bytes of the body go out before the connection closes; a ``silent`` server
    sends no more than those, and keeps the connection. ``status`` 0 is no answer at all, or, from
    a dripping server, a header that comes byte by byte without end.
    """

    status: int
    headers: dict[str, str]
    body: bytes = b""
    sent: int | None = None
    silent: bool = False
    is_dripping: bool = False


Fault = Callable[[Request, Answer], object]


@dataclass
class WebServer:
    """Files by path, and the requests for them. ``fault`` may change each answer."""

    files: dict[str, bytes]
    url: str = ""
    fault: Fault = lambda request, answer: None
    requests: list[Request] = field(default_factory=list)
    connections: set[tuple[str, int]] = field(default_factory=set)
    # Is set when the server stops, for handlers that would wait for ever.
    stopped: Event = field(default_factory=Event)
    came: Condition = field(default_factory=Condition)

    def await_requests(self, count: int) -> None:
        """Wait until so many requests have come: who gives up waiting is ahead of the server."""
        with self.came:
            assert self.came.wait_for(lambda: len(self.requests) >= count, timeout=60)

    def answer(self, path: str, headers: Message, client: tuple[str, int]) -> Answer:
        with self.came:
            self.connections.add(client)
            request = Request(path, headers, len(self.requests))
            self.requests.append(request)
            self.came.notify_all()
        answer = _right_answer(self.files.get(path.partition("?")[0]), headers)
        self.fault(request, answer)
        return answer


def _right_answer(content: bytes | None, headers: Mapping[str, str] | Message) -> Answer:
    if content is None:
        return Answer(404, {"Content-Length": "0"})
    size, etag = len(content), f'"{sha256(content).hexdigest()[:16]}"'
    told = {"ETag": etag, "Accept-Ranges": "bytes"}
    if headers.get("If-Match", etag) != etag:
        return Answer(412, {"Content-Length": "0"})
    asked = _RANGE.fullmatch(headers.get("Range", ""))
    if asked is None:
        return Answer(200, {**told, "Content-Length": str(size)}, content)
    first, last = asked.groups()
    start = int(first) if first else max(0, size - int(last))
    stop = min(size, int(last) + 1) if first and last else size
    if start >= stop:
        return Answer(416, {"Content-Range": f"bytes */{size}", "Content-Length": "0"})
    told |= {"Content-Range": f"bytes {start}-{stop - 1}/{size}"}
    return Answer(206, {**told, "Content-Length": str(stop - start)}, content[start:stop])


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, answers: WebServer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers = answers

    def handle_error(self, *_: object) -> None:
        """Let clients go away without a word of it."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        answer = self.server.answers.answer(self.path, self.headers, self.client_address)
        if answer.status:
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.body[: answer.sent])
            self.wfile.flush()
        if answer.is_dripping:
            self._drip()
        if answer.silent:
            self.server.answers.stopped.wait()
        if answer.silent or answer.sent is not None or not answer.status:
            self.close_connection = True

    def _drip(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
        while not self.server.answers.stopped.wait(0.05):
            self.wfile.write(b"x")

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def web_server(files: dict[str, bytes], tls: ssl.SSLContext | None = None) -> Iterator[WebServer]:
    """Serve files on a free port of 127.0.0.1, by HTTPS where a context is given."""
    answers = WebServer(files)
    server = _Server(answers)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    scheme = "http" if tls is None else "https"
    answers.url = f"{scheme}://127.0.0.1:{server.server_address[1]}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield answers
    finally:
        answers.stopped.set()
        server.shutdown()
        server.server_close()
        thread.join()
