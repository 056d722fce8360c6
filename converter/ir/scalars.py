"""Numbers and named sizes that are known during conversion."""

from converter.ir import ops
from converter.ir.dims import Dim
from converter.ir.nodes import Value
from converter.ir.origins import source_behind

BROADCAST_OPS = (ops.broadcast_in_dim, ops.reshape)


def scalar(value: Value) -> float | int | bool | None:
    """Return the number of a constant with one element, through broadcasts; None for other
    values."""
    value = source_behind(value, BROADCAST_OPS)
    if value.kind != "const" or value.const is None or value.const.size != 1:
        return None
    return value.const.item() if value.dtype.kind in "biufV" else None


def named_size(value: Value) -> Dim | None:
    """Return the named dimension whose size a value is, through broadcasts and conversions, or
    None."""
    size = source_behind(value, (*BROADCAST_OPS, ops.convert_element_type)).made_by(
        ops.dim_as_value
    )
    return None if size is None else size.params["dim"]
