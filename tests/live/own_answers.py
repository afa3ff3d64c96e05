"""Many requests with unique payloads over many connections, each answer compared with the model's own.

All connections ask at once, round after round, so that requests of different callers share runs.
"""

import json
import socket
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from tests.live.server import Server

COUNT, CONNECTIONS, TIMEOUT_S = 100_000, 64, 60
FEATURES, HIDDEN, CLASSES = 16, 128, 3
FORMS = ("json", "binary", "v1")
CLASSES_OF_WORKERS = {
    "gather": ("service.prefork.worker.GatherWorker", ()),
    "gthread": ("gthread", ("-k", "gthread", "--threads", "16", "--worker-connections", "200")),
}


def make_models(folder):
    """`merged` shares runs, `exact` never does; both have the same weights."""
    rng = np.random.default_rng(20261204)
    weights = {
        "w1": rng.standard_normal((FEATURES, HIDDEN)), "w2": rng.standard_normal((HIDDEN, CLASSES)),
    }  # fmt: skip
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w1"], ["a"]),
            helper.make_node("Relu", ["a"], ["b"]),
            helper.make_node("MatMul", ["b", "w2"], ["y"]),
        ],
        "mlp",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", FEATURES])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", CLASSES])],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    for name, toml in (("merged", "batching = true\n"), ("exact", "exact = true\n")):
        place = Path(folder, name)
        place.mkdir(parents=True)
        onnx.save(model, place / "model.onnx")
        (place / "model.toml").write_text(toml)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def request(name, form, rows):
    """The bytes of one request."""
    headers, tail = "", b""
    if form == "v1":
        path, document = f"/v1/models/{name}:predict", {"instances": rows.tolist()}
    else:
        path = f"/v2/models/{name}/infer"
        tensor = {"name": "x", "datatype": "FP32", "shape": list(rows.shape)}
        document = {"inputs": [tensor]}
        if form == "json":
            tensor["data"] = rows.ravel().tolist()
        else:
            tail = rows.tobytes()
            tensor["parameters"] = {"binary_data_size": len(tail)}
            document["parameters"] = {"binary_data_output": True}
    text = json.dumps(document).encode()
    if form == "binary":
        headers = f"Inference-Header-Content-Length: {len(text)}\r\n"
    head = f"POST {path} HTTP/1.1\r\nHost: test\r\n{headers}Content-Length: {len(text) + len(tail)}\r\n\r\n"
    return head.encode() + text + tail


def read_answer(stream, form):
    """The array of one answer, of shape `(rows, 3)`."""
    status = stream.readline()
    fields = {}
    while (line := stream.readline().strip()) != b"":
        name, _, value = line.partition(b":")
        fields[name.lower()] = value.strip()
    assert fields.get(b"connection") != b"close", "each worker is configured to keep every connection"
    body = stream.read(int(fields[b"content-length"]))
    if b" 200 " not in status:
        raise AssertionError(f"{status!r}: {body[:300]!r}")
    if form == "v1":
        return np.array(json.loads(body)["predictions"], np.float32)
    size = int(fields[b"inference-header-content-length"]) if form == "binary" else len(body)
    (output,) = json.loads(body[:size])["outputs"]
    values = np.frombuffer(body[size:], np.float32) if form == "binary" else np.array(output["data"], np.float32)
    return values.reshape(output["shape"])


def ask_all(server, session, name, count, tolerance):
    """Asks `count` times; returns how many answers were someone else's or wrong, and the largest deviation."""
    rng = np.random.default_rng(count)
    wrong, largest, asked = Counter(), 0.0, 0
    with ExitStack() as opened:
        socks = [
            opened.enter_context(socket.create_connection(("127.0.0.1", server.port), TIMEOUT_S))
            for _ in range(CONNECTIONS)
        ]
        streams = [opened.enter_context(sock.makefile("rb")) for sock in socks]
        while asked < count:
            batch = [
                (FORMS[(asked + index) % 3], rng.standard_normal((1 + (asked + index) % 3, FEATURES), np.float32))
                for index in range(min(CONNECTIONS, count - asked))
            ]
            for sock, (form, rows) in zip(socks, batch, strict=False):
                sock.sendall(request(name, form, rows))
            for stream, (form, rows) in zip(streams, batch, strict=False):
                (expected,) = session.run(None, {"x": rows})
                answer = read_answer(stream, form)
                same = answer.shape == expected.shape
                deviation = float(np.abs(answer - expected).max() / np.abs(expected).max()) if same else np.inf
                largest = max(largest, deviation)
                wrong[form] += deviation > tolerance
            asked += len(batch)
    return sum(wrong.values()), largest


def hold(folder, worker, count):
    """The whole check under one worker class.

    Returns:
        By model: wrong answers, largest deviation, tolerance, inferences and runs.
    """
    models = Path(folder, "models")
    session = make_models(models)
    _, arguments = CLASSES_OF_WORKERS[worker]
    found = {}
    with Server(folder, *arguments, models=models, workers=1) as server:
        for name in ("merged", "exact"):
            recorded = float(json.loads(server.get(f"/v2/models/{name}"))["properties"]["batch_deviation"])
            # The test at load has seen a few dozen rows; of a hundred thousand some deviate a few times as much.
            tolerance = 0.0 if name == "exact" else max(recorded * 8, 1e-6)
            wrong, largest = ask_all(server, session, name, count, tolerance)
            (stats,) = json.loads(server.get(f"/v2/models/{name}/stats"))["model_stats"]
            runs, requests = stats["execution_count"], stats["inference_stats"]["success"]["count"]
            found[name] = (wrong, largest, tolerance, requests, runs)
    return found


def main(arguments):
    """Prints what was found; 1 if an answer was wrong, or if nothing was merged where it should be."""
    count = int(arguments[0]) if arguments else COUNT
    failed = False
    for worker in CLASSES_OF_WORKERS:
        with tempfile.TemporaryDirectory() as folder:
            for name, (wrong, largest, tolerance, requests, runs) in hold(folder, worker, count).items():
                failed |= bool(wrong) or requests != count or (runs < requests) is (name == "exact")
                sys.stdout.write(
                    f"{worker:8} {name:7} {requests} answers in {runs} runs: {wrong} wrong, largest deviation "
                    f"{largest:.1e} (expected at most {tolerance:.1e})\n"
                )
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
