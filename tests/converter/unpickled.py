"""Programs converted in a process that unpickled dtypes first, as a worker of joblib does.

`python -m tests.converter.unpickled disturb` prints digests of the files of the programs below;
without the argument `disturb` the dtypes are numpy's. Unpickled dtypes equal numpy's but are other
objects, and JAX returns the object that it received first.
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
OTHER_DTYPES = (
    "complex64",
    "complex128",
    ml_dtypes.bfloat16,
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.int4,
)
DTYPE_COPIES = (
    lambda dtype: pickle.loads(pickle.dumps(dtype)),
    copy.deepcopy,
    lambda dtype: dtype.newbyteorder("="),
)
"""Functions that return a dtype that equals a numpy dtype but is another object."""


def disturb():
    """Give JAX dtypes from pickles, copies and changes of byte order before it receives numpy's."""
    with warnings.catch_warnings(), enable_x64(True):
        warnings.simplefilter("ignore")
        for index, name in enumerate((*NAMES, *OTHER_DTYPES)):
            standard = np.dtype(name)
            dtype = DTYPE_COPIES[index % len(DTYPE_COPIES)](standard)
            assert dtype == standard and (dtype is not standard or dtype.isbuiltin != 1)
            jax.dtypes.canonicalize_dtype(dtype)
            jax.make_jaxpr(lambda x, d=dtype: (x, x.astype(d), jnp.zeros(3, d)))(np.ones(2, dtype))


WEIGHTS = {"w": np.arange(12, dtype=np.float32).reshape(3, 4), "n": np.arange(3, dtype=np.int32)}


def moves_and_casts(x):
    """Cast, select, move and sort the elements of ``x``."""
    casts = [x.astype(dtype) for dtype in ("float32", "int32", "bool")]
    selected = jnp.where(x == x[0], x[::-1], x).T[x.shape[1] - 2 :]
    return casts, selected, jnp.sort(x, 0), x.max(1), jnp.argmin(x, 1)


def programs():
    """Yield the name, function, specs and parameters of programs of every dtype."""
    for dtype in NAMES:
        yield f"of {dtype}", moves_and_casts, [((3, 4), dtype)], None
    yield "weights", lambda p, x: (x @ p["w"].T) * p["n"], [("B", 4)], WEIGHTS


def digest(fn, specs, params):
    """Return a digest of the file's bytes, or the reason why the function is not converted."""
    import converter

    try:
        export = converter.to_onnx(fn, specs, params=params, opset=24)
    except converter.UnsupportedError as error:
        return f"{error.reason}"
    content = ir.to_proto(export.model).SerializeToString(deterministic=True)
    return hashlib.sha256(content).hexdigest()


def main(disturbed):
    """Print digests by program as JSON, of files with unpickled dtypes or with numpy's."""
    if disturbed:
        disturb()
    convert_dtype = DTYPE_COPIES[0] if disturbed else lambda x: x
    digests = {}
    for name, fn, specs, params in programs():
        typed_specs = [
            (shape, convert_dtype(np.dtype(dtype))) for shape, dtype in map(spec_of, specs)
        ]
        with enable_x64("64" in name):
            digests[name] = digest(fn, typed_specs, jax.tree.map(convert_dtype, params))
    json.dump(digests, sys.stdout)


if __name__ == "__main__":
    main("disturb" in sys.argv)
