"""Trace a JAX function to a graph of JAX primitives. Only this package knows the structure of
jaxprs."""
