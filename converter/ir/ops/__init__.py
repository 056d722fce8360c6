"""The operations of graphs. Each is defined once, here, with all its traits.

``ops.add`` is the sum of two values of any dtype. To add an operation, add a line to one of these
modules and a rule that lowers the operation.
"""

from converter.ir.ops.catalogue import defined_ops, external_op, op_by_name, op_variant, user_op
from converter.ir.ops.composites import *
from converter.ir.ops.pointwise import *
from converter.ir.ops.primitives import *

__all__ = ["defined_ops", "external_op", "op_by_name", "op_variant", "user_op"]
