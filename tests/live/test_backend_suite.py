"""Every case of ONNX's backend suite that ONNX Runtime passes in process passes over HTTP."""

import numpy as np
import pytest

from tests.live import backend_suite

# On the pinned versions; a machine with the locale en_US.UTF-8 has a few more.
AT_LEAST = 1690


@pytest.mark.timeout(600)
@pytest.mark.parametrize("settings", [{}, {"pinion_fast_json_bytes": "0"}], ids=["as-shipped", "simdjson"])
def test_the_whole_suite_in_json_and_in_binary(tmp_path, settings):
    exams, _, passed, failures = backend_suite.hold(tmp_path, **settings)
    assert failures == {}
    assert len(exams) >= AT_LEAST
    assert passed == {"json": len(exams), "binary": len(exams)}


def case(name):
    return next(case for case in backend_suite.load_cases() if case.name == name)


@pytest.mark.parametrize(
    "spoil",
    [lambda array: array + 0.1, lambda array: array.astype(np.float64), lambda array: array[..., None]],
    ids=["value", "dtype", "shape"],
)
def test_a_wrong_answer_fails_its_exam(spoil):
    exam = backend_suite.examine(case("test_add"))
    exam.check(lambda _, inputs: [inputs[0] + inputs[1]])
    with pytest.raises(AssertionError):
        exam.check(lambda _, inputs: [spoil(inputs[0] + inputs[1])])


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("test_identity_sequence", r"the protocol has no seq\(tensor\(float\)\)"),
        ("test_cast_FLOAT_to_FLOAT8E5M2", r"the protocol has no tensor\(float8e5m2\)"),
        ("test_adam", "ONNX Runtime doesn't load it"),
    ],
)
def test_a_case_is_left_out_for_a_computed_reason(name, reason):
    with pytest.raises(backend_suite.LeftOutError, match=reason):
        backend_suite.examine(case(name))
