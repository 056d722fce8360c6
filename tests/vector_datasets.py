"""Datasets of vectors for tests, made of arrays as `zoo embed` makes them of pictures."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from zoo.apps.embed.about import About, write_about
from zoo.apps.embed.part_files import part_format, part_writer
from zoo.architectures.parts.preprocessing import Preprocessing
from zoo.artifacts.schema import StatedPreprocessing

COLUMNS = "key", "width", "height", "sha256", "vector"


def table_of(keys: Sequence[str], vectors) -> pa.RecordBatch:
    """Rows of vectors `[n, dim]`, in float16 or float32, of pictures of 4 x 3 pixels."""
    flat = pa.array(np.asarray(vectors).ravel())
    vector = pa.FixedSizeListArray.from_arrays(flat, np.shape(vectors)[1])
    width, height = (pa.array([side] * len(keys), pa.int32()) for side in (4, 3))
    digests = pa.array([f"{row:064x}" for row in range(len(keys))])
    arrays = [pa.array(list(keys)), width, height, digests, vector]
    return pa.record_batch(arrays, names=list(COLUMNS))


def write_dataset(out: Path, parts: Sequence[pa.RecordBatch], **changes: object) -> About:
    """A finished dataset, a part for each batch."""
    how, schema = part_format(out), parts[0].schema
    for folder in (out / "_work", how.part(out, 0).parent):
        folder.mkdir(parents=True, exist_ok=True)
    for index, rows in enumerate(parts):
        with part_writer(how.part(out, index), out / "_work", schema) as write:
            write(rows)
    how.commit(out, schema, [(how.part(out, i), len(rows)) for i, rows in enumerate(parts)])
    vector = schema.field("vector").type
    dtype = "float16" if vector.value_type == pa.float16() else "float32"
    own = Preprocessing((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
    about = About(
        model="dinov3_vits16",
        variant="fp32",
        model_sha256="0" * 64,
        place=str(out.parent / "model"),
        dtype=dtype,
        dim=vector.list_size,
        size=own.size,
        draft=True,
        preprocessing=StatedPreprocessing(**vars(own), in_file=False),
        columns=COLUMNS,
        sources=(),
        pictures=sum(map(len, parts)),
    ).changed(**changes)
    write_about(out, about, out / "_work")
    (out / "_work").rmdir()
    return about
