"""Servers of S3 and SFTP on loopback, and what fsspec needs to reach them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import fsspec

__all__ = ["configured", "s3_server", "sftp_server"]

USER, PASSWORD = "ann", "hunter22"


@contextmanager
def configured(protocol: str, **options: object) -> Iterator[None]:
    """Let every filesystem of a protocol have these options, as fsspec's configuration does."""
    before = fsspec.config.conf.get(protocol)
    fsspec.config.conf[protocol] = options
    try:
        yield
    finally:
        fsspec.config.conf.pop(protocol)
        if before is not None:
            fsspec.config.conf[protocol] = before


@contextmanager
def s3_server() -> Iterator[str]:
    """Run moto's server with an empty bucket; yield the URL of the bucket."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    options = {"key": "key", "secret": "secret", "endpoint_url": f"http://{host}:{port}"}
    try:
        with configured("s3", **options):
            # What moto holds outlives its servers.
            bucket = f"models-{port}"
            fsspec.filesystem("s3").mkdir(bucket)
            yield f"s3://{bucket}"
    finally:
        server.stop()


@contextmanager
def sftp_server(folder: Path, *, dies_after: int | None = None) -> Iterator[str]:
    """Serve a folder by SFTP, whose user and password stand in the URL that it yields.

    With ``dies_after``, all connections end when so many bytes have been written.
    """
    import asyncssh

    connections: list[asyncssh.SSHServerConnection] = []

    class Server(asyncssh.SSHServer):
        def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
            connections.append(conn)

        def begin_auth(self, username: str) -> bool:
            return True

        def password_auth_supported(self) -> bool:
            return True

        def validate_password(self, username: str, password: str) -> bool:
            return (username, password) == (USER, PASSWORD)

    class Files(asyncssh.SFTPServer):
        written = 0

        def write(self, file_obj: object, offset: int, data: bytes) -> int:
            self.written += len(data)
            if dies_after is not None and self.written > dies_after:
                for connection in connections:
                    connection.abort()
            return super().write(file_obj, offset, data)

    def sftp(channel: asyncssh.SSHServerChannel) -> asyncssh.SFTPServer:
        return Files(channel, chroot=str(folder).encode())

    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def listen() -> asyncssh.SSHAcceptor:
        key = asyncssh.generate_private_key("ssh-ed25519")
        return await asyncssh.create_server(
            Server, "127.0.0.1", 0, server_host_keys=[key], sftp_factory=sftp
        )

    async def close(server: asyncssh.SSHAcceptor) -> None:
        server.close()
        for connection in connections:
            connection.abort()
            await connection.wait_closed()
        await server.wait_closed()
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})

    listening = asyncio.run_coroutine_threadsafe(listen(), loop).result()
    try:
        yield f"sftp://{USER}:{PASSWORD}@127.0.0.1:{listening.get_port()}"
    finally:
        asyncio.run_coroutine_threadsafe(close(listening), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
