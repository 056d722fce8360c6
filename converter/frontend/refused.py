"""What is never written, and what to do instead: by primitive, the reason that an error gives."""

from __future__ import annotations

_UNSYMMETRIC = (
    "it is found by iterations that have no counterpart in ONNX; "
    "use jnp.linalg.eigh or svd if the matrix allows it, else compute it before the export"
)
_PYTHON = "a file cannot call Python; compute it before the export or write it in jax.numpy"
_DEVICES = "a file is for one device; convert the function over a mesh of one"
_REFERENCES = "ONNX has no arrays that change in place; return the new array instead"
_PALLAS = "a kernel is written for one device; convert the function that it stands for"
_CUDNN = "it calls cuDNN; use jax.nn.dot_product_attention(…, implementation='xla')"
_COMPILED = "it holds compiled code; convert the function that it was made from"
_TOKENS = "ONNX has no order of effects; leave the token out"
_KEYS = "it is another generator's than threefry; make the key with jax.random.key(seed)"
_GENERATOR = (
    "its generator does not draw the same numbers on every device; "
    "make the key with jax.random.key(seed, impl='threefry2x32')"
)
_ENTROPY = "its numbers are drawn by the device, others on each run; use jax.random"
_TRANSFORMING = "it belongs to a transformation of JAX and is gone once a function is traced"

COLLECTIVES = ("all_gather", "all_to_all", "pbroadcast", "ppermute", "psum", "psum_invariant")

REFUSED = {
    **dict.fromkeys(("eig", "schur", "hessenberg"), _UNSYMMETRIC),
    "tridiagonal": "its reflections have no counterpart in ONNX; use jnp.linalg.eigh",
    **dict.fromkeys(("pure_callback", "io_callback", "outside_call"), _PYTHON),
    "ffi_call": "it calls foreign code; write it in jax.numpy",
    "call_exported": _COMPILED,
    **dict.fromkeys(("shard_map", "core_map", "mpmd_map"), _DEVICES),
    **dict.fromkeys(("psend", "precv", "ragged_all_to_all", "pbroadcast_dynamic"), _DEVICES),
    **{f"{name}_{end}": _DEVICES for name in COLLECTIVES for end in ("start", "done")},
    **dict.fromkeys(
        (
            *("all_gather_reduced_start", "reduce_scatter_start", "reduce_scatter_done"),
            *("unreduced_psum_start", "unreduced_reduce_scatter_start"),
        ),
        _DEVICES,
    ),
    **dict.fromkeys(
        (
            *("new_ref", "empty_ref", "free_ref", "freeze", "get", "swap", "addupdate"),
            *("accum_grad_in_ref", "run_state", "pin", "unpin", "create_linear", "broadcast_to"),
            *("new_box", "box_get", "box_set", "new_log", "log_read", "log_extend"),
        ),
        _REFERENCES,
    ),
    **dict.fromkeys(
        (
            *("pallas_call", "program_id", "num_programs", "masked_load", "masked_swap"),
            *("multiple_of", "reciprocal", "run_scoped", "get_global", "delay", "jaxpr_call"),
            *("semaphore_read", "semaphore_signal", "semaphore_wait"),
            "with_memory_space_constraint",
        ),
        _PALLAS,
    ),
    **{
        f"dot_product_attention_{kind}{end}": _CUDNN
        for kind in ("fwd", "bwd", "fp8_fwd", "fp8_bwd")
        for end in ("", "_wrapper")
    },
    "cudnn_fusion": "it calls cuDNN; convert the function that it holds",
    **dict.fromkeys(("create_token", "after_all"), _TOKENS),
    **dict.fromkeys(
        (
            *("threefry4x32", "philox2x32", "philox4x32", "iota_2x32_shape"),
            *("from_edtype", "to_edtype"),
        ),
        _KEYS,
    ),
    **{
        f"random_{draw} of key<{kind}>": _GENERATOR
        for draw in ("seed", "split", "fold_in", "bits", "gamma")
        for kind in ("rbg", "urbg")
    },
    "noinline": "Equinox calls it through Python; convert the function without it",
    "igamma_grad_a": "the derivative of gammainc by its first argument is not written; "
    "compute it before the export",
    "rng_bit_generator": "it is XLA's own generator; use jax.random with a key of threefry",
    "rng_uniform": _ENTROPY,
    **dict.fromkeys(
        (
            *("custom_lin", "call_hi_primitive_linearized", "unreachable"),
            *("dimension_size", "shape_assertion"),
        ),
        _TRANSFORMING,
    ),
}
"""By primitive, the public ones of `jax`, those inside of it, and Equinox's."""

AT_ONCE = frozenset({"io_callback", "rng_uniform"})
"""Refused while tracing, for they give other values on each run, and must not become constants."""
