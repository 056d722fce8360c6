"""Every rule of the converter, proved on its own: JAX evaluates the graph before it and after."""
