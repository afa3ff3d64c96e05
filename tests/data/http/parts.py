"""What messages are made of: lines, fields and bodies, usual and unusual ones."""

from __future__ import annotations


def head(*fields: str | bytes, line: str | bytes = "POST /predict HTTP/1.1", host: str | None = "a.example") -> bytes:
    """A whole head from its lines."""
    lines = [line, *([] if host is None else [f"Host: {host}"]), *fields]
    return b"".join((text.encode("latin-1") if isinstance(text, str) else text) + b"\r\n" for text in lines) + b"\r\n"


def words(text: str) -> list[str]:
    """Parts between single spaces."""
    return text.split(" ")


METHODS = words(
    "GET HEAD POST PUT DELETE OPTIONS PATCH TRACE CONNECT PROPFIND PRI SOURCE M-SEARCH get Get GETT GET# G GE AB_C "
    "X.Y !#$ GET( G@T ABCDEFGHIJKLMNOPQRST ABCDEFGHIJKLMNOPQRSTU G\xc9T"
)
METHOD_SETTINGS = ("", "permit_unconventional_http_method", "casefold_http_method")
TARGETS = [
    *words("/ /a /a/b?c=d /a?b?c /a%20b /%41%zz /% /%e4%f6 /a+b /a;b=c /? /?# /#f /a#f?g // //a //a/b?c ///a"),
    *words("/./../a /a//b /%00 /%2f%2F /%0d%0a /a%2 /[x] /{y}|^` /\\x /'\" /<> /*? * ** a a.example:80 :80"),
    *words("http://b.example http://b.example/ http://b.example/c?d=e HTTP://B.example:80/c https://b/%20"),
    *words("http://[::1]/a http://[::1/a http://[x]/a http://u@b/c ://a a://b x://y/z?q#f file:///a ftp://b//c"),
    *words("mailto:a /a\x7f /a\x01 /a\tb /\xe4 /a\xa0 /\xc3\xa4 /a\rb"),
    *["", "/" + "a" * 4072, "/" + "a" * 4080, "/" + "a" * 4081, "/" + "a" * 9000, " /", "/ ", "/a b"],
]
VERSIONS = words(
    "HTTP/1.1 HTTP/1.0 HTTP/1.2 HTTP/1.9 HTTP/0.9 HTTP/2.0 HTTP/3.0 HTTP/1 HTTP/1. HTTP/11.1 HTTP/1.10 http/1.1 "
    "HTTPS/1.1 HTTP/1.1\t HTTP/+1.1 HTTP/1,1 HTTP/\xb2.1 FOO HTTP/1.1x RTSP/1.0"
)
LINES = {
    "nothing": b"\r\n\r\n",
    "empty line first": b"\r\n" + head(),
    "two empty lines first": b"\r\n\r\n" + head(),
    "LF first": b"\n" + head(),
    "space first": b" " + head(),
    "tab in the line": head(line="GET\t/ HTTP/1.1"),
    "two spaces": head(line="GET  / HTTP/1.1"),
    "two parts": head(line="GET /"),
    "one part": head(line="GET"),
    "empty request line": head(line=""),
    "LF line ends": head().replace(b"\r\n", b"\n"),
    "LF after the request line": head().replace(b"\r\n", b"\n", 1),
    "LF after a field": b"GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n",
    "LF LF at the end": b"GET / HTTP/1.1\r\nHost: a\n\n",
    "CR after a field": b"GET / HTTP/1.1\r\nHost: a\rX: y\r\n\r\n",
    "CR CR LF": b"GET / HTTP/1.1\r\nHost: a\r\r\nX: y\r\n\r\n",
    "CR in the request line": b"GET /\r HTTP/1.1\r\nHost: a\r\n\r\n",
    "NUL in the request line": b"GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n",
    "no end": b"GET / HTTP/1.1\r\nHost: a\r\n",
    "no end of the first line": b"GET / HTTP/1.1",
    "no end, too long": b"GET /" + b"a" * 5000,
    "no end, LF": b"GET / HTTP/1.1\nHost: a",
    "no end, LF in a field": b"GET / HTTP/1.1\r\nHost: a\nX: y",
    "no end, bad method": b"get / HTTP/1.1\r\nHost: a",
    "no end, only CR": b"\r",
    "no fields, 1.0": b"GET / HTTP/1.0\r\n\r\n",
    "no fields, 1.1": b"GET / HTTP/1.1\r\n\r\n",
    "two requests": head(line="GET /a HTTP/1.1") + head(line="GET /b HTTP/1.1"),
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "PROXY line": b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n" + head(),
}
FOLDS = {
    "space": head("X: a\r\n b"),
    "tab": head("X: a\r\n\tb"),
    "several": head("X: a\r\n b \r\n\t c"),
    "empty": head("X: a\r\n \r\n b"),
    "first line": b"GET / HTTP/1.1\r\n Host: a\r\n\r\n",
    "length": head("Content-Length:\r\n 3") + b"abc",
    "coding": head("Transfer-Encoding:\r\n chunked") + b"0\r\n\r\n",
    "control": head("X: a\r\n b\x01"),
    "long": head("X: a" + "\r\n " + "b" * 8000 + "\r\n c" * 100),
}
SPACES = {"space": "X : a", "tab": "X\t: a", "length": "Content-Length : 3", "coding": "Transfer-Encoding : chunked"}
FIELDS = [
    *(f"X{chr(code)}Y: z" for code in [*range(33, 48), *range(58, 65), *range(91, 97), *range(123, 128), 0xE4, 0xDF]),
    *(f"X: a{chr(code)}b" for code in [*range(32), 127, 128, 0x85, 0xA0, 0xFF]),
    *["X:", "X: ", "X:\t a\t ", "X: a: b", ": a", "X", "", "X a: b", "X: \xa0a\xa0", "X: \x85", "x-Y-z: a"],
    *["Proxy: evil", "X: a\r\nx: b", "X: a\r\nX: b\r\nY: c\r\nX: d", "X-Y: a\r\nX_Y: b", "Cookie: a\r\nCookie: b"],
    *["Content-Type: a\r\nContent-Type: a", "Content-Type:", "content-type: text/plain", "Upgrade: h2c"],
    "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings",
    "Upgrade: websocket\r\nConnection: upgrade",
    "TE: trailers",
]
LENGTHS = [
    *("3 03 0003 +3 -3 3.0 3e0 0x3 3_0 3,3 \xb2 \xbd 18446744073709551616 9223372036854775807 " + "0" * 30 + "3").split(
        " "
    ),
    "",
    " ",
    "3 ",
    "\t3\t",
    "3 3",
    "3;",
    "a",
    "9" * 30,
    "9" * 5000,
    "3\r\nContent-Length: 3",
    "3\r\nContent-Length: 4",
    *["3\r\ncontent-length:", "3, 3", "3\x00", "3\xa0", "2", "0", "4"],
]
CODINGS = [
    *["chunked", "Chunked", "CHUNKED", " chunked", "chunked ", "chunked\t", "\tchunked", "xchunked", "chunkedx", ""],
    *["gzip", "gzip, chunked", "gzip,chunked", "gzip\t, \tchunked", "chunked, gzip", "chunked, chunked", "identity"],
    *["identity, chunked", "chunked, identity", "deflate", "compress, chunked", "x-gzip, chunked", "br, chunked"],
    *["trailers", "chunked;q=1", "chunked,", ",chunked", ", chunked", '"chunked"', "chun\x0bked", "chunked\x00"],
    *["chunked\r\nTransfer-Encoding: chunked", "gzip\r\nTransfer-Encoding: chunked", "\xa0chunked", "chunked\x85"],
    "chunked\r\nTransfer-Encoding: gzip",
    "chunked\r\nTransfer-Encoding: identity",
    "foo\r\nTransfer-Encoding: chunked",
    "chunked\r\nTransfer_Encoding: chunked",
    "\r\nTransfer-Encoding: chunked",
    "gzip, gzip, chunked",
    "identity, gzip",
]
CONNECTIONS = [
    "close",
    "Close",
    "keep-alive",
    "Keep-Alive",
    "upgrade",
    "",
    "close, keep-alive",
    "keep-alive, close",
    "te, close",
    "close\r\nConnection: keep-alive",
    "keep-alive\r\nConnection: close",
    "x\r\nConnection: close",
    "closed",
    "keep-alive,",
]
EXPECTS = [
    "100-continue",
    "100-Continue",
    "100-continue ",
    "",
    "200-ok",
    "100-continue, x",
    "100-continue\r\nExpect: 100-continue",
]
HOSTS = [
    *["a", "a:80", "a:", ":80", "", "127.0.0.1:8000", "[::1]", "[::1]:8000", "[::1", "::1", "a:b", "a b", "a/b", "a@b"],
    *["a,b", "a\r\nHost: a", "a\r\nHost: b", "\xe4", "a?b", "a#b", "a%20b", "A.Example", "a\\b", "a_b", "a:80:81"],
]
FORWARDED = [
    *["X-Forwarded-Proto: https", "X-Forwarded-Proto: http", "X-Forwarded-Proto: HTTPS", "x-forwarded-ssl: on"],
    *["X-Forwarded-Proto: https\r\nX-Forwarded-Ssl: on", "X-Forwarded-Proto: https\r\nX-Forwarded-Ssl: off"],
    *["X-Forwarded-Proto: https\r\nX-Forwarded-Proto: https", "X-Forwarded-Protocol: ssl", "X_Forwarded_Proto: https"],
    *["X-Forwarded-Proto: https, http", "SCRIPT_NAME: /predict", "Script-Name: /predict", "SCRIPT_NAME: /x"],
    "script_name: /pre",
    "PATH_INFO: /x",
    "SCRIPT_NAME:",
    "SCRIPT_NAME: /pre\r\nSCRIPT_NAME: /predict",
    "REMOTE_USER: a",
    *["X-Forwarded-For: 1.2.3.4", "Forwarded: for=1.2.3.4", "X_Y: z", "X__Y: z\r\nX-_Y: w", "_: a", "Host_: a"],
    "SCRIPT_NAME: /%70redict",
    "Transfer_Encoding: chunked",
    "Content_Length: 3",
    "Content_Type: a\r\nContent_Type: b",
    *["X-Forwarded-Proto: https\r\nX-Forwarded-Ssl: off\r\nExpect: x", "Expect: x\r\nX-Forwarded-Proto: a"],
]
FORWARDING = {
    "": {},
    "refuse": {"header_map": "refuse"},
    "dangerous": {"header_map": "dangerous"},
    "any": {"forwarder_headers": "*"},
}
NETWORKS = {
    "all": {"forwarded_allow_ips": "*"},
    "none": {"forwarded_allow_ips": ""},
    "network": {"forwarded_allow_ips": "192.0.2.0/24,2001:db8::/32"},
    "own header": {"forwarded_allow_ips": "*", "secure_scheme_headers": {"X_FORWARDED_PROTO": "https"}},
    "tls": {"certfile": "cert.pem"},
}
CHUNKS = [
    "0\r\n\r\n",
    "3\r\nabc\r\n0\r\n\r\n",
    "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\nGET",
    "A\r\n0123456789\r\n0\r\n\r\n",
    "a\r\n0123456789\r\n0\r\n\r\n",
    "003\r\nabc\r\n000\r\n\r\n",
    "3;x\r\nabc\r\n0;y\r\n\r\n",
    "3;x=y\r\nabc\r\n0\r\n\r\n",
    '3;x="y;\\"z"\r\nabc\r\n0\r\n\r\n',
    "3 ;x\r\nabc\r\n0\r\n\r\n",
    "3; x = y\r\nabc\r\n0\r\n\r\n",
    "3 \r\nabc\r\n0\r\n\r\n",
    " 3\r\nabc\r\n0\r\n\r\n",
    "3;\r\nabc\r\n0\r\n\r\n",
    "3;=y\r\nabc\r\n0\r\n\r\n",
    '3;x="y\r\nabc\r\n0\r\n\r\n',
    "3;x\ry\r\nabc\r\n0\r\n\r\n",
    "3;x\ny\r\nabc\r\n0\r\n\r\n",
    "3;x\0\r\nabc\r\n0\r\n\r\n",
    "0x3\r\nabc\r\n0\r\n\r\n",
    "+3\r\nabc\r\n0\r\n\r\n",
    "-3\r\nabc\r\n0\r\n\r\n",
    "3_0\r\nabc\r\n0\r\n\r\n",
    "g\r\nabc\r\n0\r\n\r\n",
    "\r\nabc\r\n0\r\n\r\n",
    ";x\r\nabc\r\n0\r\n\r\n",
    "3\nabc\r\n0\r\n\r\n",
    "3\r\nabc\n0\r\n\r\n",
    "3\r\nabcd\r\n0\r\n\r\n",
    "3\r\nab\r\n0\r\n\r\n",
    "3\r\nabc0\r\n\r\n",
    "3\r\nabc",
    "3\r\nabc\r",
    "3\r\nab",
    "3",
    "",
    "3\r",
    "0\r\n",
    "0\r\n\r",
    "0\r\nX: y\r\n\r\n",
    "0\r\nX: y\r\nZ: w\r\n\r\nGET",
    "0\r\nHost: a\r\n\r\n",
    "0\r\nContent-Length: 3\r\n\r\n",
    "0\r\nTE: x\r\n\r\n",
    "0\r\nTransfer-Encoding: chunked\r\n\r\n",
    "0\r\nX : y\r\n\r\n",
    "0\r\nX\r\n\r\n",
    "0\r\nX: y\n\r\n",
    "0\r\nX: y\nZ: w\r\n\r\n",
    "0\r\n X: y\r\n\r\n",
    "0\r\nX: \x01\r\n\r\n",
    "0\r\nX_Y: z\r\n\r\n",
    "0\r\nExpect: x\r\n\r\n",
    "0\r\nTrailer: x\r\n\r\n",
    "0\n\n",
    "0\r\nContent-Type: a\r\nContent-Type: b\r\n\r\n",
    "0\r\nAuthorization: x\r\n\r\n",
    "0\r\nX-Forwarded-Proto: https\r\n\r\n",
    "0\r\nX: y",
    "0\r\nX: y\r\n",
    "0\r\nX: " + "y" * 9000 + "\r\n\r\n",
    "0\r\n" + "X: y\r\n" * 101 + "\r\n",
    "fffffffffffffffff\r\nabc",
    "00000000000000000000000003\r\nabc\r\n0\r\n\r\n",
    "3\r\nabc\r\n0\r\n\r\n\r\n",
    "\xb3\r\nabc\r\n0\r\n\r\n",
    "3;\xe4\r\nabc\r\n0\r\n\r\n",
]
LIMITS = {
    "100 fields": head(*["X: y"] * 99),
    "101 fields": head(*["X: y"] * 100),
    "102 fields, one bad": head(*["X: y"] * 100, "bad"),
    "102 fields, a bad one first": head("bad", *["X: y"] * 100),
    "102 fields, Expect first": head("Expect: x", *["X: y"] * 101),
    "102 fields, the last ones dropped": head(*["X: y"] * 98, *["X_Y: z"] * 10),
    "dropped fields and one too many": head(*["X_Y: z"] * 10, *["X: y"] * 100),
    "a field of 8190": head("X: " + "y" * 8185),
    "a field of 8191": head("X: " + "y" * 8186),
    "a field of 9000 with a control": head("X: \x01" + "y" * 9000),
    "a name of 9000": head("X" * 9000 + ": y"),
    "a dropped field of 9000": head("X_Y: " + "y" * 9000),
}
LIMIT_SETTINGS = {
    "": {},
    "few": {"limit_request_fields": 5, "limit_request_field_size": 40, "limit_request_line": 20},
    "none": {"limit_request_fields": 0, "limit_request_field_size": 0, "limit_request_line": 0},
    "most": {"limit_request_fields": 40_000, "limit_request_line": 9000},
}
