"""Run files. The program needs only numpy and ONNX Runtime.

It prints a line of JSON for each file: an empty text, or the fault.
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime as ort


def describe_difference(actual, expected, tolerance):
    """Return how an output differs from the expected one, or an empty text."""
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        return f"{actual.dtype}{list(actual.shape)}, not {expected.dtype}{list(expected.shape)}"
    if expected.dtype.kind in "biu":
        return "" if np.array_equal(actual, expected) else "other integers"
    actual, expected = actual.astype(np.float64), expected.astype(np.float64)
    finite = expected[np.isfinite(expected)]
    scale = max(1.0, float(np.abs(finite).max(initial=0)))
    if np.allclose(actual, expected, tolerance, tolerance * scale, equal_nan=True):
        return ""
    with np.errstate(invalid="ignore"):
        return f"off by {np.nanmax(np.abs(actual - expected)) / scale:.1g}"


def run_file(file):
    """Run a file on its stored inputs. Return the fault, or an empty text."""
    base = file.with_suffix("")
    inputs, expected = (np.load(f"{base}.{kind}.npz") for kind in ("inputs", "wanted"))
    tolerance = json.loads(Path(f"{base}.json").read_text())
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = ort.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        return f"does not load: {error}"
    names = [value.name for value in session.get_inputs()]
    try:
        results = session.run(None, dict(zip(names, inputs.values())))  # noqa: B905
    except Exception as error:
        return f"does not run: {error}"
    differences = (describe_difference(a, b, tolerance) for a, b in zip(results, expected.values()))  # noqa: B905
    return next(filter(None, differences), "")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(json.dumps(run_file(Path(name))), flush=True)
