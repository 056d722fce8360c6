"""Nodes that the target does not run in the form that they have: written otherwise, or refused.

What a target runs of an operation are its ``forms``. The passes before this one write nodes in the
forms that runtimes have; this one makes sure of it, whoever wrote a node.
"""

from collections.abc import Sequence
from functools import partial

from converter.ir import Graph, Node, Value, ops
from converter.ir.op import Op
from converter.ir.rewrite import Editor, Rule
from converter.layout import resize_layout
from converter.targets import Target

OTHER_FORMS: dict[Op, Rule] = {ops.resize: resize_layout.resize_axis_by_axis}
"""Other forms, by operation."""


def support_rules(target: Target, opset: int) -> dict[Op, Rule]:
    """The rules that write what a target does not run at an opset in another form."""
    rule = partial(_rewrite_form, target=target, opset=opset)
    return dict.fromkeys(OTHER_FORMS.keys() & target.forms.keys(), rule)


def _rewrite_form(
    node: Node, editor: Editor, target: Target, opset: int
) -> Sequence[Value] | Value | None:
    is_supported = not target.forms[node.op].misfit(node, opset)
    return None if is_supported else OTHER_FORMS[node.op](node, editor)


def refuse_misfits(graph: Graph, target: Target, opset: int) -> None:
    """Give each node that a target does not run at an opset the refusal that says why."""
    for node in graph.walk():
        form = target.forms.get(node.op)
        if form is not None and (reason := form.misfit(node, opset)):
            types = ", ".join(value.type_text() for value in node.inputs)
            node.refusal = (
                f"{target.name} does not run '{node.op}' ({types}) at opset {opset}: {reason}"
            )
