import dataclasses

import pytest

from service.catalog.config import ROWS, ModelConfig, load_config
from service.catalog.layout import scan
from service.catalog.padding_table import PaddingTable
from service.catalog.versions import Versions
from service.engine.options import CPU, EngineOptions, Provider
from service.errors import ConfigurationError
from service.schedule.padding import PaddedInput
from service.wire.images import ImageInput


@pytest.fixture
def load(tmp_path):
    """Loads the configuration of a model with the versions 1, 2 and 10."""
    folder = tmp_path / "m"

    def with_texts(toml=None, pbtxt=None, **more):
        for version in (1, 2, 10):
            (folder / str(version)).mkdir(parents=True, exist_ok=True)
            (folder / str(version) / "model.onnx").touch()
        for name, text in (("model.toml", toml), ("config.pbtxt", pbtxt)):
            if text is not None:
                (folder / name).write_text(text, encoding="utf-8")
        return load_config(scan(tmp_path, None).models["m"], **more)

    with_texts.folder = folder
    return with_texts


def problems(load, toml, pbtxt=None):
    with pytest.raises(ConfigurationError) as told:
        load(toml, pbtxt)
    return told.value.problems


def test_without_files_everything_has_its_default(load):
    loaded = load()
    assert loaded.config == ModelConfig()
    assert loaded.engine == EngineOptions()
    assert (loaded.notes, loaded.triton) == ((), {})
    assert loaded.config.timeout_s == 10.0
    assert loaded.config.served_versions(["1", "2", "10"]) == ["1", "2", "10"]


READ = {
    'providers = ["cuda", "CPUExecutionProvider"]': ("providers", (Provider("CUDAExecutionProvider"), CPU)),
    'providers = [{name = "openvino", options = {device_type = "CPU", n = 4, on = true}}]': (
        "providers",
        (Provider("OpenVINOExecutionProvider", (("device_type", "CPU"), ("n", "4"), ("on", "true"))),),
    ),
    '[[providers]]\nname = "TensorRT"\n[providers.options]\ntrt_fp16_enable = false': (
        "providers",
        (Provider("TensorrtExecutionProvider", (("trt_fp16_enable", "false"),)),),
    ),
    'on_missing_provider = "next"': ("on_missing_provider", "next"),
    "threads = 2": ("threads", 2),
    'graph_optimization = "off"': ("graph_optimization", "off"),
    "free_dimensions = {batch = 1, sequence = 128}": ("free_dimensions", (("batch", 1), ("sequence", 128))),
    "spin = true": ("spin", True),
    "spin_duration_us = 1000": ("spin_duration_us", 1000),
    "memory_pattern = false": ("memory_pattern", False),
    "memory_arena = false": ("memory_arena", False),
    '[entries]\n"session.set_denormal_as_zero" = true\n"a.b" = "c"': (
        "entries",
        (("session.set_denormal_as_zero", "1"), ("a.b", "c")),
    ),
    "batching = false": ("batching", False),
    "exact = true": ("exact", True),
    "max_batch_size = 16": ("max_batch_size", 16),
    "max_delay_us = 500": ("max_delay_us", 500),
    "timeout_s = 2": ("timeout_s", 2.0),
    "warm_up_runs = 0": ("warm_up_runs", 0),
    'versions = "latest"': ("versions", Versions(latest=1)),
    'versions = "all"': ("versions", Versions()),
    "versions = {latest = 2}": ("versions", Versions(latest=2)),
    'versions = [1, "10"]': ("versions", Versions(listed=("1", "10"))),
    'labels = {y = ["cat", "dog"]}': ("labels", (("y", ("cat", "dog")),)),
    '[image.x]\nlayout = "NCHW"\nsize = [224, 192]': ("images", (("x", ImageInput("NCHW", 224, 192)),)),
    '[image."a b"]\nlayout = "HW"\nsize = "any"\nchannels = "L"\nscale = 2\nmean = 1\nstd = [4]\nresize = "pad"': (
        "images",
        (("a b", ImageInput("HW", None, None, "L", 2.0, (1.0,), (4.0,), "pad")),),
    ),
    '[image.x]\nlayout = "HWC"\nsize = "any"\nmean = [1, 2, 3.5]': (
        "images",
        (("x", ImageInput("HWC", None, None, mean=(1.0, 2.0, 3.5))),),
    ),
    "[padding]\ninputs = {ids = {}}": ("padding", PaddingTable((PaddedInput("ids", 1, None),))),
    '[padding]\nmask="m"\nmax_waste=0.5\n[padding.inputs.ids]\naxis = 2\nvalue = "-"\n[padding.inputs.m]\nvalue = 0': (
        "padding",
        PaddingTable((PaddedInput("ids", 2, "-"), PaddedInput("m", 1, 0)), "m", 0.5),
    ),
}


