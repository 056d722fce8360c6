"""Primitives that are never converted, with the reason and the alternative that the error message
contains."""

from converter.frontend.array_forms import DRAWING_PRIMITIVES, KEY_IMPLEMENTATIONS, THREEFRY

_COLLECTIVES = ("all_gather", "all_to_all", "pbroadcast", "ppermute", "psum")

_REASONS = {
    "it is found by iterations that have no counterpart in ONNX; use jnp.linalg.eigh or svd if the "
    "matrix allows it, else compute it before the export": "eig schur hessenberg",
    "its reflections have no counterpart in ONNX; use jnp.linalg.eigh": "tridiagonal",
    "a file cannot call Python; compute it before the export or write it in jax.numpy": (
        "pure_callback io_callback"
    ),
    "it calls foreign code; write it in jax.numpy": "ffi_call",
    "it holds compiled code; convert the function that it was made from": "call_exported",
    "a file is for one device; convert the function over a mesh of one": (
        "shard_map core_map mpmd_map psend precv ragged_all_to_all pbroadcast_dynamic "
        + "".join(f"{name}_start {name}_done " for name in _COLLECTIVES)
        + "all_gather_reduced_start psum_invariant_start reduce_scatter_start reduce_scatter_done "
        "unreduced_psum_start unreduced_reduce_scatter_start"
    ),
    "ONNX has no arrays that change in place; return the new array instead": (
        "new_ref empty_ref free_ref freeze get swap addupdate accum_grad_in_ref run_state pin "
        "unpin create_linear broadcast_to new_box box_get box_set new_log log_read log_extend"
    ),
    "a kernel is written for one device; convert the function that it stands for": (
        "pallas_call program_id num_programs masked_load masked_swap multiple_of reciprocal "
        "run_scoped get_global delay jaxpr_call semaphore_read semaphore_signal semaphore_wait "
        "with_memory_space_constraint"
    ),
    "it calls cuDNN; use jax.nn.dot_product_attention(…, implementation='xla')": " ".join(
        f"dot_product_attention_{kind} dot_product_attention_{kind}_wrapper"
        for kind in ("fwd", "bwd", "fp8_fwd", "fp8_bwd")
    ),
    "it calls cuDNN; convert the function that it holds": "cudnn_fusion",
    "ONNX has no order of effects; leave the token out": "create_token after_all",
    "it is another generator's than threefry; make the key with jax.random.key(seed)": (
        "threefry4x32 philox2x32 philox4x32 iota_2x32_shape from_edtype to_edtype"
    ),
    "Equinox calls it through Python; convert the function without it": "noinline",
    "the derivative of gammainc by its first argument is not written; compute it before the "
    "export": "igamma_grad_a",
    "it is XLA's own generator; use jax.random with a key of threefry": "rng_bit_generator",
    "its numbers are drawn by the device, others on each run; use jax.random": "rng_uniform",
    "it belongs to a transformation of JAX and is gone once a function is traced": (
        "custom_lin call_hi_primitive_linearized unreachable dimension_size shape_assertion"
    ),
}

_GENERATOR = (
    "its generator does not draw the same numbers on every device; "
    "make the key with jax.random.key(seed, impl='threefry2x32')"
)

REFUSAL_REASONS = {
    **{name: reason for reason, names in _REASONS.items() for name in names.split()},
    **{
        f"{draw} of {key}": _GENERATOR
        for draw in DRAWING_PRIMITIVES
        for key in KEY_IMPLEMENTATIONS.keys() - {THREEFRY}
    },
}
"""The reason by primitive: public primitives of `jax`, internal ones, and Equinox's."""

REFUSED_WHILE_TRACING = frozenset({"io_callback", "rng_uniform"})
"""Primitives that are refused while tracing. Their values differ between runs and must not become
constants."""
