import pytest
from gunicorn.config import Config

from service.prefork.head import HeadParser
from service.prefork.refusals import Refusal

PEER = ("192.0.2.7", 50_000)


class SocketName:
    def __init__(self, name):
        self.name = name


TCP = SocketName(("127.0.0.1", 8000))
UNIX = SocketName("/run/pinion.sock")
INFER = (
    b"POST /v2/models/iris/infer?a=b%20c HTTP/1.1\r\nHost: a.example:80\r\nContent-Type: application/json\r\n"
    b"Accept-Encoding: gzip, deflate\r\nContent-Length: 7\r\n\r\n"
)


def parser(**settings):
    cfg = Config()
    for name, value in settings.items():
        cfg.set(name, value)
    return HeadParser(cfg)


def parse(head, peer=PEER, listener=TCP, **settings):
    return parser(**settings).parse(head, len(head), peer, listener)


def test_the_environ_says_what_the_client_sent():
    head = parse(INFER)
    expected = {
        "REQUEST_METHOD": "POST",
        "RAW_URI": "/v2/models/iris/infer?a=b%20c",
        "PATH_INFO": "/v2/models/iris/infer",
        "QUERY_STRING": "a=b%20c",
        "SCRIPT_NAME": "",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "8000",
        "REMOTE_ADDR": "192.0.2.7",
        "REMOTE_PORT": "50000",
        "HTTP_HOST": "a.example:80",
        "HTTP_ACCEPT_ENCODING": "gzip, deflate",
        "CONTENT_TYPE": "application/json",
        "CONTENT_LENGTH": "7",
        "wsgi.url_scheme": "http",
        "wsgi.multithread": False,
    }
    assert {key: head.environ[key] for key in expected} == expected
    assert "wsgi.input" not in head.environ


def test_the_frame_says_how_the_body_ends():
    head = parse(INFER)
    assert (head.version, head.body_length, head.chunked) == ((1, 1), 7, False)
    assert (head.keep_alive, head.expect_continue) == (True, False)


def test_only_the_head_is_read():
    head = parser().parse(INFER + b"garbage", len(INFER), PEER, TCP)
    assert head.body_length == 7


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_can_hold_a_head(kind):
    head = parser().parse(kind(INFER), len(INFER), PEER, TCP)
    assert head.environ["CONTENT_LENGTH"] == "7"


def test_a_remembered_head_gives_each_request_an_environ_of_its_own():
    reader = parser()
    heads = [reader.parse(INFER, len(INFER), PEER, TCP) for _ in range(4)]
    for head in heads:
        head.environ["app"] = "was here"
    assert "app" not in reader.parse(INFER, len(INFER), PEER, TCP).environ
    assert len({id(head.environ) for head in heads}) == 4


def test_a_remembered_head_names_the_client_of_this_request():
    reader = parser()
    peers = [("192.0.2.7", 1), ("192.0.2.8", 2), ("192.0.2.9", 3), ("192.0.2.7", 4)]
    environs = [reader.parse(INFER, len(INFER), peer, TCP).environ for peer in peers]
    assert [(e["REMOTE_ADDR"], int(e["REMOTE_PORT"])) for e in environs] == peers


def test_what_a_proxy_may_say_a_stranger_may_not_though_the_bytes_are_the_same():
    reader, forwarded = parser(), INFER[:-2] + b"X-Forwarded-Proto: https\r\nSCRIPT_NAME: /v2\r\n\r\n"
    for _ in range(3):
        trusted = reader.parse(forwarded, len(forwarded), ("127.0.0.1", 1), TCP).environ
        stranger = reader.parse(forwarded, len(forwarded), PEER, TCP).environ
        assert (trusted["wsgi.url_scheme"], trusted["SCRIPT_NAME"]) == ("https", "/v2")
        assert trusted["PATH_INFO"] == "/models/iris/infer"
        assert (stranger["wsgi.url_scheme"], stranger["SCRIPT_NAME"]) == ("http", "")


def test_a_remembered_head_names_the_listener_of_this_request():
    reader = parser()
    other = SocketName(("127.0.0.1", 9000))
    for _ in range(3):
        ports = [reader.parse(INFER, len(INFER), PEER, place).environ["SERVER_PORT"] for place in (TCP, other)]
        assert ports == ["8000", "9000"]
        assert reader.parse(INFER, len(INFER), "", UNIX).environ["SERVER_NAME"] == "a.example"


