"""The intermediate representation: values, nodes, their meaning in JAX. It knows no ONNX."""

from converter.ir.nodes import Graph, Node, Value, const, make_node

__all__ = ["Graph", "Node", "Value", "const", "make_node"]
