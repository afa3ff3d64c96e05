"""Images become exactly the array that is configured, or an error that names them."""

from __future__ import annotations

import io
import random
import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest
from PIL import Image

from service.errors import InvalidValue, MalformedBody, ServiceError
from service.tensors import BF16, BOOL, FP16, FP32, FP64, INT8, UINT8
from service.wire.images import ImageInput, decode

PIXELS = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3) * 14


def encoded(pixels, kind="PNG", **options):
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, kind, **options)
    return out.getvalue()


def picture(layout, **options):
    return ImageInput(layout, options.pop("height", None), options.pop("width", None), **options)


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        ("HWC", PIXELS),
        ("NHWC", PIXELS[np.newaxis]),
        ("CHW", PIXELS.transpose(2, 0, 1)),
        ("NCHW", PIXELS.transpose(2, 0, 1)[np.newaxis]),
    ],
)
def test_the_layout_orders_the_axes(layout, expected):
    array = decode(encoded(PIXELS), picture(layout), UINT8, "x")
    assert array.dtype == np.uint8
    assert array.flags.c_contiguous
    assert np.array_equal(array, expected)


@pytest.mark.parametrize(("layout", "shape"), [("HW", (2, 3)), ("NHW", (1, 2, 3)), ("NCHW", (1, 1, 2, 3))])
def test_grey_has_one_channel(layout, shape):
    grey = PIXELS[..., 0].copy()
    array = decode(encoded(grey), picture(layout, channels="L"), UINT8, "x")
    assert array.shape == shape
    assert array.ravel().tolist() == grey.ravel().tolist()


def test_bgr_reverses_the_colours():
    assert np.array_equal(decode(encoded(PIXELS), picture("HWC", channels="BGR"), UINT8, "x"), PIXELS[..., ::-1])


def test_scale_mean_and_std_come_in_this_order():
    image = picture("HWC", scale=0.5, mean=(1.0, 2.0, 3.0), std=(2.0, 4.0, 8.0))
    array = decode(encoded(PIXELS), image, FP32, "x")
    assert array.dtype == np.float32
    assert np.allclose(array, (PIXELS * 0.5 - [1, 2, 3]) / [2, 4, 8])


def test_a_jpeg_is_read():
    grey = np.full((8, 8, 3), 120, np.uint8)
    array = decode(encoded(grey, "JPEG"), picture("HWC"), UINT8, "x")
    assert np.abs(array.astype(int) - 120).max() <= 2


def test_exif_turns_the_image_upright():
    exif = Image.Exif()
    exif[0x0112] = 6
    array = decode(encoded(PIXELS, exif=exif), picture("HWC"), UINT8, "x")
    assert np.array_equal(array, np.rot90(PIXELS, -1))


def test_sixteen_bits_are_cut_to_eight():
    deep = np.array([[0, 256], [0x8000, 0xFFFF]], np.uint16)
    assert decode(encoded(deep), picture("HW", channels="L"), UINT8, "x").tolist() == [[0, 1], [128, 255]]


def test_transparency_is_dropped():
    clear = np.dstack([PIXELS, np.zeros((2, 3), np.uint8)])
    assert np.array_equal(decode(encoded(clear), picture("HWC"), UINT8, "x"), PIXELS)


@pytest.mark.parametrize(("resize", "left"), [("stretch", 255), ("crop", 255), ("pad", 0)])
def test_resizing_is_what_is_configured(resize, left):
    tall = np.full((8, 4), 255, np.uint8)
    image = picture("HW", height=8, width=8, channels="L", resize=resize)
    array = decode(encoded(tall), image, UINT8, "x")
    assert array.shape == (8, 8)
    assert array[0, 0] == left
    assert array[4, 4] == 255


def test_crop_keeps_the_middle():
    stripes = np.zeros((4, 12), np.uint8)
    stripes[:, 4:8] = 200
    image = picture("HW", height=4, width=4, channels="L", resize="crop")
    assert decode(encoded(stripes), image, UINT8, "x").tolist() == [[200] * 4] * 4


