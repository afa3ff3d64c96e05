import orjson

from service.errors import ShapeMismatch
from service.web.answer import failure


def test_an_error_can_always_be_written():
    answer = failure(ShapeMismatch("too large \udcff", expected=[2**80], received="\udcff"), "id")
    status_line, _, parts = answer
    got = orjson.loads(b"".join(parts))
    assert int(status_line[:3]) == got["status"] == 400
    assert got["expected"] == f"[{2**80}]"
    assert got["error"] == "too large ?"
