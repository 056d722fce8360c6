"""From jaxprs to nodes: with ``converter.trace``, all that knows the inside of a jaxpr."""
