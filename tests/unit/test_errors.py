from service import errors


def subclasses(kind):
    for child in kind.__subclasses__():
        yield child
        yield from subclasses(child)


def test_every_kind_has_its_own_address_title_and_sentence():
    kinds = list(subclasses(errors.ServiceError))
    assert len({kind.slug for kind in kinds}) == len(kinds)
    for kind in kinds:
        assert 400 <= kind.status < 600
        assert kind.title
        assert kind.__doc__


def test_every_kind_stands_in_the_tree_at_the_top():
    for kind in (kind for kind in subclasses(errors.PinionError) if kind.__module__ == errors.__name__):
        assert kind.__name__ in errors.__doc__


def test_the_body_has_both_vocabularies_and_only_what_applies():
    error = errors.ShapeMismatch("no", pointer="/inputs/0/shape", expected=[1], received=[2])
    assert error.body("id") == {
        "error": "no",
        "type": "/problems/shape-mismatch",
        "title": "Shape does not fit",
        "status": 400,
        "instance": "urn:request:id",
        "pointer": "/inputs/0/shape",
        "expected": [1],
        "received": [2],
    }
    assert set(errors.UnknownModel("no").body("id")) == {"error", "type", "title", "status", "instance"}
