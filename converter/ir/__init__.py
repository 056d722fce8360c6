"""The intermediate representation: graphs, values, nodes and their evaluation in JAX. It does not
depend on ONNX."""

from converter.ir.nodes import Graph, Node, Value, const, make_node

__all__ = ["Graph", "Node", "Value", "const", "make_node"]
