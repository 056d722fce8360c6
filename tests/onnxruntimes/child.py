"""Run files: a program that needs numpy and ONNX Runtime alone.

Prints a line of JSON for each: an empty text, or what is wrong.
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime as ort


def difference(got, wanted, tolerance):
    """Say how a result differs, if it does."""
    if got.dtype != wanted.dtype or got.shape != wanted.shape:
        return f"{got.dtype}{list(got.shape)}, not {wanted.dtype}{list(wanted.shape)}"
    if wanted.dtype.kind in "biu":
        return "" if np.array_equal(got, wanted) else "other integers"
    got, wanted = got.astype(np.float64), wanted.astype(np.float64)
    finite = wanted[np.isfinite(wanted)]
    scale = max(1.0, float(np.abs(finite).max(initial=0)))
    if np.allclose(got, wanted, tolerance, tolerance * scale, equal_nan=True):
        return ""
    with np.errstate(invalid="ignore"):
        return f"off by {np.nanmax(np.abs(got - wanted)) / scale:.1g}"


def outcome(file):
    """Run one file."""
    base = file.with_suffix("")
    inputs, wanted = (np.load(f"{base}.{kind}.npz") for kind in ("inputs", "wanted"))
    tolerance = json.loads(Path(f"{base}.json").read_text())
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = ort.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        return f"does not load: {error}"
    names = [each.name for each in session.get_inputs()]
    try:
        results = session.run(None, dict(zip(names, inputs.values())))  # noqa: B905
    except Exception as error:
        return f"does not run: {error}"
    found = (difference(a, b, tolerance) for a, b in zip(results, wanted.values()))  # noqa: B905
    return next(filter(None, found), "")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(json.dumps(outcome(Path(name))), flush=True)
