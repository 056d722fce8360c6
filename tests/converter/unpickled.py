"""A process in which dtypes came out of a pickle before anything else, as in a worker of joblib.

`python -m tests.converter.unpickled disturb` prints a digest of the file of the programs below;
without the word `disturb` the dtypes are numpy's own. Such dtypes equal numpy's, but are other
objects, and JAX hands on whichever it met first.
"""

import copy
import hashlib
import json
import pickle
import sys
import warnings

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import onnx_ir as ir

from converter.jax_versions import enable_x64
from tests.conformance import spec_of

INTEGERS = [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
NAMES = ("bool", *INTEGERS, "float16", "float32", "float64")
OTHERS = ("complex64", "complex128", ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4)
WAYS = (
    lambda dtype: pickle.loads(pickle.dumps(dtype)),
    copy.deepcopy,
    lambda dtype: dtype.newbyteorder("="),
)


def disturb():
    """Let JAX see dtypes from pickles, copies and changes of byte order before numpy's own."""
    with warnings.catch_warnings(), enable_x64(True):
        warnings.simplefilter("ignore")
        for number, name in enumerate((*NAMES, *OTHERS)):
            own = np.dtype(name)
            dtype = WAYS[number % len(WAYS)](own)
            assert dtype == own and (dtype is not own or dtype.isbuiltin != 1)
            jax.dtypes.canonicalize_dtype(dtype)
            jax.make_jaxpr(lambda x, d=dtype: (x, x.astype(d), jnp.zeros(3, d)))(np.ones(2, dtype))


WEIGHTS = {"w": np.arange(12, dtype=np.float32).reshape(3, 4), "n": np.arange(3, dtype=np.int32)}


def everything(x):
    """What is cast, moved and ordered."""
    casts = [x.astype(dtype) for dtype in ("float32", "int32", "bool")]
    turned = jnp.where(x == x[0], x[::-1], x).T[x.shape[1] - 2 :]
    return casts, turned, jnp.sort(x, 0), x.max(1), jnp.argmin(x, 1)


def programs():
    """(name, function, specs, parameters) of every dtype."""
    for dtype in NAMES:
        yield f"of {dtype}", everything, [((3, 4), dtype)], None
    yield "weights", lambda p, x: (x @ p["w"].T) * p["n"], [("B", 4)], WEIGHTS


def digest(fn, specs, params):
    """Of the file's bytes, or of why there is none."""
    import converter

    try:
        export = converter.to_onnx(fn, specs, params=params, opset=24)
    except converter.UnsupportedError as error:
        return f"{error.reason}"
    content = ir.to_proto(export.model).SerializeToString(deterministic=True)
    return hashlib.sha256(content).hexdigest()


def main(disturbed):
    if disturbed:
        disturb()
    own = WAYS[0] if disturbed else lambda x: x
    found = {}
    for name, fn, specs, params in programs():
        given = [(shape, own(np.dtype(dtype))) for shape, dtype in map(spec_of, specs)]
        with enable_x64("64" in name):
            found[name] = digest(fn, given, jax.tree.map(own, params))
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main("disturb" in sys.argv)
