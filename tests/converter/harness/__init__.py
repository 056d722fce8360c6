"""JAX's own table of uses of its primitives, as cases for the converter.

JAX tests every backend with `jax._src.internal_test_util.test_harnesses`, some 5,600 calls in
groups named after primitives. It is internal to JAX, so only tests and benchmarks import it.
"""
