"""Texts of different lengths share runs where the test at load allows it, and every caller gets its own answer."""

import json
import socket
from contextlib import ExitStack

import numpy as np
import onnxruntime
import pytest

from tests.data.text_models import VOCABULARY, save
from tests.live.server import Server

# Nobody's patience ends before all of a round have asked.
TOML = """\
max_delay_us = 200000
max_batch_size = 64
[padding]
mask = "attention_mask"
max_waste = 0.9
inputs = {input_ids = {}}
"""
# The calls of kernels are most of a run: one saved is worth a dozen positions, however busy the machine.
NARROW = {"width": 16, "inner": 32, "layers": 6}
WANTED = {
    "padded": ("batching = true\n" + TOML, {}),
    "heedless": ("batching = true\n" + TOML, {"heeds_mask": False}),
    "exact": ("exact = true\n" + TOML, {}),
}
CONNECTIONS, ROUNDS = 16, 3


def request(name, feeds):
    """The bytes of one request; the answer comes in binary for odd lengths."""
    shape = list(feeds["input_ids"].shape)
    tensors = [
        {"name": key, "datatype": "INT64", "shape": shape, "data": value.tolist()} for key, value in feeds.items()
    ]
    body = json.dumps({"inputs": tensors, "parameters": {"binary_data_output": bool(shape[1] % 2)}}).encode()
    head = f"POST /v2/models/{name}/infer HTTP/1.1\r\nHost: test\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def read_answer(stream):
    """The arrays of one answer, by name."""
    assert b" 200 " in stream.readline()
    fields = dict(line.lower().rstrip().split(b": ", 1) for line in iter(stream.readline, b"\r\n"))
    body = stream.read(int(fields[b"content-length"]))
    at = int(fields.get(b"inference-header-content-length", len(body)))
    arrays = {}
    for output in json.loads(body[:at])["outputs"]:
        size = output.get("parameters", {}).get("binary_data_size", 0)
        values = np.frombuffer(body[at : at + size], np.float32) if size else np.array(output["data"], np.float32)
        at += size
        arrays[output["name"]] = values.reshape(output["shape"])
    return arrays


def texts(rng):
    """Texts of any length, some of several rows, some with positions that their callers mask."""
    for _ in range(CONNECTIONS):
        shape = (int(rng.integers(1, 3)), int(rng.integers(1, 33)))
        mask = np.ones(shape, np.int64)
        mask[:, 1 + int(rng.integers(0, shape[1])) :] = 0
        yield {"input_ids": rng.integers(0, VOCABULARY, shape), "attention_mask": mask}


def runs_of(server, name, session):
    """Asks round after round, all at once; returns how many runs it took, and how many lengths there were."""
    rng = np.random.default_rng(3)
    lengths = 0
    with ExitStack() as opened:
        socks = [
            opened.enter_context(socket.create_connection(("127.0.0.1", server.port), 30)) for _ in range(CONNECTIONS)
        ]
        streams = [opened.enter_context(sock.makefile("rb")) for sock in socks]
        for _ in range(ROUNDS):
            asked = list(texts(rng))
            lengths += len({feeds["input_ids"].shape[1] for feeds in asked})
            for sock, feeds in zip(socks, asked, strict=True):
                sock.sendall(request(name, feeds))
            for stream, feeds in zip(streams, asked, strict=True):
                found = read_answer(stream)
                for key, expected in zip(("tokens", "text"), session.run(None, feeds), strict=True):
                    assert found[key].shape == expected.shape
                    np.testing.assert_allclose(found[key], expected, rtol=1e-4, atol=1e-5)
    (stats,) = server.json(f"/v2/models/{name}/stats")["model_stats"]
    assert stats["inference_stats"]["success"]["count"] == CONNECTIONS * ROUNDS
    return stats["execution_count"], lengths


@pytest.mark.parametrize("arguments", [(), ("-k", "gthread", "--threads", "8")], ids=["gather", "gthread"])
def test_texts_of_different_lengths_share_runs_and_everyone_gets_its_own_answer(tmp_path, arguments):
    sessions = {
        name: onnxruntime.InferenceSession(save(tmp_path / "models", name, toml, **NARROW, **wanted))
        for name, (toml, wanted) in WANTED.items()
    }
    with Server(tmp_path, *arguments, models=tmp_path / "models") as server:
        reasons = {name: server.json(f"/v2/models/{name}")["properties"]["padding"] for name in sessions}
        runs = {name: runs_of(server, name, session) for name, session in sessions.items()}
    assert reasons["padded"].startswith("padded: at most 90% of a run is padding, and ")
    assert reasons["heedless"].startswith("not padded: with rows of other lengths, row ")
    assert reasons["exact"] == "not padded, since not merged: exact = true"
    runs_padded, lengths = runs["padded"]
    assert runs_padded < lengths <= runs["heedless"][0]
    assert runs["exact"][0] == CONNECTIONS * ROUNDS
