"""ONNX's own backend test suite, in process and over HTTP: what passes the one has to pass the other.

`python -m tests.live.backend_suite [SETTING=VALUE …]` runs it against a service with these settings, such as
`pinion_fast_json_bytes=0`, and prints what was left out and why.
"""

from __future__ import annotations

import ctypes
import http.client
import math
import sys
import tempfile
import warnings
from collections import Counter
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort
from onnx.backend.test.loader import DATA_DIR, load_model_tests
from onnx.backend.test.runner import Runner

from tests.live.oip_client import DATATYPES, DTYPES, asker
from tests.live.server import Server

FORMS = ("json", "binary")
# All that the package ships; the light models are the suite's "real" ones with their weights left out.
KINDS = ("node", "simple", "real", "pytorch-converted", "pytorch-operator")


@dataclass(frozen=True)
class Case:
    """One case of the suite as ONNX ships it."""

    test: Any

    @property
    def name(self):
        return self.test.name

    @cached_property
    def path(self):
        """Of the model, None where it is only in memory; light models are named relative to the package."""
        if self.test.url:
            return Path(DATA_DIR) / "light" / Path(self.test.url).name
        return Path(self.test.model_dir) / "model.onnx" if self.test.model_dir else None

    @cached_property
    def model(self):
        return self.path.read_bytes() if self.path else self.test.model.SerializeToString()

    def data_sets(self):
        """Pairs of inputs and expected outputs."""
        if self.test.data_sets is not None:
            return [(as_arrays(inputs), as_arrays(outputs)) for inputs, outputs in self.test.data_sets]
        if self.test.url:
            graph = onnx.load_from_string(self.model).graph
            weights = {weight.name for weight in graph.initializer}
            inputs = [Runner.generate_dummy_data(value) for value in graph.input if value.name not in weights]
            return [(inputs, read_all(self.path.parent, f"{self.path.stem}_output"))]
        folders = sorted(Path(self.test.model_dir).glob("test_data_set*"))
        return [(read_all(folder, "input"), read_all(folder, "output")) for folder in folders]


def as_arrays(values):
    return [onnx.numpy_helper.to_array(v) if isinstance(v, onnx.TensorProto) else np.asarray(v) for v in values]


def read_all(folder, kind):
    """The tensors `<kind>_0.pb`, `<kind>_1.pb`, … of a folder."""
    count = len(list(folder.glob(f"{kind}_*.pb")))
    return [onnx.numpy_helper.to_array(onnx.load_tensor(str(folder / f"{kind}_{n}.pb"))) for n in range(count)]


@cache
def load_cases():
    """All cases, by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ONNX makes its expected infinities by dividing by zero
        cases = [Case(test) for kind in KINDS for test in load_model_tests(kind=kind)]
    assert len({case.name for case in cases}) == len(cases)
    return sorted(cases, key=lambda case: case.name)


@dataclass(frozen=True)
class Exam:
    """A case that ONNX Runtime passes in process and the protocol can carry."""

    case: Case
    inputs: tuple[tuple[str, str], ...]
    outputs: tuple[tuple[str, str], ...]

    def check(self, ask):
        """Asks for each data set and compares as ONNX's runner does; AssertionError where an answer differs."""
        for inputs, expected in self.case.data_sets():
            answers = ask(self, inputs)
            Runner.assert_similar_outputs(expected, answers, self.case.test.rtol, self.case.test.atol)


class LeftOutError(Exception):
    """Why a case is no exam, as a computed reason."""


def examine(case):
    """The exam that a case makes.

    Raises:
        LeftOutError: the protocol has no form for one of its types, or ONNX Runtime doesn't pass it in process.
    """
    options = ort.SessionOptions()
    options.log_severity_level = 4
    try:
        session = ort.InferenceSession(case.model, options, providers=["CPUExecutionProvider"])
    except Exception as fault:
        raise LeftOutError(f"ONNX Runtime doesn't load it: {type(fault).__name__}") from fault
    exam = Exam(case, signature(session.get_inputs()), signature(session.get_outputs()))
    try:
        exam.check(lambda _, inputs: run(session, exam, inputs))
    except AssertionError as fault:
        raise LeftOutError("ONNX Runtime's own answer differs") from fault
    except Exception as fault:
        raise LeftOutError(f"ONNX Runtime doesn't run it: {type(fault).__name__}") from fault
    return exam


