import base64
import io
import struct

import numpy as np
import orjson
import pytest
from PIL import Image

from service.errors import InvalidValue, MalformedBody, ShapeMismatch
from service.tensors import FP32, UINT8, TensorSpec
from service.wire import v1, v2
from service.wire.images import ImageInput
from service.wire.signature import Signature

SPEC = TensorSpec("image", FP32, ("n", 1, 2, 3), "tensor(float)")
GREY = ImageInput("NCHW", 2, 3, channels="L")
MODEL = Signature([SPEC], [], {"image": GREY})
PIXELS = np.arange(6, dtype=np.uint8).reshape(2, 3) * 40


def png(pixels=PIXELS):
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


def b64(data):
    return {"b64": base64.b64encode(data).decode()}


def v2_body(data, shape, **more):
    item = {
        "name": "image",
        "datatype": "BYTES",
        "shape": shape,
        **({"data": data} if data is not None else {}),
        **more,
    }
    return orjson.dumps({"inputs": [item]})


def test_v2_json_takes_base64_with_and_without_the_object():
    for data in ([b64(png()), b64(png())], [b64(png())["b64"]] * 2, [[b64(png())], [b64(png())]]):
        shape = [2, 1] if isinstance(data[0], list) else [2]
        feeds = v2.read_request(v2_body(data, shape), None, MODEL).feeds
        assert feeds["image"].tolist() == [[PIXELS.tolist()]] * 2


def test_v2_binary_takes_length_prefixed_files():
    blob = struct.pack("<I", len(png())) + png()
    text = v2_body(None, [1], parameters={"binary_data_size": len(blob)})
    feeds = v2.read_request(text + blob, str(len(text)), MODEL).feeds
    assert feeds["image"].tolist() == [[PIXELS.tolist()]]


def test_a_raw_body_is_one_image():
    assert v2.read_request(png(), "0", MODEL).feeds["image"].shape == (1, 1, 2, 3)


def test_v1_takes_base64_rows_and_numbers_still():
    rows = v1.read_request(orjson.dumps({"instances": [b64(png())]}), MODEL)
    assert rows.feeds["image"].tolist() == [[PIXELS.tolist()]]
    named = v1.read_request(orjson.dumps({"instances": [{"image": b64(png())}]}), MODEL)
    assert named.feeds["image"].tolist() == [[PIXELS.tolist()]]
    numbers = v1.read_request(orjson.dumps({"instances": [[PIXELS.tolist()]]}), MODEL)
    assert numbers.feeds["image"].tolist() == [[PIXELS.tolist()]]


@pytest.mark.parametrize(
    ("data", "shape", "error", "words"),
    [
        ([{"b64": "%%"}], [1], InvalidValue, "base64"),
        ([5], [1], InvalidValue, "expected an image as"),
        ([b64(b"no image")], [1], MalformedBody, "JPEG or PNG"),
        ([b64(png())], [2], ShapeMismatch, "holds 2 elements"),
        ([], [0], ShapeMismatch, "at least one image"),
    ],
)
def test_what_is_no_image_is_named(data, shape, error, words):
    with pytest.raises(error) as caught:
        v2.read_request(v2_body(data, shape), None, MODEL)
    assert words in str(caught.value)


def test_images_of_different_sizes_and_several_for_one():
    free = TensorSpec("image", UINT8, ("n", None, None), "tensor(uint8)")
    model = Signature([free], [], {"image": ImageInput("NHW", None, None, channels="L")})
    body = v2_body([b64(png()), b64(png(PIXELS.T.copy()))], [2])
    with pytest.raises(ShapeMismatch, match="one size"):
        v2.read_request(body, None, model)
    single = TensorSpec("image", UINT8, (2, 3), "tensor(uint8)")
    model = Signature([single], [], {"image": ImageInput("HW", 2, 3, channels="L")})
    with pytest.raises(ShapeMismatch, match="takes one image, got 2"):
        v2.read_request(v2_body([b64(png()), b64(png())], [2]), None, model)
    assert v2.read_request(v2_body([b64(png())], [1]), None, model).feeds["image"].tolist() == PIXELS.tolist()
