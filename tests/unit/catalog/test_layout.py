import pytest

from service.catalog.layout import scan
from service.errors import ConfigurationError


@pytest.fixture
def tree(tmp_path):
    """Makes files (and folders, where a name ends in /) in a repository called `store`."""
    folder = tmp_path / "store"

    def make(*names, **texts):
        folder.mkdir(exist_ok=True)
        for name in names:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.mkdir(exist_ok=True) if name.endswith("/") else path.write_text(texts.get("text", ""))
        return folder

    return make


def files(folder, found):
    return {version: str(path.relative_to(folder)) for version, path in found.versions.items()}


LAYOUTS = {
    "flat": (["iris.onnx"], {"1": "iris.onnx"}, False),
    "folder": (["iris/model.onnx"], {"1": "iris/model.onnx"}, False),
    "versions": (
        ["iris/10/model.onnx", "iris/2/model.onnx"],
        {"2": "iris/2/model.onnx", "10": "iris/10/model.onnx"},
        True,
    ),
    "version as a folder": (
        ["iris/1/model.onnx/model.onnx", "iris/1/model.onnx/weights"],
        {"1": "iris/1/model.onnx/model.onnx"},
        True,
    ),
    "only file in that folder": (["iris/1/model.onnx/net.onnx"], {"1": "iris/1/model.onnx/net.onnx"}, True),
    "other name": (["iris/net.onnx"], {"1": "iris/net.onnx"}, False),
    "other name in a version": (["iris/7/net.onnx"], {"7": "iris/7/net.onnx"}, True),
    "model.onnx among others": (["iris/model.onnx", "iris/old.onnx"], {"1": "iris/model.onnx"}, False),
}


@pytest.mark.parametrize(("names", "expected", "versioned"), LAYOUTS.values(), ids=LAYOUTS)
def test_each_layout_is_found_without_configuration(tree, names, expected, versioned):
    folder = tree(*names)
    found = scan(folder, None)
    assert found.problems == {}
    assert list(found.models) == ["iris"]
    model = found.models["iris"]
    assert (files(folder, model), model.versioned) == (expected, versioned)
    assert list(model.versions) == list(expected)
    assert (model.config_path, model.triton_config_path) == (None, None)


def test_other_files_are_ignored(tree):
    names = ["README.md", "train.py", ".git/x.onnx", "..data/1/model.onnx", "__pycache__/x", "a.onnx", ".b.onnx"]
    folder = tree(*names, "c/model.onnx", "c/labels.txt", "c/README.md", "c/train.py", "c/assets/picture.png")
    found = scan(folder, None)
    assert sorted(found.models) == ["a", "c"]
    assert found.problems == {}


@pytest.mark.parametrize("odd", ["0", "01", "v2", "2a", "٣", "-1"])
def test_folders_that_are_no_versions_are_ignored(tree, odd):
    folder = tree(f"iris/{odd}/model.onnx", "iris/3/model.onnx")
    assert list(scan(folder, None).models["iris"].versions) == ["3"]


def test_an_empty_version_does_not_hide_the_others(tree):
    folder = tree("iris/1/model.onnx", "iris/2/")
    versions = files(folder, scan(folder, None).models["iris"])
    assert versions == {"1": "iris/1/model.onnx", "2": "iris/2/model.onnx"}


@pytest.mark.parametrize(("model_name", "expected"), [(None, "store"), ("resnet", "resnet")])
def test_a_folder_with_a_bare_model_is_that_model(tree, model_name, expected):
    folder = tree("model.onnx", "model.toml", "weights/part")
    found = scan(folder, model_name)
    assert list(found.models) == [expected]
    assert found.models[expected].versions == {"1": folder / "model.onnx"}
    assert found.models[expected].config_path == folder / "model.toml"
    assert found.problems == {}


def test_models_beside_a_bare_one_are_served_too(tree):
    assert sorted(scan(tree("model.onnx", "a.onnx", "b/1/model.onnx"), None).models) == ["a", "b", "store"]


@pytest.mark.parametrize("names", [["net.onnx"], ["2/model.onnx", "1/model.onnx"]])
def test_a_given_name_is_taken_for_a_folder_that_reads_as_one_model(tree, names):
    found = scan(tree(*names), "resnet")
    assert (list(found.models), found.problems) == (["resnet"], {})


def test_a_given_name_changes_nothing_for_a_repository_of_models(tree):
    assert sorted(scan(tree("a/model.onnx", "b.onnx"), "resnet").models) == ["a", "b"]


def test_kubernetes_links_are_followed(tree):
    folder = tree("..2024/model.onnx", "..2024/model.toml", "real/1/model.onnx")
    (folder / "..data").symlink_to("..2024")
    model = folder / "iris"
    model.mkdir()
    for name in ("model.onnx", "model.toml"):
        (model / name).symlink_to(f"../..data/{name}")
    found = scan(folder, None).models["iris"]
    assert (found.versions, found.config_path) == ({"1": model / "model.onnx"}, model / "model.toml")


