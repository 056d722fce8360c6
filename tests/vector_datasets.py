"""Write datasets of vectors for tests, from arrays, in the form in which `zoo embed` writes them
from pictures."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from lance.fragment import write_fragments

from zoo.apps.embed.dataset import ChunkResult, Dataset, Description
from zoo.artifacts.schema import StatedPreprocessing
from zoo.images.preprocessing import Preprocessing

COLUMNS = "key", "width", "height", "sha256", "vector"


def table_of(keys: Sequence[str], vectors) -> pa.RecordBatch:
    """Return rows with vectors `[n, dim]` in float16 or float32, for pictures of 4 x 3 pixels."""
    flat = pa.array(np.asarray(vectors).ravel())
    vector = pa.FixedSizeListArray.from_arrays(flat, np.shape(vectors)[1])
    width, height = (pa.array([side] * len(keys), pa.int32()) for side in (4, 3))
    digests = pa.array([f"{row:064x}" for row in range(len(keys))])
    arrays = [pa.array(list(keys)), width, height, digests, vector]
    return pa.record_batch(arrays, names=list(COLUMNS))


def write_dataset(out: Path, parts: Sequence[pa.RecordBatch], **changes: object) -> Description:
    """Write a dataset with a fragment for each batch. Return its description, with `changes` of its
    fields."""
    schema = parts[0].schema
    vector = schema.field("vector").type
    dtype = "float16" if vector.value_type == pa.float16() else "float32"
    preprocessing = Preprocessing((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
    description = Description(
        model="dinov3_vits16",
        variant="fp32",
        model_sha256="0" * 64,
        place=str(out.parent / "model"),
        dtype=dtype,
        dim=vector.list_size,
        size=preprocessing.size,
        draft=True,
        preprocessing=StatedPreprocessing(**vars(preprocessing), in_file=False),
        columns=COLUMNS,
        sources=(),
    ).changed(**changes)
    dataset = Dataset.create(out, schema, description)
    for rows in parts:
        table = pa.Table.from_batches([rows])
        dataset.commit([ChunkResult(write_fragments(table, str(out)))])
    return description
