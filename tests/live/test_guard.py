"""Keys, limits, audit, operators' address and client certificates on running services."""

import json
import ssl
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from service.guard import keys
from tests.live.raw import BODY, PATH, Client, request
from tests.live.server import Server, free_port, wait_for

RATE, WORKERS, CLIENTS = 100, 3, 12


def key(identity, scopes="infer,metadata,metrics,admin", **more):
    return keys.make(identity, scopes.split(","), more.get("models"), more.get("rate"))


GOOD, GOOD_LINE = key("good")
SLOW, SLOW_LINE = key("slow", rate=RATE)
ADDED, ADDED_LINE = key("added")
SECRETS = [made.partition(".")[2] for made in (GOOD, SLOW, ADDED)]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "keys").write_text(f"{GOOD_LINE}\n{SLOW_LINE}\n")
    settings = {
        "pinion_api_keys_file": folder / "keys",
        "pinion_audit_file": folder / "audit",
        "pinion_operator_bind": f"127.0.0.1:{free_port()}",
        "pinion_request_log": 1,
        "pinion_log_level": "debug",
    }
    bind = ("--bind", settings["pinion_operator_bind"])
    with Server(folder, *bind, workers=WORKERS, **settings) as server:
        server.folder, server.operators_port = folder, int(bind[1].rpartition(":")[2])
        yield server


def audited(server):
    return [json.loads(line) for line in (server.folder / "audit").read_text().splitlines()]


def test_a_limit_holds_over_all_workers(guarded):
    """Kept-alive connections to all workers ask as fast as they can."""
    asked = request(X_API_Key=SLOW)

    def statuses(_):
        with Client(guarded.port) as client:
            answers = []
            while time.monotonic() < until_s:
                answers.append(client.send(asked).answer())
            return answers

    began_s = time.monotonic()
    until_s = began_s + 2
    with ThreadPoolExecutor(CLIENTS) as pool:
        answers = [answer for given in pool.map(statuses, range(CLIENTS)) for answer in given]
    took_s = time.monotonic() - began_s
    passed = [answer for answer in answers if answer.status == 200]
    refused = [answer for answer in answers if answer.status == 429]
    assert len(passed) + len(refused) == len(answers)
    assert 0 < len(passed) <= RATE * (took_s + 0.05) + WORKERS
    assert refused
    assert all(answer.headers["retry-after"] == "1" for answer in refused)
    # All have been asked.
    wait_for(lambda: sum(line["key"] == "slow" for line in audited(guarded)) == len(answers))
    assert len({line["pid"] for line in audited(guarded) if line["key"] == "slow"}) == WORKERS


def test_a_changed_file_counts_without_a_restart_and_a_bad_one_changes_nothing(guarded):
    path = guarded.folder / "keys"

    def status(shown):
        with Client(guarded.port) as client:
            return client.ask(X_API_Key=shown).status

    with Client(guarded.port) as kept:
        assert kept.ask(X_API_Key=GOOD).status == 200
        assert kept.ask(X_API_Key=ADDED).status == 401
        read = guarded.log().count("API keys: 2 read")
        (guarded.folder / "next").write_text(f"{ADDED_LINE}\n{SLOW_LINE}\n")
        (guarded.folder / "next").replace(path)
        wait_for(lambda: guarded.log().count("API keys: 2 read") == read + WORKERS)
        assert kept.ask(X_API_Key=ADDED).status == 200
        assert kept.ask(X_API_Key=GOOD).status == 401
        path.write_text(f"{ADDED}\n")
        wait_for(lambda: guarded.log().count("those read before stay in use") == WORKERS)
        assert [status(shown) for shown in (ADDED, GOOD, SLOW)] == [200, 401, 200]
        path.write_text(f"{GOOD_LINE}\n{SLOW_LINE}\n{ADDED_LINE}\n")
        wait_for(lambda: guarded.log().count("API keys: 3 read") == WORKERS)
        assert kept.ask(X_API_Key=GOOD).status == 200


def test_operators_have_an_address_of_their_own(guarded):
    load = ("POST", "/v2/repository/models/iris/load", b"")
    with Client(guarded.port) as client, Client(guarded.operators_port) as operator:
        assert operator.ask("GET", "/v2/health/ready", None).status == 200
        assert operator.ask("GET", "/metrics", None, X_API_Key=GOOD).status == 200
        assert operator.ask(*load).status == 401
        assert operator.ask(*load, X_API_Key=GOOD).status == 501
        forged = {"Host": f"127.0.0.1:{guarded.operators_port}", "X_Forwarded_Port": str(guarded.operators_port)}
        assert client.ask(*load, X_API_Key=GOOD, host=False, **forged).status == 403
    wait_for(lambda: sum(line["event"] == "change" for line in audited(guarded)) == 3)


