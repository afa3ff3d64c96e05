import pytest

from service.__main__ import main
from service.guard.keyring import Keyring


def test_the_key_goes_to_stderr_and_its_line_to_stdout(capsys):
    assert main(["key", "mobile", "--models", "iris", "--rate", "100", "--scopes", "infer"]) == 0
    line, told = capsys.readouterr()
    key = told.splitlines()[-1]
    principal = Keyring(None, line).verify(key)
    assert (principal.key, principal.models, principal.requests_per_s) == ("mobile", ("iris",), 100)
    assert key.partition(".")[2] not in line


@pytest.mark.parametrize("words", [["a b"], ["a", "--scopes", "all"], ["a", "--rate", "0"], ["a", "--models", "x y"]])
def test_what_could_not_be_read_back_is_refused(capsys, words):
    assert main(["key", *words]) == 1
    line, told = capsys.readouterr()
    assert line == ""
    assert "the new key, line 1: expected" in told
