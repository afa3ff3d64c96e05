import pytest

from service.catalog.pbtxt import Message, parse
from service.errors import ConfigurationError


def plain(message):
    """A message as pairs of names and texts."""
    return [(at.name, plain(at.value) if isinstance(at.value, Message) else at.value.text) for at in message.fields]


READ = {
    'name: "a" # comment "x"\nmax: 4': [("name", "a"), ("max", "4")],
    "a { b: 1 } c: { d: 2 } e < f: 3 >": [("a", [("b", "1")]), ("c", [("d", "2")]), ("e", [("f", "3")])],
    "a: 1, b: 2; c: 3": [("a", "1"), ("b", "2"), ("c", "3")],
    "dims: [ 1, -1 ] dims: []": [("dims", "1"), ("dims", "-1")],
    "a [ { b: 1 }, { c: 2 } ]": [("a", [("b", "1")]), ("a", [("c", "2")])],
    "a: [{}]": [("a", [])],
    "kind: KIND_GPU f: 1.5e-3 g: .5f h: 0x1F i: -inf j: true k: - 7": [
        ("kind", "KIND_GPU"),
        ("f", "1.5e-3"),
        ("g", ".5f"),
        ("h", "0x1F"),
        ("i", "-inf"),
        ("j", "true"),
        ("k", "-7"),
    ],
    r"""a: 'x"\'\n\x41\101\u00e9\U0001F600\\' b: "p" 'q'""": [("a", "x\"'\nAAé\U0001f600\\"), ("b", "pq")],
    'a: "\\303\\244 ü"': [("a", "ä ü")],
    "": [],
    "# only a comment": [],
}


@pytest.mark.parametrize(("text", "expected"), READ.items())
def test_the_text_format_is_read(text, expected):
    assert plain(parse(text, "config.pbtxt")) == expected


def test_every_field_knows_its_line():
    message = parse('a: 1\nb {\n  c: "x"\n}\n\nd: 2', "config.pbtxt")
    a, b, d = message.fields
    assert (a.line, b.line, b.value.fields[0].line, d.line) == (1, 2, 3, 6)


def test_quoted_and_bare_words_differ():
    quoted, bare = parse('a: "true" b: true', "config.pbtxt").fields
    assert (quoted.value.quoted, bare.value.quoted) == (True, False)


REFUSED = {
    "a = 1": "config.pbtxt:1: expected a name, a value or one of : { } < > [ ] , ;, got '= 1'",
    "a 1": "config.pbtxt:1: expected a colon after a, got '1'",
    "\na:": "config.pbtxt:2: expected a value, got the end of the file",
    "a {\nb: 1": "config.pbtxt:2: expected the name of a field or }, got the end of the file",
    "a { b: 1 >": "config.pbtxt:1: expected the name of a field or }, got '>'",
    "a: [1 2]": "config.pbtxt:1: expected , or ], got '2'",
    "a: [1,": "config.pbtxt:1: expected a value, got the end of the file",
    "}": "config.pbtxt:1: expected the name of a field, got '}'",
    "a: 'x": "config.pbtxt:1: expected a name, a value or one of",
    "a: 'x\ny'": "config.pbtxt:1: expected a name, a value or one of",
    r"a: '\q'": r"config.pbtxt:1: expected an escape such as \n, \x41 or \101, got '\\q'",
    r"a: '\400'": "config.pbtxt:1: expected an escape",
    r"a: '\xff'": r"config.pbtxt:1: expected text in UTF-8, got b'\xff'",
    r"a: '\ud800'": "config.pbtxt:1: expected text in UTF-8",
    "[a]: 1": "config.pbtxt:1: expected the name of a field, got '['",
    "a: 1x": "config.pbtxt:1: expected a name, a value or one of",
    "a {" * 60: "config.pbtxt:1: expected at most 50 messages inside each other, got more",
}


@pytest.mark.parametrize(("text", "told"), REFUSED.items())
def test_what_is_not_the_text_format_is_told_with_its_line(text, told):
    with pytest.raises(ConfigurationError) as fault:
        parse(text, "config.pbtxt")
    assert str(fault.value).startswith(told)
