import pytest

from service.catalog.triton_config import read_triton_config
from service.catalog.versions import Versions
from service.engine.options import CPU, Provider
from service.errors import ConfigurationError

CUDA, TENSORRT = "CUDAExecutionProvider", "TensorrtExecutionProvider"


@pytest.fixture
def read(tmp_path):
    def from_text(text):
        path = tmp_path / "config.pbtxt"
        path.write_text(text, encoding="utf-8")
        return read_triton_config(path, "resnet")

    return from_text


def values(triton):
    return {setting.field: setting.value for setting in triton.settings}


SAME = {
    'name: "resnet" platform: "onnxruntime_onnx"': {},
    'backend: "onnxruntime" default_model_filename: "net.onnx"': {},
    "max_batch_size: 8": {"max_batch_size": 8},
    "max_batch_size: 0": {"batching": False},
    "dynamic_batching { }": {},
    "dynamic_batching { max_queue_delay_microseconds: 100 }": {"max_delay_us": 100},
    "version_policy: { latest: { num_versions: 2 } }": {"versions": Versions(latest=2)},
    "version_policy { latest { } }": {"versions": Versions(latest=1)},
    "version_policy { all { } }": {"versions": Versions()},
    "version_policy { specific { versions: [1, 3] } }": {"versions": Versions(listed=("1", "3"))},
    'parameters { key: "intra_op_thread_count" value: { string_value: "2" } }': {"threads": 2},
    'parameters: { key: "intra_op_thread_count", value: { string_value: "0" } }': {},
    'parameters [ { key: "enable_mem_arena" value { string_value: "0" } } ]': {"memory_arena": False},
    'parameters { key: "enable_mem_pattern" value { string_value: "true" } }': {"memory_pattern": True},
    'parameters { key: "execution_mode" value { string_value: "0" } }': {},
    'parameters { key: "session.use_device_allocator_for_initializers" value { string_value: "1" } }': {
        "entries": (("session.use_device_allocator_for_initializers", "1"),)
    },
    "optimization { graph { level: -1 } }": {"graph_optimization": "basic"},
    "optimization { graph : { level : 1 }}": {"graph_optimization": "extended"},
    "optimization { graph { level: 2 } }": {"graph_optimization": "off"},
    "optimization { graph { level: 0 } }": {"graph_optimization": "all"},
    "instance_group [ { kind: KIND_CPU } ]": {},
    "instance_group [ { kind: KIND_GPU gpus: [ 1 ] } ]": {
        "providers": (Provider(CUDA, (("device_id", "1"),)), CPU),
    },
    'optimization { execution_accelerators { cpu_execution_accelerator: [ { name: "openvino" } ] } }': {
        "providers": (Provider("OpenVINOExecutionProvider"), CPU),
    },
    """optimization { execution_accelerators { gpu_execution_accelerator : [ {
         name : "tensorrt"
         parameters { key: "precision_mode" value: "FP16" }
         parameters { key: "max_workspace_size_bytes" value: "1073741824" }
         parameters { key: "trt_engine_cache_enable" value: "1" } } ] } }
       parameters { key: "cudnn_conv_algo_search" value: { string_value: "1" } }
       parameters { key: "gpu_mem_limit" value: { string_value: "4294967200" } }""": {
        "providers": (
            Provider(
                TENSORRT,
                (
                    ("trt_fp16_enable", "true"),
                    ("trt_max_workspace_size", "1073741824"),
                    ("trt_engine_cache_enable", "1"),
                ),
            ),
            Provider(CUDA, (("cudnn_conv_algo_search", "HEURISTIC"), ("gpu_mem_limit", "4294967200"))),
            CPU,
        ),
    },
    """optimization { execution_accelerators { gpu_execution_accelerator [ { name: "cuda"
         parameters { key: "use_ep_level_unified_stream" value: "1" } } ] } }
       instance_group { kind: KIND_GPU }""": {
        "providers": (Provider(CUDA, (("device_id", "0"), ("use_ep_level_unified_stream", "1"))), CPU),
    },
    'input { name: "x" data_type: TYPE_FP32 dims: [ 3, -1 ] } output { name: "y" }': {},
    "model_transaction_policy { decoupled: false }": {},
}


@pytest.mark.parametrize(("text", "expected"), SAME.items())
def test_what_means_the_same_is_taken_over(read, text, expected):
    triton = read(text)
    assert values(triton) == expected
    assert triton.notes == ()


NOTED = {
    "dynamic_batching { preferred_batch_size: [ 4, 8 ] }": "`preferred_batch_size` is not needed",
    "dynamic_batching { priority_levels: 2 }": "`priority_levels` in dynamic_batching is not offered",
    "instance_group { count: 4 }": "`count` '4' is advice only",
    "instance_group { kind: KIND_MODEL }": "`kind` KIND_MODEL is not offered",
    "instance_group { kind: KIND_GPU gpus: [0, 1] }": "`gpus` lists several devices; only 0 is used",
    "instance_group { passive: true }": "`passive` in instance_group has no meaning here",
    'parameters { key: "inter_op_thread_count" value { string_value: "4" } }': "`inter_op_thread_count` changes",
    'parameters { key: "execution_mode" value { string_value: "1" } }': "`execution_mode` changes nothing",
    'parameters { key: "mine" value { string_value: "1" } }': "`mine` in parameters has no meaning here",
    'parameters { key: "gpu_mem_limit" value { string_value: "1" } }': "gpu_mem_limit change nothing for a model on",
    "optimization { priority: PRIORITY_MAX }": "`priority` in optimization has no meaning here",
    "model_warmup [ { name: 'zero' } ]": "`model_warmup` is not read",
    "response_cache { enable: true }": "`response_cache` has no meaning here and changes nothing",
    "input { name: 'x' reshape { shape: [ 1 ] } }": "`reshape` is not offered",
    "no_such_field: 3": "`no_such_field` has no meaning here and changes nothing",
}


