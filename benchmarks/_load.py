"""The clients of `benchmarks.team`, in a process of their own: `python -m benchmarks._load ADDRESS < work > times`.

Work is one JSON object: `tells` ([id, value] pairs), `clients`, and `pause`, the mean seconds that a client takes
between an answer and its next result (0: none). Each client has a connection of its own, and sends requests that were
written before. Out come seconds, and for each tell its id, when it was sent and how long its answer took.
"""

from __future__ import annotations

import asyncio
import gc
import json
import random
import sys
import time
from typing import Any
from urllib.parse import urlsplit


class Client(asyncio.Protocol):
    """One connection: sends a request, and looks at nothing but the status and the length of the answer."""

    def __init__(self, work: list[tuple[int, bytes]], pause: float, seed: int, times: list[list[float]]) -> None:
        self.work, self.pause, self.times = iter(work), pause, times
        self.random = random.Random(seed)
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.heard = b""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def begin(self) -> None:
        """After a pause, so that clients do not march in step."""
        self._wait() if self.pause else self._send()

    def data_received(self, data: bytes) -> None:
        self.heard += data
        head, found, body = self.heard.partition(b"\r\n\r\n")
        if not found or len(body) < int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]):
            return
        self.times.append([self.id, self.sent, time.perf_counter() - self.sent])
        if not head.startswith(b"HTTP/1.1 200"):
            self.done.set_exception(RuntimeError(self.heard.decode(errors="replace")))
            return
        self.heard = b""
        self._wait() if self.pause else self._send()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(error or ConnectionError("the server has closed a connection"))

    def _wait(self) -> None:
        asyncio.get_running_loop().call_later(self.random.expovariate(1.0 / self.pause), self._send)

    def _send(self) -> None:
        job = next(self.work, None)
        if job is None:
            self.done.set_result(None)
            return
        self.id, request = job
        self.sent = time.perf_counter()
        self.transport.write(request)


def request(host: str, id: int, value: float) -> bytes:
    """A tell, as it goes over the wire."""
    body = json.dumps({"id": id, "value": value}).encode()
    lines = ["POST /tell HTTP/1.1", f"Host: {host}", "Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def load(address: str, work: dict[str, Any]) -> dict[str, Any]:
    host, clients, times = urlsplit(address), work["clients"], list[list[float]]()
    jobs = [(id, request(host.netloc, id, value)) for id, value in work["tells"]]
    loop = asyncio.get_running_loop()
    lines = [
        await loop.create_connection(
            lambda i=i: Client(jobs[i::clients], work["pause"], i, times),
            host.hostname,
            host.port,  # type: ignore[misc]
        )
        for i in range(clients)
    ]
    begun = time.perf_counter()
    for _, client in lines:
        client.begin()
    await asyncio.gather(*(client.done for _, client in lines))
    seconds = time.perf_counter() - begun
    for transport, _ in lines:
        transport.close()
    return {"seconds": seconds, "times": times}


def main() -> None:
    work = json.load(sys.stdin)
    gc.disable()
    try:
        import uvloop

        found = uvloop.run(load(sys.argv[1], work))
    except ImportError:
        found = asyncio.run(load(sys.argv[1], work))
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
