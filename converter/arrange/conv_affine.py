"""What scales or shifts each channel of a convolution's result goes into its weights and its bias.

    conv(x, w) * s + t  =  conv(x, w * s) + t

A batch norm at inference is such a scale and such a shift. Weights are multiplied by others only
where both are parameters, so that this is done when the file is saved, and the result keeps the
name of the weights. A shift without a scale may be anything: ``Conv`` adds it for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from converter.graph import Node, Value, dims
from converter.graph.origins import sources
from converter.graph.rewrite import Editor, Rule


@dataclass(frozen=True)
class _Found:
    """A convolution whose result nothing else reads, seen as ``view`` along ``axis``."""

    conv: Node
    view: Node
    axis: int

    @property
    def bias(self) -> Value | None:
        return self.conv.inputs[2] if len(self.conv.inputs) > 2 else None

    def replaced(self, weight: Value, bias: Value | None, editor: Editor) -> Value:
        """The same view of the convolution with other weights and another bias."""
        inputs = [self.conv.inputs[0], weight, *([] if bias is None else [bias])]
        inner = self.conv.out
        whole = editor.add(self.conv.op, inputs, inner.shape, inner.dtype, self.conv.params)
        view = self.view
        if view is self.conv:
            return whole
        return editor.add(view.op, [whole], view.out.shape, whole.dtype, view.params)


def rules(weights: set[int], fold: bool) -> dict[str, Rule]:
    """``weights`` are the ids of what depends on parameters alone; with ``fold`` those change."""
    affine = _Affine(weights, fold)
    return {"add": affine.add, "sub": affine.sub, "mul": affine.mul, "div": affine.div}


@dataclass(frozen=True)
class _Affine:
    weights: set[int]
    fold: bool

    def add(self, node: Node, editor: Editor) -> Value | None:
        one, other = node.inputs
        found = self._shifted(node, one, other, editor)
        return self._shifted(node, other, one, editor) if found is None else found

    def sub(self, node: Node, editor: Editor) -> Value | None:
        term, other = node.inputs
        return self._shifted(node, term, other, editor) if self._fixed(other) else None

    def mul(self, node: Node, editor: Editor) -> Value | None:
        one, other = node.inputs
        found = self._scaled(node, one, other, editor)
        return self._scaled(node, other, one, editor) if found is None else found

    def div(self, node: Node, editor: Editor) -> Value | None:
        term, other = node.inputs
        return self._scaled(node, term, other, editor)

    def _shifted(self, node: Node, term: Value, other: Value, editor: Editor) -> Value | None:
        found = _convolution(term, editor, node)
        if found is None or not (found.bias is None or self._fixed(found.bias, other)):
            return None
        bias = _along(other, found.axis, node.out, editor)
        if bias is not None and node.op == "sub":
            bias = self._made("neg", [bias], bias.shape, editor)
        if bias is not None and found.bias is not None:
            bias = self._made("add", [found.bias, bias], bias.shape, editor)
        return None if bias is None else found.replaced(found.conv.inputs[1], bias, editor)

    def _scaled(self, node: Node, term: Value, other: Value, editor: Editor) -> Value | None:
        found = _convolution(term, editor, node)
        if found is None or not self._fixed(other, *found.conv.inputs[1:]):
            return None
        along = _along(other, found.axis, node.out, editor)
        by_output = _by_output(found.conv)
        if along is None or by_output is None:
            return None
        weight, bias = found.conv.inputs[1], found.bias
        factor = editor.reshape(along, by_output)
        scaled = self._made(node.op, [weight, factor], weight.shape, editor)
        scaled.name = _own_name(weight)
        if bias is not None:
            bias = self._made(node.op, [bias, along], bias.shape, editor)
        return found.replaced(scaled, bias, editor)

    def _fixed(self, *values: Value) -> bool:
        """Whether the values are known when the file is saved, and may become others then."""
        known = (v.kind in ("const", "param") or id(v) in self.weights for v in values)
        return self.fold and all(known)

    def _made(self, op: str, inputs: list[Value], shape: dims.Shape, editor: Editor) -> Value:
        value = editor.add(op, inputs, shape, inputs[0].dtype)
        self.weights.add(id(value))
        return value


def _convolution(value: Value, editor: Editor, reader: Node) -> _Found | None:
    """The convolution behind the operand of a node, of which it is the largest.

    It may be seen through a transposition, or through a reshape that splits the batch (``vmap``).
    """
    node = value.node
    if node is None or not dims.same_shape(value.shape, reader.out.shape):
        return None
    conv = node.inputs[0].node if node.op in ("transpose", "reshape") else node
    seen = conv is not None and conv.op in _AXES and editor.single_use(value)
    if conv is None or not seen or not editor.single_use(conv.out):
        return None
    axis = _channels(node, conv)
    return None if axis is None else _Found(conv, node, axis)


def _channels(view: Node, conv: Node) -> int | None:
    """Where the channels of a convolution are in a view of it."""
    if view is conv:
        return 1
    if view.op == "transpose":
        return int(view.params["permutation"].index(1))
    kept = conv.out.rank - 1
    same = view.out.rank >= kept and dims.same_shape(view.out.shape[-kept:], conv.out.shape[1:])
    return view.out.rank - kept if same else None


def _along(value: Value, axis: int, out: Value, editor: Editor) -> Value | None:
    """``value`` as [channels], if it differs along that axis of ``out`` at most."""
    source, ones = value, list(value.shape)
    node = value.node
    if node is not None and node.op == "broadcast_in_dim":
        source, ones = node.inputs[0], [1] * value.rank
        for place, size in zip(node.params["broadcast_dimensions"], source.shape, strict=True):
            ones[place] = size
    ones = [*[1] * (out.rank - value.rank), *ones]
    wanted = tuple(d if i == axis else 1 for i, d in enumerate(out.shape))
    if source.dtype != out.dtype:
        return None
    if all(dims.same(d, 1) for d in ones):
        return editor.broadcast(editor.reshape(source, ()), (out.shape[axis],), ())
    return editor.reshape(source, (out.shape[axis],)) if dims.same_shape(ones, wanted) else None


_AXES = {"conv": 0, "conv_transpose": 1}
"""Where the weights have the channels of the result."""


def _by_output(conv: Node) -> dims.Shape | None:
    """The shape in which a number for each channel of the result is multiplied with the weights."""
    weight, axis = conv.inputs[1], _AXES[conv.op]
    if axis and conv.params["groups"] > 1:
        return None  # the weights have one group's channels there
    return tuple(size if i == axis else 1 for i, size in enumerate(weight.shape))


def _own_name(weight: Value) -> str:
    names = [v.name for v in sources(weight).values() if v.kind == "param"]
    return weight.name or (names[0] if len(names) == 1 else "")
