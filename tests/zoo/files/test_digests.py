"""Digests that are taken while files are written."""

import hashlib

import numpy as np

import converter
from zoo.files.digests import Digests


def test_digests_are_those_of_the_files_as_they_were_written_last(tmp_path):
    """Of both files, where the weights lie beside the model, and of one that was written twice."""
    digests = Digests()
    for size, external in ((3, False), (400, True)):
        export = converter.to_onnx(lambda p, x: x @ p, [(2, size)], params=weights(size))
        with digests.taken() as written:
            export.save(tmp_path / "a.onnx", external_data=external, written=written)
    found = {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in tmp_path.iterdir()}
    assert sorted(found) == ["a.onnx", "a.onnx_data"] and found == digests


def weights(size):
    return (np.arange(float(size * 5)) - size).astype(np.float32).reshape(size, 5)
