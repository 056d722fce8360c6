"""Loops do each step no more than what depends on the step before.

A runtime takes a loop node by node, which costs as much for a number as for a thousand. So what
does not depend on what is carried is computed for all steps at once.
"""

from converter.loops.rules import batch_loops, shorten_loops

__all__ = ["batch_loops", "shorten_loops"]
