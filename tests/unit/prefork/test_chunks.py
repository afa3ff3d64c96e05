import pytest

from service.prefork.chunks import ChunkedBody
from service.prefork.refusals import Refusal

BODY = b'4;a=b;c="d;e"\r\nabcd\r\n00a\r\n0123456789\r\n0\r\nX: y\r\nZ: w\r\n\r\n'


def refused(data, limit_bytes=1000):
    with pytest.raises(Refusal) as caught:
        ChunkedBody(limit_bytes).feed(data)
    return caught.value


def test_chunks_are_joined_and_the_next_request_is_left_over():
    chunked = ChunkedBody(1000)
    assert chunked.feed(BODY + b"GET / HTTP/1.1\r\n")
    assert (chunked.body, chunked.rest) == (b"abcd0123456789", b"GET / HTTP/1.1\r\n")


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 11, 64])
def test_chunks_may_arrive_in_any_pieces(size):
    chunked = ChunkedBody(1000)
    pieces = [BODY[at : at + size] for at in range(0, len(BODY), size)]
    assert [chunked.feed(piece) for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    assert (chunked.body, chunked.rest) == (b"abcd0123456789", b"")


def test_an_empty_body_is_whole():
    chunked = ChunkedBody(0)
    assert chunked.feed(b"0\r\n\r\n")
    assert (chunked.body, chunked.rest) == (b"", b"")


@pytest.mark.parametrize(
    "data",
    [
        b"x\r\n",
        b"\r\n",
        b"-1\r\n",
        b"+1\r\n",
        b"0x1\r\n",
        b"1_0\r\n",
        b" 1\r\na\r\n",
        b"1 \r\na\r\n",
        b"1;\r\na\r\n",
        b"1;a=\r\na\r\n",
        b'1;a="b\r\na\r\n',
        b"1\na\n",
        b"1;a\nb\r\n",
        b"1\r\nab",
        b"1\r\na\n",
        b"0\r\nHost: a\r\n\r\n",
        b"0\r\ncontent-length: 1\r\n\r\n",
        b"0\r\nX : y\r\n\r\n",
        b"0\r\nX: y\r\n z\r\n\r\n",
        b"0\r\nX: y\nZ: w",
        b"0\r\nContent-Type: a\r\nContent-Type: a\r\n\r\n",
    ],
)
def test_what_could_be_read_differently_is_refused(data):
    assert refused(data).status == 400


@pytest.mark.parametrize("data", [b"a" * 9000, b"1;" + b"a" * 9000 + b"\r\n"])
def test_a_size_line_has_an_end(data):
    assert "8190" in refused(data).sentence


@pytest.mark.parametrize(
    "trailers", [b"X: " + b"y" * 9000 + b"\r\n", b"X: y\r\n" * 101, b"X: " + b"y" * 70_000, b"X: y\r\n" * 20_000]
)
def test_trailers_have_an_end(trailers):
    assert refused(b"0\r\n" + trailers + b"\r\n").status == 431


@pytest.mark.parametrize("size", [b"b", b"ffffffffffffffffffffffff"])
def test_a_chunk_over_the_limit_is_refused_before_it_arrives(size):
    fault = refused(size + b"\r\n", limit_bytes=10)
    assert fault.status == 413
    assert "10 bytes" in fault.sentence


def test_the_limit_is_of_all_chunks_together():
    chunked = ChunkedBody(10)
    assert not chunked.feed(b"6\r\nabcdef\r\n4\r\n")
    assert refused(b"6\r\nabcdef\r\n5\r\n", limit_bytes=10).status == 413


def test_dropped_trailers_do_not_count():
    assert ChunkedBody(0).feed(b"0\r\n" + b"X_Y: z\r\n" * 200 + b"\r\n")
