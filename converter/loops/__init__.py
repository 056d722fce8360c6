"""Reduce loops to the operations that depend on the previous step.

A runtime executes a loop node by node, at the same cost for one number as for a thousand.
Everything that does not depend on the carried states is therefore computed for all steps at once.
"""

from converter.loops.rules import batch_loops, shorten_loops

__all__ = ["batch_loops", "shorten_loops"]
