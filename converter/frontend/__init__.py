"""From a JAX function to a graph of JAX's own primitives: all that knows the inside of a jaxpr."""