def test_configurations_beside_the_model_are_found(tree):
    folder = tree("a.onnx", "a.toml", "b/1/model.onnx", "b/model.toml", "b/config.pbtxt")
    models = scan(folder, None).models
    assert (models["a"].config_path, models["a"].folder) == (folder / "a.toml", folder)
    b = models["b"]
    assert (b.config_path, b.triton_config_path) == (folder / "b/model.toml", folder / "b/config.pbtxt")
    assert b.folder == folder / "b"


def test_tritons_name_of_the_model_file_is_taken(tree):
    folder = tree("a/1/net.onnx", "a/1/model.onnx")
    (folder / "a/config.pbtxt").write_text('default_model_filename: "net.onnx"')
    assert scan(folder, None).models["a"].versions == {"1": folder / "a/1/net.onnx"}


PROBLEMS = {
    "empty folder": (["iris/"], "iris/ holds no model.onnx and no version folder"),
    "empty versions": (["iris/1/", "iris/2/"], "the version folders 1, 2 of iris/ hold no model.onnx"),
    "no model": (["iris/resnet.pt"], "iris/ holds no model.onnx"),
    "several": (["iris/b.onnx", "iris/a.onnx"], "iris/ holds a.onnx, b.onnx; call the one to serve model.onnx"),
    "several in a version": (["iris/4/b.onnx", "iris/4/a.onnx"], "4/ holds a.onnx, b.onnx; call the one to serve"),
    "file and versions": (["iris/model.onnx", "iris/2/model.onnx"], "both model.onnx and the versions 2"),
    "two sources": (["iris.onnx", "iris/model.onnx"], "both iris/ and iris.onnx are a model 'iris'"),
    "zero version": (["iris/0/model.onnx"], "whole number from 1 on, without leading zeros"),
    "configuration of a version": (["iris/1/model.onnx", "iris/1/model.toml"], "put it into iris/"),
}


@pytest.mark.parametrize(("names", "reason"), PROBLEMS.values(), ids=PROBLEMS)
def test_what_is_no_model_is_told_with_its_reason(tree, names, reason):
    found = scan(tree(*names, "good/model.onnx"), None)
    assert list(found.models) == ["good"]
    assert list(found.problems) == ["iris"]
    assert reason in found.problems["iris"]


def test_a_link_to_nothing_is_told(tree):
    folder = tree("good.onnx")
    (folder / "gone.onnx").symlink_to("nowhere")
    assert scan(folder, None).problems == {"gone": "gone.onnx is a link to nothing"}


def test_a_model_toml_that_would_be_ignored_is_told(tree):
    assert "call it iris.toml" in scan(tree("iris.onnx", "model.toml"), None).problems["model.toml"]


def test_a_broken_triton_configuration_is_told_where_the_layout_needs_it(tree):
    folder = tree("a/1/model.onnx")
    (folder / "a/config.pbtxt").write_text("default_model_filename = 3")
    assert scan(folder, None).problems["a"].startswith("config.pbtxt:1: expected ")


def test_a_model_file_name_with_a_folder_is_refused(tree):
    folder = tree("a/1/model.onnx")
    (folder / "a/config.pbtxt").write_text('\ndefault_model_filename: "../x.onnx"')
    assert "config.pbtxt:2: `default_model_filename` must be the name of a file" in scan(folder, None).problems["a"]


def test_folders_of_weights_beside_flat_models_are_no_problem(tree):
    found = scan(tree("big.onnx", "weights/part0"), None)
    assert (list(found.models), found.problems) == (["big"], {})


def test_a_name_that_is_not_utf8_is_told(tree):
    folder = tree("a.onnx")
    (folder / "b\udcff.onnx").write_bytes(b"")
    assert scan(folder, None).problems == {"b\\udcff": "its name isn't UTF-8; rename it"}


def test_any_file_name_is_a_model_name(tree):
    assert sorted(scan(tree("ä b%20.onnx", "x.y/model.onnx"), None).models) == ["x.y", "ä b%20"]


@pytest.mark.parametrize("make", [lambda path: None, lambda path: path.write_text("")], ids=["missing", "a file"])
def test_a_missing_repository_says_what_to_set(tmp_path, make):
    folder = tmp_path / "models"
    make(folder)
    with pytest.raises(ConfigurationError) as told:
        scan(folder, None)
    assert str(folder) in str(told.value)
    assert "set PINION_MODELS" in str(told.value)


def test_an_empty_repository_holds_nothing(tree):
    found = scan(tree(), None)
    assert (found.models, found.problems) == ({}, {})
