"""A proxy that loses, repeats, delays or changes requests and responses, in a thread of this process."""

import random
import time
from collections import Counter
from contextlib import contextmanager
from functools import partial
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread

from combopeps.server.schemas import CAMPAIGN_HEADER

FATES = ("pass", "lost before", "lost after", "cut", "doubled", "late", "busy")


class Proxy(ThreadingHTTPServer):
    """Each request meets its fate by `weights` (in the order of FATES); `met` counts them.

    `change(forward)`, if it is set, returns status, content and headers of a response; `forward()` has the server's.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, target, weights, seed=0):
        self.target, self.weights, self.random, self.lock = target, weights, random.Random(seed), Lock()
        self.met, self.change = Counter(), None
        super().__init__(("127.0.0.1", 0), Handler)

    def fate(self):
        with self.lock:
            found = self.random.choices(FATES, self.weights)[0]
            self.met[found] += 1
            return found

    def handle_error(self, request, address):
        """Connections end in the middle here."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # header and body are written separately

    def log_message(self, *words):
        pass

    def do_GET(self):
        fate = self.server.fate()
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        if fate == "lost before":
            self.close_connection = True
            return
        if fate == "busy":
            self.answer(503, b'{"error": "busy", "type": "LockError"}', {"retry-after": "0"})
            return
        forward, change = partial(self.forward, body), self.server.change
        status, said, headers = forward() if change is None else change(forward)
        if fate == "doubled":
            status, said, headers = self.forward(body)
        if fate == "late":
            time.sleep(0.02)
        if fate == "lost after":
            self.close_connection = True
            return
        self.answer(status, said, headers, cut=fate == "cut")

    do_POST = do_GET  # noqa: N815

    def forward(self, body):
        connection = HTTPConnection(self.server.target, timeout=20)
        try:
            headers = {key: value for key, value in self.headers.items() if key.lower() not in ("host", "connection")}
            connection.request(self.command, self.path, body or None, headers)
            answer = connection.getresponse()
            mark = answer.getheader(CAMPAIGN_HEADER)
            return answer.status, answer.read(), {} if mark is None else {CAMPAIGN_HEADER: mark}
        finally:
            connection.close()

    def answer(self, status, said, headers=(), cut=False):
        self.send_response(status)
        self.send_header("content-type", "application/json")
        for key, value in dict(headers).items():
            self.send_header(key, value)
        self.send_header("content-length", str(len(said)))
        self.end_headers()
        self.wfile.write(said[: len(said) // 2] if cut else said)
        self.close_connection = self.close_connection or cut


@contextmanager
def unreliable_proxy(address, weights=(1, 0, 0, 0, 0, 0, 0), seed=0):
    """The proxy before a server; its own address is `.address`."""
    proxy = Proxy(address.removeprefix("http://"), weights, seed)
    proxy.address = f"http://127.0.0.1:{proxy.server_port}"
    thread = Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.shutdown()
        thread.join(10)
        proxy.server_close()
