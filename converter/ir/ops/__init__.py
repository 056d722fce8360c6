"""The operations of graphs: each is stated here once, with all that is known of it.

``ops.add`` is the sum of two, in whatever dtype. A new operation is one line in one of these
modules, and a rule that writes it.
"""

from converter.ir.ops.catalogue import external_op, op_by_name, op_variant, stated, user_op
from converter.ir.ops.composites import *
from converter.ir.ops.pointwise import *
from converter.ir.ops.primitives import *

__all__ = ["external_op", "op_by_name", "op_variant", "stated", "user_op"]
