"""The operations of graphs: each is stated here once, with all that is known of it.

``ops.add`` is the sum of two, in whatever dtype. A new operation is one line in one of these
modules, and a rule that writes it.
"""

from converter.ir.ops.catalogue import from_outside, named, of_kind, of_user, stated
from converter.ir.ops.composites import *
from converter.ir.ops.pointwise import *
from converter.ir.ops.primitives import *

__all__ = ["from_outside", "named", "of_kind", "of_user", "stated"]
