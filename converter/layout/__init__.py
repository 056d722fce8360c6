"""The order of axes that ONNX's operators take; still a graph that JAX can evaluate."""
