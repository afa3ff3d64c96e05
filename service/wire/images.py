"""JPEG and PNG bytes as the array that a model's image input takes."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

import numpy as np

from service.errors import InvalidValue, MalformedBody
from service.tensors import BF16, FP64, Array, DataType
from service.wire.narrowing import round_to_bf16

_LARGEST_PIXELS = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ImageInput:
    """How an image becomes an array.

    Attributes:
        layout: axes, of N, C, H and W: `NCHW`, `NHWC`, `CHW`, `HWC`, `NHW`, `HW`.
        height: pixels; None for the image's own.
        width: pixels; None for the image's own.
        channels: `RGB`, `BGR` or `L` (grey).
        scale: every pixel value (0 to 255) is multiplied by it first.
        mean: then subtracted, one number or one a channel.
        std: then divided by, one number or one a channel.
        resize: `stretch`, `crop` (the middle), `pad` (with black), each bicubic, or `none`: it must have the size
            already.
    """

    layout: str
    height: int | None
    width: int | None
    channels: str = "RGB"
    scale: float = 1.0
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    resize: str = "stretch"


def decode(data: bytes, image: ImageInput, datatype: DataType, where: str) -> Array:
    """One image in its layout, N being 1: upright by its EXIF data, transparency dropped, 16 bits cut to 8.

    Args:
        data: of a JPEG or PNG file.
        image: how it is to be prepared.
        datatype: of the input.
        where: names the element in errors.

    Raises:
        MalformedBody: the bytes are no whole JPEG or PNG.
        InvalidValue: it has too many pixels, not the size needed, or scaled values beyond the datatype.
    """
    pixels = _pixels(data, image, where)
    if image.channels == "BGR":
        pixels = pixels[..., ::-1]
    if pixels.ndim == 2 and "C" in image.layout:  # noqa: PLR2004 - height and width
        pixels = pixels[..., np.newaxis]
    values = _converted(_scaled(pixels, image, datatype), datatype, where)
    axes = image.layout.replace("N", "")
    if axes == "CHW":
        values = values.transpose(2, 0, 1)
    if image.layout.startswith("N"):
        values = values[np.newaxis]
    return np.ascontiguousarray(values)


def _scaled(pixels: Array, image: ImageInput, datatype: DataType) -> Array:
    if (image.scale, image.mean, image.std) == (1.0, (0.0,), (1.0,)):
        return pixels
    precision = np.dtype(np.float64 if datatype is FP64 else np.float32)
    scale, mean, std = (np.array(numbers, precision) for numbers in (image.scale, image.mean, image.std))
    scaled: Array = (pixels.astype(precision) * scale - mean) / std
    return scaled


def _converted(values: Array, datatype: DataType, where: str) -> Array:
    """The values in the input's datatype: whole ones rounded to nearest, none wrapped around."""
    if datatype is BF16:
        return round_to_bf16(values.astype(np.float64))
    if datatype.kind == "int":
        values = np.rint(values)
    low, high = _range(datatype)
    if values.size and not low <= values.min() <= values.max() <= high:
        raise InvalidValue(
            f"{where}: expected values from {low} to {high} for {datatype.name}, got {values.min()} to {values.max()} "
            "after scaling; change scale, mean or std of the image in model.toml"
        )
    return values.astype(datatype.dtype)


def _range(datatype: DataType) -> tuple[float, float]:
    if datatype.kind == "int":
        whole = np.iinfo(datatype.dtype)
        return whole.min, whole.max
    if datatype.kind == "float":
        real = np.finfo(datatype.dtype)
        return float(real.min), float(real.max)
    return -np.inf, np.inf


def _pixels(data: bytes, image: ImageInput, where: str) -> Array:
    from PIL import Image, ImageOps, UnidentifiedImageError  # noqa: PLC0415 - most services never need it

    try:
        with Image.open(io.BytesIO(data), formats=("JPEG", "PNG")) as opened:
            if opened.width * opened.height > _LARGEST_PIXELS:
                raise _too_many(where, f"{opened.width} times {opened.height}")
            upright = _eight_bits(ImageOps.exif_transpose(opened))
            mode = "L" if image.channels == "L" else "RGB"
            return np.asarray(_fitted(upright.convert(mode), image, where))
    except UnidentifiedImageError:
        raise MalformedBody(f"{where}: expected the bytes of a JPEG or PNG image") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise _too_many(where, "far more") from None
    except (OSError, SyntaxError, ValueError) as fault:
        raise MalformedBody(f"{where}: the image is damaged: {fault}") from None


def _too_many(where: str, received: str) -> InvalidValue:
    return InvalidValue(f"{where}: expected at most {_LARGEST_PIXELS} pixels, got {received}; send a smaller image")


def _eight_bits(picture: Any) -> Any:
    """Pillow would turn every grey of 16 bits above 255 into white."""
    from PIL import Image  # noqa: PLC0415 - see above

    if not picture.mode.startswith("I"):
        return picture
    return Image.fromarray((np.asarray(picture) >> 8).astype(np.uint8))


def _fitted(picture: Any, image: ImageInput, where: str) -> Any:
    from PIL import ImageOps  # noqa: PLC0415 - see above

    size = (image.width or picture.width, image.height or picture.height)
    if picture.size == size:
        return picture
    if image.resize == "none":
        raise InvalidValue(
            f"{where}: expected {size[0]} pixels wide and {size[1]} high, got {picture.width} and {picture.height}",
            expected=list(size),
            received=list(picture.size),
        )
    if image.resize == "crop":
        return ImageOps.fit(picture, size)
    if image.resize == "pad":
        return ImageOps.pad(picture, size)
    return picture.resize(size)
