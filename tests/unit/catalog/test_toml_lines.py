import pytest

from service.catalog.toml_lines import key_lines, line_of, read_toml
from service.errors import ConfigurationError

TEXT = '''# a comment with key = 1
a = 1 # x [
b.c."d=]\\n" = [ "x]", # ]
 """e = 1
]""", {f = "}"}
]
[ image . "x y" ]
layout = 'a"b'
[[p]]
n = """""a"""""
[[p]]
n = \'\'\'
[z]
\'\'\'
last = 1'''


def test_every_key_and_table_has_the_line_where_it_begins():
    assert key_lines(TEXT) == {
        ("a",): 2,
        ("b",): 3,
        ("b", "c"): 3,
        ("b", "c", "d=]\n"): 3,
        ("image",): 7,
        ("image", "x y"): 7,
        ("image", "x y", "layout"): 8,
        ("p",): 9,
        ("p", "n"): 10,
        ("p", "last"): 15,
    }


def test_line_ends_of_windows_count_once():
    assert key_lines("a = 1\r\n\r\nb = 2\r\n") == {("a",): 1, ("b",): 3}


def test_a_place_without_a_line_has_that_of_the_table_around_it():
    assert line_of({("a",): 4}, ("a", "b", "c")) == 4
    assert line_of({("a",): 4}, ()) == 1


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"a = 1\nb =\n", "model.toml:2: this is no TOML: Invalid value"),
        (b"a = 1\n[b", "model.toml:2: this is no TOML: "),
        (b"a = 1\na = 2\n", "model.toml:2: this is no TOML: Cannot overwrite a value"),
        (b"a = " + b"9" * 5000, "model.toml:1: this is no TOML: Exceeds the limit"),
        (b"a = '\xff'", "model.toml: expected UTF-8 text, got the byte 0xff at offset 5"),
        (b"a = " + b"[" * 100_000, "model.toml: brackets are nested too deeply"),
    ],
)
def test_what_is_no_toml_is_told_with_its_line(tmp_path, content, told):
    path = tmp_path / "model.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError) as fault:
        read_toml(path)
    assert str(fault.value).startswith(told)


def test_a_file_that_cannot_be_read_is_told(tmp_path):
    with pytest.raises(ConfigurationError, match="model.toml: it can't be read: No such file"):
        read_toml(tmp_path / "model.toml")


def test_a_byte_order_mark_is_no_fault(tmp_path):
    path = tmp_path / "model.toml"
    path.write_bytes(b"\xef\xbb\xbfa = 1\n")
    assert read_toml(path) == ({"a": 1}, {("a",): 1})