@pytest.mark.parametrize(("text", "note"), NOTED.items())
def test_what_means_nothing_here_is_reported(read, text, note):
    [found] = read(f"\n{text}").notes
    assert note in found
    assert found.startswith("config.pbtxt:2: ") or "gpu_mem_limit" in note


REFUSED = {
    'name: "other"': "`name` is 'other', but the model is 'resnet'",
    'platform: "tensorrt_plan"': "`platform` is 'tensorrt_plan'; only onnxruntime_onnx is served here",
    'backend: "python"': "`backend` is 'python'; only onnxruntime is served here",
    "max_batch_size: -2": "`max_batch_size` must be a whole number from 0 on, got '-2'",
    'max_batch_size: "4"': "`max_batch_size` must be a whole number from 0 on, got '4'",
    "max_batch_size { }": "`max_batch_size` must be a whole number from 0 on, got {…}",
    "dynamic_batching: true": "`dynamic_batching` must be a message in { }, got 'true'",
    "version_policy { newest { } }": "`newest` is no version policy; use latest, all or specific",
    "version_policy { latest { num_versions: 0 } }": "`num_versions` must be a whole number from 1 on",
    "sequence_batching { }": "`sequence_batching` keeps state between requests, which is not offered",
    "ensemble_scheduling { }": "`ensemble_scheduling` joins several models",
    "model_transaction_policy { decoupled: true }": "`decoupled` answers in several parts",
    "parameters { key: 'intra_op_thread_count' value { string_value: 'two' } }": "from 0 to 1024, got 'two'",
    "parameters { key: 'intra_op_thread_count' value { string_value: '9999' } }": "whole number from 0 to 1024",
    f"parameters {{ key: 'intra_op_thread_count' value {{ string_value: '{'9' * 5000}' }} }}": "from 0 to 1024",
    f"max_batch_size: {'9' * 5000}": "`max_batch_size` must be a whole number",
    "parameters { key: 'enable_mem_arena' value { string_value: '2' } }": "`enable_mem_arena` must be 0 or 1, got '2'",
    "parameters { key: 'x' }": "`parameters` must have a key and a value",
    "optimization { graph { level: 3 } }": "`level` must be -1, 0, 1 or 2, got '3'",
    "optimization { execution_accelerators { cpu_execution_accelerator { name: 'x' } } }": "the accelerator 'x'",
    "optimization { execution_accelerators { gpu_execution_accelerator { name: 'tensorrt' "
    "parameters { key: 'precision_mode' value: 'FP8' } } } }": "`precision_mode` 'FP8' is no parameter of tensorrt",
    "output { name: 'y' label_filename: 'gone.txt' }": "`label_filename` must be a file that is there",
    "output { name: 'y' label_filename: '../x' }": "`label_filename` must be a file inside the model's folder",
    "output { name: 'y' label_filename: 3 }": "`label_filename` must be a text in quotes, got '3'",
}


@pytest.mark.parametrize(("text", "told"), REFUSED.items())
def test_what_would_be_answered_wrongly_is_refused_with_its_line(read, text, told):
    with pytest.raises(ConfigurationError) as fault:
        read(f"\n\n{text}")
    assert told in fault.value.problems[0]
    assert all(problem.startswith("config.pbtxt:3: ") for problem in fault.value.problems)


def test_everything_that_is_refused_is_told_at_once(read):
    with pytest.raises(ConfigurationError) as fault:
        read('name: "other"\nbackend: "python"\nmax_batch_size: x')
    assert [problem.split(" ")[0] for problem in fault.value.problems] == [
        "config.pbtxt:1:",
        "config.pbtxt:2:",
        "config.pbtxt:3:",
    ]


def test_labels_come_from_the_file_of_an_output(read, tmp_path):
    (tmp_path / "labels.txt").write_text("cat\ndog\n")
    triton = read('output [ { name: "y" dims: [ 2 ] label_filename: "labels.txt" } ]')
    assert values(triton) == {"labels": (("y", ("cat", "dog")),)}


def test_what_the_configuration_route_shows_is_kept_as_tritons_json(read):
    triton = read(
        'max_batch_size: 4 input [ { name: "x" data_type: TYPE_FP32 dims: [ 3, -1 ] } ]\n'
        "instance_group { count: 2 kind: KIND_CPU } dynamic_batching { preferred_batch_size: 0x10 }\n"
        'parameters { key: "execution_mode" value { string_value: "0" } } optimization { graph { level: 1 } }'
    )
    assert triton.document == {
        "input": [{"name": "x", "data_type": "TYPE_FP32", "dims": [3, -1]}],
        "instance_group": [{"count": 2, "kind": "KIND_CPU"}],
        "dynamic_batching": {"preferred_batch_size": [16]},
        "parameters": {"execution_mode": {"string_value": "0"}},
    }


@pytest.mark.parametrize("content", [b"\xff", None])
def test_a_file_that_cannot_be_read_is_told(tmp_path, content):
    path = tmp_path / "config.pbtxt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigurationError, match="config.pbtxt: "):
        read_triton_config(path, "resnet")
