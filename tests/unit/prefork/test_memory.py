from service.prefork.memory import Memory


def test_a_text_is_worth_its_place_from_the_second_time_on():
    memory = Memory(10, 100)
    assert [memory.is_worth(b"a"), memory.is_worth(b"a"), memory.is_worth(b"b")] == [False, True, False]


def test_a_long_text_never_is():
    memory = Memory(10, 3)
    assert [memory.is_worth(b"abcd") for _ in range(3)] == [False] * 3


def test_it_is_emptied_when_it_is_full():
    memory = Memory(2, 100)
    for text in (b"a", b"b", b"c"):
        memory.keep(text, 1)
    assert dict(memory) == {b"c": 1}


def test_what_came_once_is_forgotten_in_the_end():
    memory = Memory(10, 100)
    memory.is_worth(b"first")
    for number in range(5000):
        memory.is_worth(b"%d" % number)
    assert len(memory._marks) <= 1024
    assert not memory.is_worth(b"first")
