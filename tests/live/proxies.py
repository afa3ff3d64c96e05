"""Real proxies and load tools against the service, each for a while and without one failed request."""

import contextlib
import http.client
import re
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.live.raw import BODY, PATH
from tests.live.server import Server, free_port, wait_for

SECONDS, CONNECTIONS = 60, 16
TOOLS = ("nginx", "haproxy", "wrk", "ab", "curl", "openssl")
NGINX = """
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/nginx-error.log;
events {{ worker_connections 512; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  upstream service {{ server 127.0.0.1:{backend}; keepalive 32; }}
  server {{
    listen 127.0.0.1:{port};
    client_max_body_size 100m;
    client_body_buffer_size 4m;
    location / {{
      proxy_pass http://service;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header X-Forwarded-For $remote_addr;
      proxy_set_header X-Forwarded-Proto $scheme;
      proxy_next_upstream off;
    }}
  }}
}}
"""
HAPROXY = """
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  retries 0
frontend service
  bind 127.0.0.1:{port}
  default_backend workers
backend workers
  http-reuse always
  option httpchk GET /v2/health/ready
  server one 127.0.0.1:{backend} check
"""
LUA = """
wrk.method = "POST"
wrk.path = "%s"
wrk.body = '%s'
wrk.headers["Content-Type"] = "application/json"
"""


@contextlib.contextmanager
def running(*command, port):
    """A program that listens on a port, until the end of the block."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: answers(port))
        yield port
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)


def answers(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    with contextlib.closing(connection):
        try:
            connection.request("GET", "/v2/health/ready")
            return connection.getresponse().status == 200
        except OSError:
            return False


@contextlib.contextmanager
def nginx(folder, backend):
    port = free_port()
    conf = folder / "nginx.conf"
    conf.write_text(NGINX.format(folder=folder, port=port, backend=backend))
    with running("nginx", "-p", str(folder), "-c", str(conf), "-e", str(folder / "nginx-start.log"), port=port):
        yield port


@contextlib.contextmanager
def haproxy(folder, backend):
    port = free_port()
    conf = folder / "haproxy.cfg"
    conf.write_text(HAPROXY.format(port=port, backend=backend))
    with running("haproxy", "-db", "-f", str(conf), port=port):
        yield port


def said(*command, seconds):
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60, check=False)
    if done.returncode:
        raise AssertionError(
            f"{' '.join(command)} ended with {done.returncode}: {done.stdout[-800:]}{done.stderr[-800:]}"
        )
    return done.stdout


def number(pattern, text):
    found = re.search(pattern, text)
    return int(found[1]) if found else 0


def wrk(folder, url, seconds):
    """Requests and failures."""
    script = folder / "post.lua"
    script.write_text(LUA % (PATH, BODY.decode()))
    text = said("wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "-s", str(script), url, seconds=seconds)
    errors = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", text)
    failed = sum(map(int, errors.groups())) if errors else 0
    return number(r"(\d+) requests in", text), failed + number(r"Non-2xx or 3xx responses: (\d+)", text)


def ab(folder, url, seconds, *options):
    """Requests and failures; a run for many may round the last digit of an answer differently, so lengths vary."""
    body = folder / "body.json"
    body.write_bytes(BODY)
    text = said(
        "ab", "-q", "-l", *options, "-t", str(seconds), "-n", "100000000", "-c", str(CONNECTIONS), "-p", str(body),
        "-T", "application/json", url + PATH, seconds=seconds,
    )  # fmt: skip
    failed = number(r"Failed requests:\s+(\d+)", text) + number(r"Non-2xx responses:\s+(\d+)", text)
    return number(r"Complete requests:\s+(\d+)", text), failed


def curl(folder, url, seconds, *options):
    """Bodies of 2 MB, each behind an `Expect: 100-continue`, many on one connection."""
    body = folder / "large.json"
    body.write_bytes(BODY[:-1] + b', "parameters": {"note": "' + b"x" * 2_000_000 + b'"}}')
    arguments = ["curl", "-sS", *options, "-H", "Expect: 100-continue", "--data-binary", f"@{body}"]
    arguments += ["-w", "%{http_code}\\n"]
    asked = failed = 0
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        statuses = said(*arguments, *["-o", "/dev/null", url + PATH] * 10, seconds=60).split()
        asked += 10
        failed += 10 - statuses.count("200")
    return asked, failed


def python_tls(certificate, port, seconds):
    context = ssl.create_default_context(cafile=str(certificate))
    connection = http.client.HTTPSConnection("localhost", port, timeout=20, context=context)
    asked = failed = 0
    until_s = time.monotonic() + seconds
    with contextlib.closing(connection):
        while time.monotonic() < until_s:
            connection.request("POST", PATH, BODY)
            response = connection.getresponse()
            response.read()
            asked += 1
            failed += response.status != 200
    return asked, failed


def make_certificate(folder):
    certificate, key = folder / "cert.pem", folder / "key.pem"
    said(
        "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
        "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate), seconds=30,
    )  # fmt: skip
    return certificate, key


def plain(folder, seconds):
    """Name, requests and failures of each check without TLS."""
    with Server(folder, workers=2) as server:
        yield "wrk", *wrk(folder, server.url, seconds)
        yield "ab (HTTP/1.0)", *ab(folder, server.url, seconds)
        yield "ab (HTTP/1.0, keep-alive)", *ab(folder, server.url, seconds, "-k")
        yield "curl, Expect, 2 MB", *curl(folder, server.url, seconds)
        for name, proxy in (("nginx", nginx), ("HAProxy", haproxy)):
            with proxy(folder, server.port) as port:
                yield f"{name}, wrk", *wrk(folder, f"http://127.0.0.1:{port}", seconds)
                yield f"{name}, ab (HTTP/1.0)", *ab(folder, f"http://127.0.0.1:{port}", seconds)
                yield f"{name}, curl, Expect, 2 MB", *curl(folder, f"http://127.0.0.1:{port}", seconds)


def encrypted(folder, seconds):
    """The same for TLS."""
    certificate, key = make_certificate(folder)
    arguments = ("--certfile", str(certificate), "--keyfile", str(key))
    with Server(folder, *arguments, workers=2, wait=None) as server:
        trust = ("--cacert", str(certificate), "--retry", "20", "--retry-connrefused", "--retry-delay", "1")
        said("curl", "-sSf", *trust, f"https://localhost:{server.port}/v2/health/ready", seconds=30)
        url = f"https://localhost:{server.port}"
        yield "TLS, curl, Expect, 2 MB", *curl(folder, url, seconds, "--cacert", str(certificate))
        yield "TLS, Python's client", *python_tls(certificate, server.port, seconds)
        yield "TLS, wrk", *wrk(folder, url, seconds)


def main(arguments):
    """Prints a line for each check; 1 if a request failed or none was made."""
    seconds = int(arguments[0]) if arguments else SECONDS
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        sys.exit(f"not on this machine: {', '.join(missing)}")
    failed_at_all = False
    with tempfile.TemporaryDirectory() as made:
        for checks in (plain, encrypted):
            for name, asked, failed in checks(Path(made), seconds):
                failed_at_all |= bool(failed) or not asked
                sys.stdout.write(f"{name:28} {asked:9} requests, {failed} failed\n")
                sys.stdout.flush()
    return int(failed_at_all)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
