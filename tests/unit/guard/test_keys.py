import logging

import pytest

from service.errors import ConfigurationError
from service.guard import keyring, keys
from service.guard.keyring import Keyring


def made(identity="mobile", scopes=("infer",), models=None, rate=None):
    return keys.make(identity, scopes, models, rate)


def test_a_key_opens_and_its_neighbours_do_not():
    key, line = made(scopes=("infer", "metadata"), models="iris,digit*", rate=2.5)
    secret = key.partition(".")[2]
    assert secret not in line
    ring = Keyring(None, line)
    principal = ring.verify(key)
    assert (principal.key, principal.scopes, principal.requests_per_s) == ("mobile", {"infer", "metadata"}, 2.5)
    assert [principal.may_use(name) for name in ("iris", "digits", "other")] == [True, True, False]
    for wrong in ("", ".", key[:-1], key + "a", f"other.{secret}", secret, key.upper(), "mobile." + "é" * 43):
        assert ring.verify(wrong) is None


def test_each_line_that_cannot_be_read_is_told_and_no_secret_with_it():
    key, line = made()
    secret = key.partition(".")[2]
    text = "\n".join(
        [key, f"mobile {secret} infer", "# fine", line, line, line.replace("mobile", "b").replace("infer", secret)]
        + [line.replace("mobile", name) + more for name, more in (("c", " rate=fast"), ("d", f" {secret}"), ("ü", ""))]
    )
    with pytest.raises(ConfigurationError) as told:
        keys.read(text, "FILE")
    assert [problem.partition(":")[0] for problem in told.value.problems] == [
        f"FILE, line {n}" for n in (1, 2, 5, 6, 7, 8, 9)
    ]
    assert secret not in str(told.value)
    assert "python -m service key" in told.value.problems[0]
    assert "each id once, got 'mobile' again" in str(told.value)


def test_a_file_and_a_variable_together_number_every_key(tmp_path):
    (one, first), (two, second), (three, third) = (made(name) for name in "abc")
    (tmp_path / "keys").write_text(f"# who\n{second}\n\n{third}  # the third\n")
    ring = Keyring(tmp_path / "keys", first)
    assert [ring.verify(key).row for key in (one, two, three)] == [0, 1, 2]


def test_a_changed_file_counts_at_the_next_look_and_a_bad_one_never(tmp_path, caplog):
    (old, old_line), (new, new_line) = made("a"), made("b")
    path = tmp_path / "keys"
    path.write_text(old_line)
    ring = Keyring(path, None)
    entries = ring.entries
    ring.look()
    assert ring.entries is entries
    (tmp_path / "next").write_text(new_line)
    (tmp_path / "next").replace(path)
    assert ring.verify(new) is None
    ring.look()
    assert ring.verify(new).key == "b"
    assert ring.verify(old) is None
    with caplog.at_level(logging.ERROR):
        path.write_text(f"{new_line}\n{old}")
        ring.look()
        ring.look()
        path.unlink()
        ring.look()
    assert ring.verify(new).key == "b"
    said = [text for name, level, text in caplog.record_tuples if (name, level) == (keyring.__name__, logging.ERROR)]
    assert [message.count("those read before stay in use") for message in said] == [1, 1]
    assert old.partition(".")[2] not in caplog.text


def test_without_a_watch_a_request_looks_itself(tmp_path, monkeypatch):
    (_, old_line), (new, new_line) = made("a"), made("bc")
    (tmp_path / "keys").write_text(old_line)
    ring = Keyring(tmp_path / "keys", None)
    (tmp_path / "keys").write_text(new_line)
    assert ring.verify(new) is None
    ring._due_s = 0.0
    assert ring.verify(new).key == "bc"


def test_keys_that_were_never_read_let_nobody_in(tmp_path):
    ring = Keyring(tmp_path / "none", made()[1])
    assert ring.entries is None
    assert ring.verify("mobile.x") is None
    assert keyring.check(tmp_path / "none", None) == [
        f"PINION_API_KEYS_FILE: {tmp_path / 'none'} can't be read: No such file or directory"
    ]
    assert keyring.check(None, made()[1]) == []
