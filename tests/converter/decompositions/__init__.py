"""Primitives that become JAX functions, against numpy and scipy in float64."""