def signature(values):
    """Names and datatypes."""
    if strange := [value.type for value in values if value.type not in DATATYPES]:
        raise LeftOutError(f"the protocol has no {strange[0]}")
    return tuple((value.name, DATATYPES[value.type]) for value in values)


def run(session, exam, inputs):
    """In process; numbers of BF16 go in and out of ONNX Runtime by their bits."""
    feeds = {}
    for (name, datatype), array in zip(exam.inputs, inputs, strict=False):
        assert array.dtype == DTYPES[datatype], f"{name} takes {datatype}, the case gives {array.dtype}"
        feeds[name] = array
    if "BF16" not in (datatype for _, datatype in (*exam.inputs, *exam.outputs)):
        return session.run(None, feeds)
    values = session.run_with_ort_values(None, {name: ort_value(array) for name, array in feeds.items()})
    return [from_ort_value(value) for value in values]


def ort_value(array):
    if array.dtype != ml_dtypes.bfloat16:
        return ort.OrtValue.ortvalue_from_numpy(array)
    bits = np.array(array.view(np.uint16), order="C")
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, onnx.TensorProto.BFLOAT16)


def from_ort_value(value):
    if value.data_type() != "tensor(bfloat16)":
        return value.numpy()
    raw = ctypes.string_at(value.data_ptr(), 2 * math.prod(value.shape()))
    return np.frombuffer(raw, ml_dtypes.bfloat16).reshape(value.shape())


def stage(exams, folder):
    """A repository of the exams' models; measuring when each pays in batches would take most of the time."""
    for exam in exams:
        place = folder / exam.case.name
        place.mkdir()
        (place / "model.onnx").write_bytes(exam.case.model)
        (place / "model.toml").write_text("batching = false\n")


def sit(exams, server):
    """Puts all exams in both forms.

    Returns:
        How many passed in each form, and the failures with their reasons.
    """
    passed, failures = Counter(), {}
    for form in FORMS:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        for exam in exams:
            try:
                exam.check(asker(connection, form))
                passed[form] += 1
            except Exception as fault:  # noqa: BLE001 # whatever it is, the exam is failed and the next one goes on
                connection.close()
                failures[f"{exam.case.name} ({form})"] = f"{type(fault).__name__}: {fault}"
        connection.close()
    return passed, failures


def select():
    """The exams, and a count of the reasons that left the other cases out."""
    exams, reasons = [], Counter()
    for case in load_cases():
        try:
            exams.append(examine(case))
        except LeftOutError as reason:
            reasons[str(reason)] += 1
    return exams, reasons


def hold(folder, **settings):
    """All of it on one worker.

    Returns:
        The exams, the reasons for those left out, how many passed in each form, and the failures.
    """
    exams, reasons = select()
    models = Path(folder, "models")
    models.mkdir()
    stage(exams, models)
    with Server(folder, models=models, pinion_ready="all", **settings) as server:
        return exams, reasons, *sit(exams, server)


def main(arguments):
    """Prints the result; 1 if an exam was failed."""
    with tempfile.TemporaryDirectory() as folder:
        exams, reasons, passed, failures = hold(folder, **dict(setting.split("=", 1) for setting in arguments))
    lines = [f"{len(exams)} exams: {passed['json']} passed in JSON, {passed['binary']} in binary"]
    lines += [f"{count:5} left out: {reason}" for reason, count in reasons.most_common()]
    lines += [f"FAILED {name}: {fault}" for name, fault in failures.items()]
    sys.stdout.write("\n".join(lines) + "\n")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
