"""Rewrite nodes in forms that the target runs, and mark those for which there is no such form.

The ``forms`` of a target define the forms that it runs. Earlier passes already emit their nodes in
these forms. This pass checks all nodes, including the nodes that users' rules emit.
"""

from collections.abc import Sequence
from functools import partial

from converter.ir import Graph, Node, Value, ops
from converter.ir.op import Op
from converter.ir.rewrite import Editor, Rule
from converter.layout import resize_layout
from converter.targets import Target

OTHER_FORMS: dict[Op, Rule] = {ops.resize: resize_layout.resize_axis_by_axis}
"""Rules that rewrite a node in another form, by operation. A resize of several axes becomes
one resize for each axis."""


def support_rules(target: Target, opset: int) -> dict[Op, Rule]:
    """Return the rules that rewrite nodes whose form the target does not run at this opset.

    A form is the dtype, the rank and the parameters of a node. There are rules for the operations
    in `OTHER_FORMS` only.
    """
    rule = partial(_rewrite_form, target=target, opset=opset)
    return dict.fromkeys(OTHER_FORMS.keys() & target.forms.keys(), rule)


def _rewrite_form(
    node: Node, editor: Editor, target: Target, opset: int
) -> Sequence[Value] | Value | None:
    """Return the values that replace a node in another form, or None if the target runs it."""
    is_supported = not target.forms[node.op].find_misfit(node, opset)
    return None if is_supported else OTHER_FORMS[node.op](node, editor)


def refuse_misfits(graph: Graph, target: Target, opset: int) -> None:
    """Set `Node.refusal_reason` on each node whose form the target does not run at this opset.

    A form is the dtype, the rank and the parameters of a node. Nodes in bodies are included.
    Lowering such a node raises an error with this reason.
    """
    for node in graph.walk():
        form = target.forms.get(node.op)
        if form is not None and (reason := form.find_misfit(node, opset)):
            types = ", ".join(value.type_text() for value in node.inputs)
            node.refusal_reason = (
                f"{target.name} does not run '{node.op}' ({types}) at opset {opset}: {reason}"
            )