@pytest.mark.parametrize(("toml", "expected"), READ.items(), ids=list(READ))
def test_each_key_is_read(load, toml, expected):
    field, value = expected
    config = load(toml).config
    assert getattr(config, field) == value
    assert config == dataclasses.replace(ModelConfig(), **{field: value})


def test_every_row_is_read_by_a_test():
    fields = {field for field, _ in READ.values()} | {"warm_up"}
    assert fields == {"images" if row.key == "image" else row.key for row in ROWS}


REFUSED = {
    "max_batchsize = 4": "model.toml:1: `max_batchsize`: unknown key; did you mean `max_batch_size`?",
    "max_batch_size = 0": "`max_batch_size`: expected a whole number from 1 to 2147483647, got 0",
    "max_batch_size = 1.5": "whole number from 1 to 2147483647, got 1.5",
    "max_batch_size = true": "whole number from 1 to 2147483647, got true",
    "threads = 99999999999": "`threads`: expected a whole number from 1 to 1024, got 99999999999",
    "timeout_s = 0": "`timeout_s`: expected a number above 0, got 0",
    "timeout_s = inf": "`timeout_s`: expected a number above 0, got inf",
    'timeout_s = "1"': "`timeout_s`: expected a number above 0, got '1'",
    'spin = "yes"': "`spin`: expected true or false, got 'yes'",
    "spin = 1": "`spin`: expected true or false, got 1",
    'graph_optimization = "ALL"': "expected one of all, extended, basic, off, got 'ALL'",
    "graph_optimization = []": "expected one of all, extended, basic, off, got []",
    "providers = []": '`providers`: expected a list such as ["cuda", "cpu"], got []',
    'providers = "cuda"': "`providers`: expected a list such as",
    'providers = ["gpu"]': "`providers`: expected one of acl, cann, coreml, cpu, cuda",
    'providers = ["CUDA_ExecutionProvider"]': "(did you mean `CUDAExecutionProvider`?), got 'CUDA_ExecutionProvider'",
    'providers = ["tensor_rt"]': "an execution provider (did you mean `tensorrt`?), got 'tensor_rt'",
    "providers = [1]": "`providers`: expected one of acl, cann, coreml, cpu, cuda",
    'providers = ["cpu", "CPUExecutionProvider"]': "`providers`: CPUExecutionProvider is listed twice",
    'providers = [{nam = "cpu"}]': "`name` is missing",
    'providers = [{name = "cpu", options = {a = [1]}}]': "expected a text, a number, true or false, got [1]",
    'providers = [{name = "cpu", options = 1}]': "expected a table, got 1",
    "free_dimensions = {n = -1}": "`free_dimensions.n`: expected a whole number from 1",
    "free_dimensions = 1": "`free_dimensions`: expected a table, got 1",
    "entries = {a = []}": "`entries.a`: expected a text, a number, true or false, got []",
    'versions = "newest"': '`versions`: expected "all", "latest", {latest = 2} or a list',
    "versions = []": "`versions`: expected",
    "versions = {latest = 0}": "`versions`: expected",
    "versions = [0]": "`versions`: expected",
    "versions = [3]": "model.toml:1: `versions` lists 3; the model has 1, 2, 10",
    "labels = {y = []}": "`labels.y`: expected a list of texts, or the name of a file",
    "labels = {y = [1]}": "`labels.y`: expected a list of texts",
    'labels = {y = "gone.txt"}': "`labels.y`: expected a file that is there",
    'labels = {y = "../x.txt"}': "`labels.y`: expected a file inside the model's folder, got '../x.txt'",
    'labels = {y = "/etc/passwd"}': "`labels.y`: expected a file inside the model's folder",
    'warm_up = "a.json"': "`warm_up`: expected a list of texts",
    'warm_up = ["gone.json"]': "`warm_up`: expected a file that is there",
    "image = 3": "`image`: expected a table, got 3",
    "image.x = 3": "`image.x`: expected a table, got 3",
    '[image.x]\nlayout = "NCHW"': "model.toml:1: `image.x`: `size` is missing",
    '[image.x]\nsize = "any"\nlayout = "NCWH"': "model.toml:3: `image.x.layout`: expected one of NCHW, NHWC",
    '[image.x]\nlayout = "HW"\nsize = "any"': "model.toml:2: `image.x.layout`: HW has no axis for RGB",
    '[image.x]\nlayout = "HWC"\nsize = [0, 1]': "model.toml:3: `image.x.size`: expected [height, width] in pixels",
    '[image.x]\nlayout = "HWC"\nsize = [1]': "`image.x.size`: expected [height, width] in pixels",
    '[image.x]\nlayout = "HWC"\nsize = 224': "`image.x.size`: expected [height, width] in pixels",
    '[image.x]\nlayout = "HWC"\nsize = "any"\nmean = [1, 2]': "`image.x.mean`: expected a number, or a list of one",
    '[image.x]\nlayout = "HWC"\nsize = "any"\nstd = 0': "`image.x.std`: expected numbers other than 0",
    '[image.x]\nlayout = "HWC"\nsize = "any"\nchannels = "L"\nmean = [1, 2, 3]': (
        "`image.x.mean`: expected 1 or 1 numbers"
    ),
    "padding = true": "`padding`: expected a table, got true",
    '\n[padding]\nmask = "m"': "model.toml:2: `padding`: `inputs` is missing",
    "padding.inputs = {}": "`padding.inputs`: expected a table with at least one input",
    "[padding]\ninputs = {ids = {}}\nmask = 3": "model.toml:3: `padding.mask`: expected the name of an input, got 3",
    "[padding]\ninputs = {ids = {axis = 0}}": "`padding.inputs.ids.axis`: expected a whole number from 1 to 63, got 0",
    "[padding]\ninputs = {ids = {value = []}}": "`padding.inputs.ids.value`: expected a number, true, false or a text",
    "[padding]\ninputs = {ids = {pad = 0}}": "`padding.inputs.ids.pad`: unknown key; the keys here are axis, value",
    "padding = {inputs = {ids = {}}, max_waste = 1}": "`padding.max_waste`: expected a number above 0 and below 1",
    "padding = {inputs = {ids = {}}, max_waste = 0}": "`padding.max_waste`: expected a number above 0 and below 1",
    '[padding]\nmask = "m"\ninputs = {m = {value = 1}}': "`padding.inputs.m.value`: expected 0, since it is the mask",
}


