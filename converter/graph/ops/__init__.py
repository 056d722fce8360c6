"""The operations of graphs: each is stated here once, with all that is known of it.

``ops.add`` is the sum of two, in whatever dtype. A new operation is one line in one of these
modules, and a rule that writes it.
"""

from converter.graph.ops.composites import *
from converter.graph.ops.elementwise import *
from converter.graph.ops.primitives import *
from converter.graph.ops.table import named, of_kind, of_user, stated

__all__ = ["named", "of_kind", "of_user", "stated"]
