"""From what a graph means to how ONNX wants it laid out; still a graph that JAX can evaluate."""
