"""Primitives that decompositions replace by JAX functions, against numpy and scipy in float64."""
