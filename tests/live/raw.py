"""Raw sockets for tests: what no HTTP library would send."""

from __future__ import annotations

import json
import socket

BODY = b'{"instances": [[5.1, 3.5, 1.4, 0.2]]}'
PATH = "/v1/models/iris:predict"


def request(method="POST", path=PATH, body=BODY, version="1.1", host=True, **headers):
    """Bytes of a request; headers as keywords, `_` for `-`."""
    lines = [f"{method} {path} HTTP/{version}"]
    if host:
        lines.append("Host: localhost")
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b"")


class Answer:
    """One parsed answer."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)


class Client:
    """One connection."""

    def __init__(self, port, wrap=None, timeout_s=15):
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
        if wrap is not None:
            self.sock = wrap(self.sock)
        self._left = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def send(self, data):
        self.sock.sendall(data)
        return self

    def ask(self, *args, **headers):
        """Sends one request and reads its answer."""
        return self.send(request(*args, **headers)).answer()

    def answer(self, head_only=False):
        """The next answer; interim ones count."""
        while b"\r\n\r\n" not in self._left:
            self._more()
        head, _, rest = self._left.partition(b"\r\n\r\n")
        status_line, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        size = 0 if head_only else int(headers.get("content-length", 0))
        self._left = rest
        while len(self._left) < size:
            self._more()
        body, self._left = self._left[:size], self._left[size:]
        return Answer(int(status_line.split()[1]), headers, body)

    def is_closed(self):
        """Whether the server ends the connection, without another byte."""
        try:
            return not self._left and self.sock.recv(1) == b""
        except ConnectionResetError:
            return True

    def _more(self):
        part = self.sock.recv(65536)
        if not part:
            raise EOFError(f"closed after {self._left!r:.200}")
        self._left += part
