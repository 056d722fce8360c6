"""Numbers and named sizes that are known during conversion."""

from converter.ir import ops
from converter.ir.dims import Dim
from converter.ir.nodes import Value
from converter.ir.origins import source_behind

BROADCAST_OPS = (ops.broadcast_in_dim, ops.reshape)


def scalar(value: Value) -> float | int | bool | None:
    """Return the number of a constant with one element as a Python number.

    The value may also be a broadcast or reshape of such a constant. Return None for all other
    values, for constants of several elements even if these are equal, and for complex numbers.
    """
    value = source_behind(value, BROADCAST_OPS)
    if value.kind != "const" or value.const is None or value.const.size != 1:
        return None
    return value.const.item() if value.dtype.kind in "biufV" else None


def named_size(value: Value) -> Dim | None:
    """Return the dimension whose size this value is, such as ``2*h``.

    The value may be the result of ``dim_as_value``, or a broadcast, a reshape or a conversion of
    it. Return None for other values, also for constants.
    """
    size = source_behind(value, (*BROADCAST_OPS, ops.convert_element_type)).producer_if(
        ops.dim_as_value
    )
    return None if size is None else size.params["dim"]