@pytest.mark.parametrize(("toml", "told"), REFUSED.items(), ids=list(REFUSED))
def test_a_bad_value_is_told_with_what_was_expected(load, toml, told):
    found = problems(load, toml)
    assert len(found) == 1 or "nam " in toml
    assert any(told in problem for problem in found), found


def test_everything_wrong_is_told_at_once_each_with_its_line(load):
    toml = 'thread = 1\nspin = 3\n\n[image.x]\nlayout = "XY"\nsize = [1, 2, 3]\n[entries]\na = []\n'
    told = problems(load, toml, "max_batch_size: -1\nnonsense: 1\nplatform: 'tensorrt_plan'")
    assert [problem.split(": ")[:2] for problem in told] == [
        ["model.toml:1", "`thread`"],
        ["model.toml:2", "`spin`"],
        ["model.toml:5", "`image.x.layout`"],
        ["model.toml:6", "`image.x.size`"],
        ["model.toml:8", "`entries.a`"],
        ["config.pbtxt:1", "`max_batch_size` must be a whole number from 0 on, got '-1'"],
        ["config.pbtxt:3", "`platform` is 'tensorrt_plan'; only onnxruntime_onnx is served here"],
    ]


def test_labels_come_from_a_file_beside_the_model(load):
    load.folder.mkdir()
    (load.folder / "labels.txt").write_text("cat\nbig dog\nüber\n", encoding="utf-8")
    assert load('labels = {y = "labels.txt"}').config.labels == (("y", ("cat", "big dog", "über")),)


