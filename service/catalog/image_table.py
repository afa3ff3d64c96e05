"""The tables `[image.<input>]`: how JPEG and PNG bytes become what an input takes."""

from __future__ import annotations

from typing import Any

from service.catalog.readers import each, number, one_of, table, whole
from service.catalog.rows import Fault, Faults, Row, read_table
from service.wire.images import ImageInput

_CHANNELS = {"RGB": 3, "BGR": 3, "L": 1}


def _size(value: Any) -> tuple[int | None, int | None]:
    if value == "any":
        return None, None
    pixels = whole(1, 65535)
    try:
        height, width = value
        return pixels(height), pixels(width)
    except (TypeError, ValueError):
        raise ValueError('[height, width] in pixels, or "any" for the image\'s own') from None


def _numbers(value: Any) -> tuple[float, ...]:
    items = value if isinstance(value, list) else [value]
    try:
        found = tuple(number(item) for item in items)
    except ValueError:
        found = ()
    if len(found) not in _CHANNELS.values():
        raise ValueError("a number, or a list of one for each channel")
    return found


def _divisors(value: Any) -> tuple[float, ...]:
    found = _numbers(value)
    if 0.0 in found:
        raise ValueError("numbers other than 0, since pixels are divided by them")
    return found


IMAGE_ROWS = (
    Row(
        "layout",
        "",
        "",
        "Order of the axes, N being the batch: `NCHW`, `NHWC`, `CHW`, `HWC`, `NHW` or `HW`.",
        one_of("NCHW", "NHWC", "CHW", "HWC", "NHW", "HW"),
    ),
    Row("size", "pixels", "", '`[height, width]` that the model takes, or `"any"` for the image\'s own.', _size),
    Row("channels", "", '`"RGB"`', "Order of the colours: `RGB`, `BGR`, or `L` for grey.", one_of(*_CHANNELS)),
    Row("scale", "", "`1.0`", "Every pixel value, 0 to 255, is multiplied by it first.", number),
    Row(
        "mean",
        "scaled pixels",
        "`0.0`",
        "Then subtracted: a number, or a list of one for each channel in their order.",
        _numbers,
    ),
    Row(
        "std",
        "scaled pixels",
        "`1.0`",
        "Then divided by: a number, or a list of one for each channel in their order.",
        _divisors,
    ),
    Row(
        "resize",
        "",
        '`"stretch"`',
        "How another size is made to fit: `stretch`, `crop` (keeps the middle), `pad` (with black), or `none` "
        "(such an image is refused).",
        one_of("stretch", "crop", "pad", "none"),
    ),
)


def _image(value: Any) -> ImageInput:
    parts = read_table(IMAGE_ROWS, table(value), required=("layout", "size"))
    height, width = parts.pop("size")
    image = ImageInput(height=height, width=width, **parts)
    faults = [
        Fault(
            (key,), f"expected 1 or {_CHANNELS[image.channels]} numbers, as channels are {image.channels}, got {count}"
        )
        for key, count in (("mean", len(image.mean)), ("std", len(image.std)))
        if count not in (1, _CHANNELS[image.channels])
    ]
    if image.channels != "L" and "C" not in image.layout:
        faults.append(
            Fault(("layout",), f'{image.layout} has no axis for {image.channels}; set channels = "L", or add C')
        )
    if faults:
        raise Faults(faults)
    return image


images = each(_image)
"""Reader of all image tables, by input."""
