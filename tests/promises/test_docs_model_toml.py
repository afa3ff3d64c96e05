import tomllib
from pathlib import Path

from service.catalog.config import load_config
from service.catalog.layout import scan
from service.catalog.model_toml_page import document

PAGE = Path(__file__).parents[2] / "docs" / "model-toml.md"


def test_the_page_is_the_one_written_from_the_rows():
    assert PAGE.read_text(encoding="utf-8") == document()


def test_the_example_of_the_page_is_read(tmp_path):
    example = document().split("```toml\n")[1].split("```")[0]
    (tmp_path / "m.onnx").touch()
    (tmp_path / "labels.txt").write_text("cat\ndog\n")
    (tmp_path / "m.toml").write_text(example)
    config = load_config(scan(tmp_path, None).models["m"]).config
    assert set(tomllib.loads(example)) == {"providers", "max_batch_size", "labels", "image"}
    assert config.labels == (("scores", ("cat", "dog")),)
    assert dict(config.images)["pixels"].std == (0.229, 0.224, 0.225)


def test_the_example_of_a_text_model_is_read(tmp_path):
    example = document().split("```toml\n")[2].split("```")[0]
    (tmp_path / "m.onnx").touch()
    (tmp_path / "m.toml").write_text(example)
    padding = load_config(scan(tmp_path, None).models["m"]).config.padding
    assert padding.mask == "attention_mask"
    assert [(padded.name, padded.axis, padded.value) for padded in padding.inputs] == [
        ("input_ids", 1, 1),
        ("token_type_ids", 1, None),
    ]