@pytest.mark.parametrize("arguments", [(), ("-k", "gthread")], ids=["gather", "gthread"])
def test_operators_on_a_unix_socket(tmp_path, arguments):
    bind = f"unix:{tmp_path}/operators"
    with Server(tmp_path, *arguments, "--bind", bind, pinion_operator_bind=bind) as server:
        load = ["curl", "-s", "-X", "POST", "-w", "%{http_code}", "http://localhost/v2/repository/models/iris/load"]
        told = subprocess.run([*load, "--unix-socket", f"{tmp_path}/operators"], capture_output=True, check=True).stdout
        assert told.endswith(b"501")
        assert server.post("/v2/repository/models/iris/load", b"")[0] == 403


def test_no_secret_is_told_anywhere(guarded):
    with Client(guarded.port) as client:
        for shown in (GOOD, ADDED, f"good.{SECRETS[2]}x", SECRETS[1]):
            for path in (PATH, "/v1/models/iris:predict?key=no", "/v2/models/none/infer", "/v2/nothing"):
                told = client.ask(path=path, X_API_Key=shown)
                assert not any(secret in f"{told.headers}{told.body}" for secret in SECRETS)
        client.ask(body=b"{", Authorization=f"Bearer {GOOD}")
        page = client.ask("GET", "/metrics", None, X_API_Key=GOOD).body.decode()
        documents = [client.ask("GET", path, None, X_API_Key=GOOD).body.decode() for path in ("/v2", "/v2/models/iris")]
    wait_for(lambda: audited(guarded)[-1]["path"] == "/v2/models/iris")
    lines = [Path(f"/proc/{pid}/cmdline").read_text() for pid in (guarded.pid, *guarded.workers())]
    for secret in SECRETS:
        for text in (page, *documents, *lines, guarded.log(), (guarded.folder / "audit").read_text()):
            assert secret not in text
    assert '"key":"good"' in guarded.log()
    assert all(line.split()[1] not in guarded.log() for line in (GOOD_LINE, SLOW_LINE, ADDED_LINE))


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """An authority, a server's certificate and a client's."""
    folder = tmp_path_factory.mktemp("certificates")

    def openssl(command):
        subprocess.run(["openssl", *command.split()], check=True, capture_output=True, cwd=folder)

    (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1")
    try:
        openssl("req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority -keyout ca.key -out ca.pem")
    except FileNotFoundError:
        pytest.skip("the openssl command is missing")
    for name in ("server", "client"):
        openssl(f"req -newkey rsa:2048 -nodes -subj /CN={name} -keyout {name}.key -out {name}.csr")
        openssl(
            f"x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out {name}.pem"
        )
    return folder


def tls(folder, *, shows):
    context = ssl.create_default_context(cafile=f"{folder}/ca.pem")
    if shows:
        context.load_cert_chain(f"{folder}/client.pem", f"{folder}/client.key")
    return lambda sock: context.wrap_socket(sock, server_hostname="localhost")


@pytest.mark.parametrize("arguments", [(), ("-k", "gthread")], ids=["gather", "gthread"])
def test_only_who_shows_a_certificate_is_answered(tmp_path, certificates, arguments):
    paths = [f"{certificates}/{name}" for name in ("server.pem", "server.key", "ca.pem")]
    options = ("--certfile", paths[0], "--keyfile", paths[1], "--ca-certs", paths[2], "--cert-reqs", "2")
    with Server(tmp_path, *arguments, *options, wait=None) as server:
        wait_for(lambda: "is ready after" in server.log())
        with Client(server.port, tls(certificates, shows=True)) as client:
            assert client.ask().status == 200
        # TLS 1.3 tells a client that it is refused only after its side of the handshake is done.
        with (
            pytest.raises((ssl.SSLError, EOFError, OSError)),
            Client(server.port, tls(certificates, shows=False)) as client,
        ):
            client.ask()
        with Client(server.port, tls(certificates, shows=True)) as client:
            assert client.ask(body=BODY).status == 200
        assert "Traceback" not in server.log() or arguments


def test_the_audit_goes_on_after_it_was_moved_away(guarded):
    path = guarded.folder / "audit"
    moved = guarded.folder / "audit.1"
    path.rename(moved)

    def asked():
        with Client(guarded.port) as client:
            assert client.ask(X_API_Key=GOOD, X_Request_Id="after").status == 200
        return path.exists() and '"after"' in path.read_text()

    wait_for(asked)
    assert moved.stat().st_size > 0
