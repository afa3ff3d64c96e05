"""The page `docs/model-toml.md`, written from the rows."""

from __future__ import annotations

from service.catalog.config import ROWS
from service.catalog.image_table import IMAGE_ROWS
from service.catalog.padding_table import PADDED_INPUT_ROWS, PADDING_ROWS
from service.catalog.readers import PROVIDER_ROWS
from service.catalog.rows import table_of_rows

_HEAD = """\
# model.toml

A file beside a model: `models/<name>/model.toml`, or `models/<name>.toml` beside `models/<name>.onnx`. It is
optional, and so is every key. Unknown keys and bad values are errors, all told at once with their lines; such a
model isn't served, the others are. Where Triton's `config.pbtxt` says the same, `model.toml` wins key by key.

This page is written from the code by
`python -c "from service.catalog.model_toml_page import document; print(document(), end='')"`.

## Keys
"""

_PADDING = """\
## `[padding]`

Only requests of equal shape share a run, unless this table says how shorter ones are filled up. Outputs are cut back to
each request's own length. A test at load runs rows of different lengths alone and together; where they don't agree, or
where padding costs more than the runs it saves, nothing is padded, and the model's metadata says why.
"""

_PADDED_INPUT = """\
Each input is a table:
"""

_EXAMPLE = """\
## Example

```toml
providers = [{name = "cuda", options = {device_id = 0}}, "cpu"]
max_batch_size = 16
labels = {scores = "labels.txt"}

[image.pixels]
layout = "NCHW"
size = [224, 224]
scale = 0.00392156862745098 # 1/255
mean = [0.485, 0.456, 0.406]
std = [0.229, 0.224, 0.225]
resize = "crop"
```

A text model:

```toml
[padding]
mask = "attention_mask"
inputs = {input_ids = {value = 1}, token_type_ids = {}}
```
"""


def document() -> str:
    """The text of `docs/model-toml.md`."""
    parts = [_HEAD, *table_of_rows(ROWS), "", "## A provider as a table", ""]
    parts += [*table_of_rows(PROVIDER_ROWS), "", "## `[image.<input>]`", ""]
    parts += [*table_of_rows(IMAGE_ROWS), "", _PADDING, *table_of_rows(PADDING_ROWS), "", _PADDED_INPUT]
    parts += [*table_of_rows(PADDED_INPUT_ROWS), "", _EXAMPLE]
    return "\n".join(parts)
