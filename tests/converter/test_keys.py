"""PRNG keys as inputs: the file draws JAX's own numbers."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax, random

import converter
from converter.verify.sessions import session

KEY = random.key(0)
SEEDS = (3, 7922)


def drawn(result):
    """Arrays, keys as the numbers they hold."""
    is_key = jnp.issubdtype(result.dtype, jax.dtypes.prng_key)
    return np.asarray(random.key_data(result) if is_key else result)


def assert_draws(fn, opset=23, seeds=SEEDS, **given):
    """The file gives what JAX does, from several keys."""
    export = converter.to_onnx(fn, [KEY], opset=opset, **given)
    live, compiled = session(export), jax.jit(fn)
    for seed in seeds:
        key = random.key(seed)
        got = live.run(None, {live.get_inputs()[0].name: drawn(key)})
        for actual, result in zip(got, jax.tree.leaves(compiled(key)), strict=True):
            wanted = drawn(result)
            assert (actual.dtype, actual.shape) == (wanted.dtype, wanted.shape)
            np.testing.assert_array_equal(actual, wanted)
    return export


def test_a_key_is_two_numbers_in_the_file():
    export = assert_draws(lambda key: [random.uniform(key, (1000,)), key], seeds=(3,))
    (given,) = export.model.graph.inputs
    assert (given.name, given.dtype.name, list(given.shape)) == ("key", "UINT32", [2])
    assert export.report.nodes == 125


def every_primitive(key):
    keys = random.split(key, 4)
    return [
        *(random.bits(key, shape, "uint8") for shape in ((3, 5), ())),
        *(random.bits(key, (n,), "uint32") for n in (4, 5)),
        random.split(key, (2, 3)),
        random.fold_in(key, jnp.int32(-5)),
        jax.vmap(random.fold_in)(keys, jnp.arange(4)),
        random.key(random.key_data(key)[1].astype(jnp.int32) - 9),
        random.uniform(key, (3, 5), "float16"),
        random.clone(key),
        jax.vmap(lambda one: random.bits(one, (5,), "uint16"))(keys),
        jax.vmap(lambda one: random.split(one, 3))(keys),
    ]


def wide(key):
    return [
        random.uniform(key, (9,)),
        random.randint(key, (9,), -(2**60), 2**60),
        random.key(jnp.int64(2**40 + 5) + random.key_data(key)[1]),
    ]


@pytest.mark.full
@pytest.mark.parametrize("partitionable", [True, False])
def test_both_orders_of_hashing(partitionable):
    """At every opset, and numbers of 64 bits."""
    with jax.threefry_partitionable(partitionable):
        for opset in (18, 26):
            assert_draws(every_primitive, opset)
        with jax.enable_x64(True):
            assert_draws(wide)


def moved(key):
    keys, i = random.split(key, (4, 3)), random.key_data(key)[1].astype(jnp.int32) % 4
    return [
        *(keys[i], keys.T, keys[::-1, None], keys.at[1].set(keys[0]), keys.at[i, 0].get()),
        *(jnp.concatenate([keys, keys[:1]]), jnp.stack([keys, keys], 1), jnp.tile(keys, (2, 1))),
        *(jnp.squeeze(keys[:1]), jnp.broadcast_to(keys[0], (2, 3)), jnp.roll(keys, 1)),
        *(lax.dynamic_slice(keys, (i, 0), (2, 3)), keys.reshape(12)[jnp.array([3, 1, 100])]),
        *(jnp.where(jnp.arange(3) < i, keys[0], key), keys == keys[0], keys != keys[0]),
    ]


def in_turn(key):
    return lax.scan(lambda k, _: (random.split(k)[0], random.uniform(k, (2,))), key, length=4)


def of_each(key):
    def step(total, one):
        return total + random.uniform(one, (2,)), random.split(one)

    return lax.scan(step, jnp.zeros(2), random.split(key, 4))


def until(key):
    def again(state):
        return random.split(state[0])[0], state[1] + 1

    def is_low(state):
        return random.uniform(state[0]) < 0.7

    return jax.vmap(lambda one: lax.while_loop(is_low, again, (one, 0)))(random.split(key, 5))


def either(key):
    is_odd = random.key_data(key)[1] % 2 == 1
    return lax.cond(is_odd, lambda k: random.split(k)[0], lambda k: random.fold_in(k, 3), key)


@pytest.mark.full
@pytest.mark.parametrize("fn", [moved, in_turn, of_each, until, either])
def test_keys_go_where_arrays_do(fn):
    assert_draws(fn, seeds=(2, 3))


def test_named_sizes():
    def fn(keys, x):
        drop = jax.vmap(lambda key, row: row * random.bernoulli(key, 0.5, row.shape))
        return drop(keys, x), random.uniform(keys[0], x.shape)

    keys = jax.ShapeDtypeStruct(jax.export.symbolic_shape("B"), KEY.dtype)
    for partitionable in (True, False):
        with jax.threefry_partitionable(partitionable):
            given = random.split(random.key(5), 7), np.ones((7, 3), np.float32)
            live = session(converter.to_onnx(fn, [keys, ("B", 3)]))
            got = live.run(None, {"keys": drawn(given[0]), "x": given[1]})
            np.testing.assert_equal(got, [np.asarray(y) for y in fn(*given)])


def test_what_is_known_or_dead_costs_nothing():
    """Above a mebibyte what is known stays drawn: that once took hours to see."""

    def fn(x):
        keys = random.split(KEY, 9)
        [random.normal(key, (3,)) for key in random.split(keys[4], 30)]
        return x + random.normal(keys[3], (2, 3))

    assert converter.to_onnx(fn, [()]).report.histogram == {"Add": 1}
    large = converter.to_onnx(lambda x: x + random.uniform(KEY, (600, 600)), [()])
    assert large.report.nodes < 150


def test_keys_as_parameters(tmp_path):
    """Given, abstract or of the old kind, by the path of their leaf."""

    def fn(params, x):
        return x + random.bits(params["key"], ()) % 100, random.split(params["key"])

    def assert_right(file, key):
        got = session(file).run(None, {"x": np.array(2, np.uint32)})
        np.testing.assert_equal(got, [*map(drawn, fn({"key": key}, jnp.uint32(2)))])

    specs, path = [((), "uint32")], tmp_path / "model.onnx"
    for leaf in (KEY, random.PRNGKey(0)):
        assert_right(converter.to_onnx(fn, specs, params={"key": leaf}), leaf)
    abstract = converter.to_onnx(fn, specs, params={"key": jax.ShapeDtypeStruct((), KEY.dtype)})
    abstract.save(path, {"key": random.key(8)})
    assert_right(path, random.key(8))


@pytest.mark.full
def test_dropout_of_equinox_with_a_key_that_is_given():
    dropout, linear = eqx.nn.Dropout(0.5), eqx.nn.Linear(4, 8, key=KEY)

    def fn(x, key):
        return jax.vmap(lambda row, one: dropout(linear(row), key=one))(
            x, random.split(key, x.shape[0])
        )

    export = converter.to_onnx(fn, [("B", 4), KEY])
    given = [np.ones((5, 4), np.float32), random.key(4)]
    for inputs in (given, [given[0], drawn(given[1])]):
        verdict = converter.check(export, fn, inputs)
        assert verdict.passed, verdict.differences
    assert converter.bisect(lambda x, key: dropout(x, key=key), given) is None
    by_name = converter.to_onnx(dropout, [(4, 5)], kwargs={"key": KEY})
    assert [value.name for value in by_name.model.graph.inputs] == ["x", "key"]


@pytest.mark.parametrize("impl", ["rbg", "unsafe_rbg"])
def test_other_generators_are_refused_by_name(impl):
    def fn(key):
        return random.normal(key[0], (3,))

    keys = random.split(random.key(0, impl=impl), 3)
    said = f"random_bits of {keys.dtype.name}.*impl='threefry2x32'"
    with pytest.raises(converter.UnsupportedError, match=said):
        converter.to_onnx(fn, [keys])
    assert converter.to_onnx(lambda key: key[0], [keys]).report.nodes <= 3
    assert len(converter.explain(fn, [keys]).obstacles) == 1


def test_a_seed_of_64_bits():
    """Its upper half is in the key, which only a seed that large shows."""
    with jax.enable_x64(True):
        seed = np.int64(2**40 + 3)
        export = converter.to_onnx(lambda s: jax.random.key_data(jax.random.key(s)), [seed])
        (key,) = converter.run(export, [seed]).values()
    assert key.tolist() == [2**8, 3]
