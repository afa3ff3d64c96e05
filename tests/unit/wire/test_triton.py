from service.tensors import BYTES, FP32, TensorSpec
from service.wire.signature import Signature
from service.wire.triton import model_configuration


def test_triton_sees_dims_without_the_batch():
    text = TensorSpec("t", BYTES, ("n", None), "tensor(string)", optional=True)
    scores = TensorSpec("s", None, None, "seq(map(int64,tensor(float)))", class_map=True)
    odd = TensorSpec("e", None, ("n",), "tensor(float8e4m3fn)")
    signature = Signature([TensorSpec("x", FP32, ("n", 3), "tensor(float)"), text], [scores, odd])
    batched = model_configuration("m", signature, 8, {"version_policy": {"all": {}}})
    assert batched["max_batch_size"] == 8
    assert batched["platform"] == "onnxruntime_onnx"
    assert batched["version_policy"] == {"all": {}}
    assert batched["input"] == [
        {"name": "x", "data_type": "TYPE_FP32", "dims": [3]},
        {"name": "t", "data_type": "TYPE_STRING", "dims": [-1], "optional": True},
    ]
    assert batched["output"] == [
        {"name": "s", "data_type": "TYPE_FP32", "dims": [-1]},
        {"name": "e", "data_type": "TYPE_INVALID", "dims": []},
    ]
    assert model_configuration("m", signature, 0, {})["input"][0]["dims"] == [-1, 3]