@pytest.mark.parametrize(
    ("content", "told"),
    [(b"", "it is empty"), (b"\n\n", "it is empty"), (b"\xff", "a file of UTF-8 text with one label a line")],
)
def test_a_bad_file_of_labels_is_told(load, content, told):
    load.folder.mkdir()
    (load.folder / "labels.txt").write_bytes(content)
    assert told in problems(load, '\nlabels = {y = "labels.txt"}')[0]


def test_a_link_out_of_the_folder_is_refused(load, tmp_path):
    load.folder.mkdir()
    (tmp_path / "secret").write_text("x")
    (load.folder / "labels.txt").symlink_to(tmp_path / "secret")
    assert "a file inside the model's folder" in problems(load, 'labels = {y = "labels.txt"}')[0]


def test_warm_up_files_come_as_absolute_paths(load):
    load.folder.mkdir()
    (load.folder / "one.json").write_text("{}")
    assert load('warm_up = ["one.json"]').config.warm_up == (load.folder / "one.json",)


def test_the_engine_gets_its_options(load):
    toml = 'threads = 3\nspin = true\nspin_duration_us = 9\ngraph_optimization = "basic"\nmemory_arena = false\n'
    toml += 'memory_pattern = true\nfree_dimensions = {n = 2}\nentries = {a = "b"}\nproviders = ["cuda", "cpu"]'
    assert load(toml).engine == EngineOptions(
        providers=(Provider("CUDAExecutionProvider"), CPU),
        threads=3,
        graph_optimization="basic",
        free_dimensions=(("n", 2),),
        spin=True,
        spin_duration_us=9,
        memory_pattern=True,
        memory_arena=False,
        entries=(("a", "b"),),
    )


@pytest.mark.parametrize(
    ("toml", "setting", "expected"),
    [("", "fail", "fail"), ("", "next", "next"), ('on_missing_provider = "fail"', "next", "fail")],
)
def test_a_missing_provider_follows_the_model_then_the_service(load, toml, setting, expected):
    assert load(toml, on_missing_provider=setting).engine.on_missing_provider == expected


@pytest.mark.parametrize(
    ("toml", "served"),
    [
        ('versions = "latest"', ["10"]),
        ("versions = {latest = 2}", ["2", "10"]),
        ("versions = {latest = 9}", ["1", "2", "10"]),
        ("versions = [10, 1]", ["1", "10"]),
        ("", ["1", "2", "10"]),
    ],
)
def test_versions_are_picked(load, toml, served):
    assert load(toml).config.served_versions(["1", "2", "10"]) == served


def test_a_listed_version_that_is_not_there_is_noted(load):
    assert load("versions = [1, 7]").notes == (
        "model.toml:1: `versions` lists 7, which isn't there; the model has 1, 2, 10",
    )


def test_model_toml_wins_key_by_key_and_says_so(load):
    loaded = load("max_batch_size = 8", "max_batch_size: 4\ndynamic_batching { max_queue_delay_microseconds: 100 }")
    assert (loaded.config.max_batch_size, loaded.config.max_delay_us) == (8, 100)
    assert loaded.notes == ("config.pbtxt:1: `max_batch_size` is overruled by model.toml",)


def test_model_toml_also_overrules_a_batch_size_of_zero(load):
    config = load("max_batch_size = 8", "max_batch_size: 0").config
    assert (config.max_batch_size, config.batching) == (8, None)


def test_names_that_the_model_does_not_have_are_told(load):
    config = load('labels = {y = ["a"], z = ["b"]}\nimage.x = {layout = "HWC", size = "any"}').config
    assert config.unknown_names(["x"], ["y", "z"]) == []
    assert config.unknown_names(["pixels"], ["y"]) == [
        "`image` names the input 'x'; the model has pixels",
        "`labels` names the output 'z'; the model has y",
    ]
