"""A request head means to us what it means to gunicorn, or a listed section of a standard says otherwise."""

import pytest

from tests.data.http.corpus import CASES, PLAIN, Case
from tests.data.http.differences import DIFFERENCES, explanation
from tests.data.http.equality import compare
from tests.data.http.generated import generate
from tests.data.http.ours import Ours
from tests.data.http.outcome import Outcome
from tests.data.http.parts import head
from tests.data.http.reference import read_by_gunicorn


def test_the_corpus_has_the_size_it_promises():
    assert len(CASES) >= 400


def test_every_message_of_the_corpus_is_read_as_gunicorn_reads_it():
    result = compare(CASES.values())
    assert result.faults == []
    assert sum(result.equal.values()) > 0.9 * len(CASES)
    assert result.equal[0] > 400


def test_generated_messages_are_read_as_gunicorn_reads_them():
    result = compare(generate(seed=20_260_801, count=2000))
    assert result.faults == []
    assert result.equal[0] > 500
    assert result.equal[400] > 500


@pytest.mark.parametrize("status", [400, 414, 417, 431, 500, 501])
def test_the_corpus_reaches_every_refusal_of_gunicorn(status):
    assert any(read_by_gunicorn(case.message, case.around).status == status for case in CASES.values())


@pytest.mark.parametrize(
    ("message", "status"),
    [
        (head(host=None), 400),
        (head(host="a b"), 400),
        (head("Content-Length: 99999999999999999999"), 400),
        (head("Transfer-Encoding: x", "Content-Length: 1", "Content-Length: 1"), 501),
        (head("Expect: x", " folded"), 417),
    ],
)
def test_a_listed_difference_decides_for_the_standard(message, status):
    assert Ours(PLAIN).read(message).status == status


@pytest.mark.parametrize("value", ["te, close", "close, keep-alive", "keep-alive\r\nConnection: close"])
def test_close_anywhere_in_connection_ends_it(value):
    assert not Ours(PLAIN).read(head(f"Connection: {value}")).keep_alive


def test_a_difference_excuses_no_other_outcome():
    case = Case(head(host=None))
    theirs = read_by_gunicorn(case.message, case.around)
    assert explanation(case, theirs, Outcome(status=500)) is None
    assert explanation(case, theirs, Outcome(status=400)) is not None


def test_every_difference_names_its_section():
    assert [row.section for row in DIFFERENCES if not row.section.startswith("RFC ")] == []
