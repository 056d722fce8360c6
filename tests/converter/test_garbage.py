"""The garbage collector during a conversion, and its unchanged state after one that may fail."""

import gc

import jax.numpy as jnp
import pytest

import converter


def frozen_count_while_tracing(fn, *specs):
    """Return how many objects the garbage collector ignores while a function is traced."""
    counts = []

    def record_count(*arguments):
        counts.append(gc.get_freeze_count())
        return fn(*arguments)

    converter.to_onnx(record_count, specs)
    return counts[0]


def test_existing_objects_are_frozen_during_a_conversion():
    assert frozen_count_while_tracing(jnp.sin, (3,)) > 10_000
    assert gc.get_freeze_count() == 0 and gc.isenabled()
    with pytest.raises(ZeroDivisionError):
        converter.to_onnx(lambda x: x / (1 // 0), [(3,)])
    assert gc.get_freeze_count() == 0


def test_objects_frozen_by_the_user_stay_frozen():
    """A conversion neither freezes nor thaws objects if the user froze some.

    The count only falls by the frozen objects that are deleted meanwhile.
    """
    gc.freeze()
    try:
        before = gc.get_freeze_count()
        new_objects = [[] for _ in range(1000)]
        assert 0.9 * before < frozen_count_while_tracing(jnp.sin, (3,)) <= before
        assert 0.9 * before < gc.get_freeze_count() <= before
        del new_objects
    finally:
        gc.unfreeze()
