"""The collector is left as it was, however a conversion ends."""

import gc

import jax.numpy as jnp
import pytest

import converter


def frozen_while(fn, *specs):
    """How many objects the collector leaves out while a function is traced."""
    counts = []

    def traced(*arguments):
        counts.append(gc.get_freeze_count())
        return fn(*arguments)

    converter.to_onnx(traced, specs)
    return counts[0]


def test_what_was_there_before_is_not_searched():
    assert frozen_while(jnp.sin, (3,)) > 10_000
    assert gc.get_freeze_count() == 0 and gc.isenabled()
    with pytest.raises(ZeroDivisionError):
        converter.to_onnx(lambda x: x / (1 // 0), [(3,)])
    assert gc.get_freeze_count() == 0


def test_what_somebody_froze_stays_frozen():
    """Nothing is added to what they froze or let go; what of it dies meanwhile leaves the count."""
    gc.freeze()
    try:
        before = gc.get_freeze_count()
        young = [[] for _ in range(1000)]
        assert 0.9 * before < frozen_while(jnp.sin, (3,)) <= before
        assert 0.9 * before < gc.get_freeze_count() <= before
        del young
    finally:
        gc.unfreeze()
