import gzip
import io

import pytest

from service.errors import BodyTooLarge, ClientStalled, MalformedBody
from service.web import intake


class Silent:
    def read(self, size):
        raise BlockingIOError


def environ(body=b"", **more):
    return {"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body)), **more}


@pytest.mark.parametrize("given", ["a", "order-7/ä".encode().decode("latin-1")[:7], "x" * 128, "a b c"])
def test_a_printable_request_id_is_kept(given):
    assert intake.request_id({"HTTP_X_REQUEST_ID": given}) == given


@pytest.mark.parametrize("given", ["", "x" * 129, "a\x00b", "a\tb", "é", " a", "a\x7f"])
def test_another_request_id_is_replaced(given):
    made = intake.request_id({"HTTP_X_REQUEST_ID": given})
    assert made != given
    assert len(made) == 32
    assert made != intake.request_id({})


def test_bodies_with_a_length_chunked_and_absent():
    assert intake.read_body(environ(b"abc"), 3) == b"abc"
    chunked = {"wsgi.input": io.BytesIO(b"abc"), "wsgi.input_terminated": True}
    assert intake.read_body(chunked, 3) == b"abc"
    assert intake.read_body({"wsgi.input": io.BytesIO(b"not mine")}, 3) == b""


def test_the_limit_holds_on_the_wire_and_after_decompression():
    with pytest.raises(BodyTooLarge, match="3 bytes"):
        intake.read_body(environ(b"abcd"), 3)
    with pytest.raises(BodyTooLarge):
        intake.read_body({"wsgi.input": io.BytesIO(b"abcd"), "wsgi.input_terminated": True}, 3)
    bomb = gzip.compress(bytes(1_000_000))
    with pytest.raises(BodyTooLarge, match="decompressed"):
        intake.read_body(environ(bomb, HTTP_CONTENT_ENCODING="gzip"), 10_000)


def test_clients_that_stop():
    with pytest.raises(MalformedBody, match="says 5 bytes, 3 came"):
        intake.read_body({**environ(b"abc"), "CONTENT_LENGTH": "5"}, 10)
    with pytest.raises(ClientStalled):
        intake.read_body({"wsgi.input": Silent(), "CONTENT_LENGTH": "5"}, 10)


def test_whatever_the_servers_reader_says_is_the_clients_fault():
    class Broken:
        def read(self, size):
            raise RuntimeError("bad chunk size")

    with pytest.raises(MalformedBody, match="bad chunk size"):
        intake.read_body({"wsgi.input": Broken(), "wsgi.input_terminated": True}, 10)