def test_without_resizing_another_size_is_refused():
    with pytest.raises(InvalidValue, match="input 'x', image 0: expected 4 pixels wide and 5 high, got 3 and 2"):
        decode(encoded(PIXELS), picture("HWC", height=5, width=4, resize="none"), UINT8, "input 'x', image 0")


def test_whole_numbers_are_rounded_to_nearest():
    grey = np.array([[0, 1, 3, 255]], np.uint8)
    array = decode(encoded(grey), picture("HW", channels="L", scale=0.5), UINT8, "x")
    assert array.tolist() == [[0, 0, 2, 128]]


def test_centred_pixels_fit_int8():
    grey = np.array([[0, 128, 255]], np.uint8)
    array = decode(encoded(grey), picture("HW", channels="L", mean=(128.0,)), INT8, "x")
    assert array.tolist() == [[-128, 0, 127]]


@pytest.mark.parametrize(("datatype", "options"), [(INT8, {}), (UINT8, {"mean": (9.0,)}), (FP16, {"scale": 1e4})])
def test_values_beyond_the_datatype_are_refused(datatype, options):
    grey = np.array([[0, 255]], np.uint8)
    with pytest.raises(InvalidValue, match=f"for {datatype.name}, got .* change scale, mean or std"):
        decode(encoded(grey), picture("HW", channels="L", **options), datatype, "x")


def test_bf16_is_its_bits():
    grey = np.array([[1, 2]], np.uint8)
    assert decode(encoded(grey), picture("HW", channels="L"), BF16, "x").tolist() == [[0x3F80, 0x4000]]


def test_fp64_is_computed_in_double():
    grey = np.array([[1]], np.uint8)
    assert decode(encoded(grey), picture("HW", channels="L", scale=1 / 255), FP64, "x").tolist() == [[1 / 255]]


@pytest.mark.parametrize(
    "data", [b"", b"GIF89a", b"hello", b"\x89PNG\r\n\x1a\n", encoded(PIXELS, "GIF"), b"\xff\xd8\xff"]
)
def test_other_bytes_are_refused(data):
    with pytest.raises(MalformedBody, match="input 'x', image 3"):
        decode(data, picture("HWC"), UINT8, "input 'x', image 3")


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_a_truncated_image_is_refused(kind):
    data = encoded(np.random.default_rng(1).integers(0, 255, (64, 64, 3), np.uint8), kind)
    with pytest.raises(MalformedBody, match="damaged"):
        decode(data[: len(data) // 2], picture("HWC"), UINT8, "x")


@pytest.mark.parametrize("side", [8200, 10_000, 20_000, 60_000])
def test_a_bomb_is_refused_before_it_is_decoded(side):
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
    data = b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")
    with pytest.raises(InvalidValue, match="at most 67108864 pixels"):
        decode(data, picture("HWC"), UINT8, "x")


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_damaged_images_never_raise_anything_else():
    chance = random.Random(1)
    exif = Image.Exif()
    exif[0x0112] = 6
    seeds = [encoded(PIXELS), encoded(PIXELS, "JPEG"), encoded(PIXELS, "JPEG", exif=exif), encoded(PIXELS, exif=exif)]
    refused = 0
    for _ in range(2000):
        data = bytearray(chance.choice(seeds))
        for _ in range(chance.choice((1, 2, 8))):
            data[chance.randrange(len(data))] = chance.randrange(256)
        try:
            decode(bytes(data), picture("NHWC", height=4, width=4), UINT8, "x")
        except ServiceError as error:
            refused += error.status == 400
    assert refused > 500


def test_pillow_is_not_imported_before_the_first_image():
    script = "import sys, service.wire.images; sys.exit('PIL' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_a_mask_is_whatever_is_not_black():
    grey = np.array([[0, 1, 255]], np.uint8)
    assert decode(encoded(grey), picture("HW", channels="L"), BOOL, "x").tolist() == [[False, True, True]]
