"""Content encodings: what comes in is read whole or refused, what goes out can be read by anyone."""

from __future__ import annotations

import gzip
import time
import zlib

import pytest

from service.errors import BodyTooLarge, MalformedBody, UnsupportedMedia
from service.wire.encodings import choose, compress, decompress

TEXT = b'{"inputs": []}' * 20
LIMIT = 1 << 20
RAW = zlib.compressobj(1, zlib.DEFLATED, -15)
RAW_TEXT = RAW.compress(TEXT) + RAW.flush()


@pytest.mark.parametrize(
    ("body", "encoding"),
    [
        (TEXT, "identity"),
        (gzip.compress(TEXT), "gzip"),
        (gzip.compress(TEXT), " GZip "),
        (gzip.compress(TEXT), "x-gzip"),
        (zlib.compress(TEXT), "deflate"),
        (RAW_TEXT, "deflate"),
        (zlib.compress(gzip.compress(TEXT)), "gzip, deflate"),
        (gzip.compress(TEXT[:100]) + gzip.compress(b"") + gzip.compress(TEXT[100:]), "gzip"),
    ],
)
def test_a_body_is_read_back(body, encoding):
    assert decompress(body, encoding, LIMIT) == TEXT


def test_bodies_longer_than_one_part_are_read_back():
    body = bytes(range(256)) * 4000
    assert decompress(gzip.compress(body, 0), "gzip", len(body)) == body


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
@pytest.mark.parametrize("cut", [0, 1, 10, -1])
def test_a_cut_stream_is_malformed(encoding, cut):
    body = compress(TEXT, encoding)[:cut]
    with pytest.raises(MalformedBody, match=f"{encoding}"):
        decompress(body, encoding, LIMIT)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_rubbish_is_malformed(encoding):
    with pytest.raises(MalformedBody, match=f"no valid {encoding} stream"):
        decompress(b"\xff" * 40, encoding, LIMIT)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_bytes_behind_the_stream_are_malformed(encoding):
    with pytest.raises(MalformedBody):
        decompress(compress(TEXT, encoding) + b"more", encoding, LIMIT)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_the_limit_is_exact(encoding):
    body = compress(TEXT, encoding)
    assert decompress(body, encoding, len(TEXT)) == TEXT
    with pytest.raises(BodyTooLarge, match=f"limit of {len(TEXT) - 1} bytes"):
        decompress(body, encoding, len(TEXT) - 1)


def test_members_add_up_to_the_limit():
    with pytest.raises(BodyTooLarge, match="limit of 500 bytes"):
        decompress(gzip.compress(TEXT) * 2, "gzip", 500)


def test_a_bomb_stops_at_the_limit():
    bomb = gzip.compress(bytes(200_000_000), 1)
    with pytest.raises(BodyTooLarge):
        decompress(bomb, "gzip", LIMIT)


def test_a_nested_bomb_stops_at_the_limit():
    bomb = gzip.compress(gzip.compress(bytes(100_000_000), 1))
    with pytest.raises(BodyTooLarge):
        decompress(bomb, "gzip, gzip", LIMIT)


def test_a_body_of_countless_members_is_refused_in_bounded_time():
    body = gzip.compress(b"") * 1_000_000
    started_s = time.process_time()
    with pytest.raises(MalformedBody, match="more than 10000 members"):
        decompress(body, "gzip", LIMIT)
    assert time.process_time() - started_s < 30


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, br", "compress"])
def test_an_unknown_encoding_says_what_is_read(encoding):
    with pytest.raises(UnsupportedMedia, match="expected gzip, deflate or identity") as caught:
        decompress(b"x", encoding, LIMIT)
    assert caught.value.headers == (("Accept-Encoding", "gzip, deflate"),)


def test_a_pile_of_encodings_is_refused():
    with pytest.raises(UnsupportedMedia, match="at most 3"):
        decompress(TEXT, ", ".join(["gzip"] * 50), LIMIT)


@pytest.mark.parametrize(
    ("accepted", "chosen"),
    [
        (None, None),
        ("", None),
        ("gzip", "gzip"),
        ("deflate", "deflate"),
        ("gzip, deflate", "gzip"),
        ("deflate, gzip;q=0.5", "deflate"),
        ("GZIP ; q=0.8", "gzip"),
        ("br", None),
        ("*", "gzip"),
        ("*;q=0", None),
        ("gzip;q=0, *", "deflate"),
        ("gzip;q=0", None),
        ("gzip;q=0.000", None),
        ("identity", None),
        ("identity, gzip;q=0.5", None),
        ("identity;q=0.5, gzip;q=1.0", "gzip"),
        ("gzip;q=high", None),
        ("gzip;q=nan", None),
        ("gzip;q=-1", None),
        ("gzip;q=2", None),
    ],
)
def test_the_answer_has_the_encoding_preferred(accepted, chosen):
    assert choose(accepted) == chosen


def test_gzip_and_zlib_read_what_is_compressed():
    assert gzip.decompress(compress(TEXT, "gzip")) == TEXT
    assert zlib.decompress(compress(TEXT, "deflate")) == TEXT