def test_heads_with_an_id_of_their_own_are_all_read_right():
    reader = parser()
    for number in range(3000):
        head = INFER[:-2] + b"X-Request-Id: %d\r\n\r\n" % number
        assert reader.parse(head, len(head), PEER, TCP).environ["HTTP_X_REQUEST_ID"] == str(number)


@pytest.mark.parametrize(
    ("head", "status", "says"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 400, "Host"),
        (b"get / HTTP/1.1\r\nHost: a\r\n\r\n", 400, "capital letters"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400, "one Host"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX : y\r\n\r\n", 400, "name: value"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n", 400, "digits only"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 400, "end with chunked"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: br\r\n\r\n", 501, "'br'"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nExpect: more\r\n\r\n", 417, "100-continue"),
        (b"GET /" + b"a" * 4094 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 414, "limit_request_line"),
        (b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 100 + b"\r\n", 431, "limit_request_fields"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 8190 + b"\r\n\r\n", 431, "limit_request_field_size"),
        (b"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 400, "HTTP/1.1"),
    ],
)
def test_a_refusal_says_what_was_expected(head, status, says):
    with pytest.raises(Refusal) as caught:
        parse(head)
    assert caught.value.status == status
    assert says in caught.value.sentence
    assert len(caught.value.sentence) < 300


def test_a_refused_head_stays_refused():
    reader, head = parser(), b"GET / HTTP/1.1\r\nHost: a\r\nX : y\r\n\r\n"
    for _ in range(4):
        with pytest.raises(Refusal):
            reader.parse(head, len(head), PEER, TCP)


@pytest.mark.parametrize("block", [b"X : y", b"X: a\r\n b", b"X: a\nY: b", b"Content-Length: 1\r\nContent-Length: 1"])
def test_llhttp_is_asked_too(block):
    with pytest.raises(Refusal, match="can't be read"):
        parser()._check_by_llhttp(block)


def test_llhttp_sees_every_head_that_is_not_remembered(monkeypatch):
    reader, seen = parser(), []
    monkeypatch.setattr(reader, "_check_by_llhttp", seen.append)
    for _ in range(5):
        reader.parse(INFER, len(INFER), PEER, TCP)
    assert seen == [INFER[INFER.index(b"Host") : -4]] * 2


def test_an_upgrade_is_a_request_like_others():
    head = parse(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
    assert head.environ["HTTP_UPGRADE"] == "websocket"


def test_lenient_settings_are_taken_at_their_word():
    head = b"GET / HTTP/1.1\r\nHost: a\r\nX : y\r\n z\r\n\r\n"
    environ = parse(head, strip_header_spaces=True, permit_obsolete_folding=True).environ
    assert environ["HTTP_X"] == "y z"


def test_no_part_of_a_good_head_is_refused_while_it_arrives():
    reader = parser()
    for end in range(len(INFER)):
        for scanned in range(end + 1):
            assert reader.check_partial(INFER[:end], scanned) is None


@pytest.mark.parametrize(
    ("part", "status"),
    [
        (b"GET / HTTP/1.1\nHost: a", 400),
        (b"GET / HTTP/1.1\r\nHost: a\nX: y", 400),
        (b"get / HTTP/1.1\r\nHost", 400),
        (b"GET /" + b"a" * 5000, 414),
        (b"GET /" + b"a" * 5000 + b" HTTP/1.1\r\nX", 414),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * 820_000, 431),
    ],
)
def test_what_can_not_become_a_head_is_not_waited_for(part, status):
    with pytest.raises(Refusal) as caught:
        parser().check_partial(part)
    assert caught.value.status == status


@pytest.mark.parametrize("lookback", [0, 1, 2, 3])
@pytest.mark.parametrize("place", [place for place in range(38, len(INFER) - 4) if INFER[place - 1 : place] != b"\r"])
def test_a_bare_lf_is_found_wherever_it_comes(place, lookback):
    reader, head = parser(), INFER[:place] + b"\n" + INFER[place:]
    with pytest.raises(Refusal):
        for end in range(1, len(head) - 4):
            reader.check_partial(head[:end], max(end - 1 - lookback, 0))


def test_a_head_larger_than_what_is_remembered_is_read_each_time():
    reader, head = parser(), INFER[:-2] + b"Cookie: " + b"a" * 2000 + b"\r\n\r\n"
    for _ in range(4):
        assert len(reader.parse(head, len(head), PEER, TCP).environ["HTTP_COOKIE"]) == 2000
