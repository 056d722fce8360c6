"""Random numbers from PRNG keys that are inputs or parameters of a file, compared with JAX."""

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


def key_data(result):
    """Return an array as it is, and keys as their integers."""
    is_key = jnp.issubdtype(result.dtype, jax.dtypes.prng_key)
    return np.asarray(random.key_data(result) if is_key else result)


def assert_draws(fn, opset=23, seeds=SEEDS, **options):
    """Assert that the file of a function of a key agrees with JAX for keys of several seeds.

    Return the export.
    """
    export = converter.to_onnx(fn, [KEY], opset=opset, **options)
    file_session, compiled = session(export), jax.jit(fn)
    for seed in seeds:
        key = random.key(seed)
        actual_values = file_session.run(None, {file_session.get_inputs()[0].name: key_data(key)})
        for actual, result in zip(actual_values, jax.tree.leaves(compiled(key)), strict=True):
            expected = key_data(result)
            assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
            np.testing.assert_array_equal(actual, expected)
    return export


def test_a_key_is_two_integers_in_the_file():
    export = assert_draws(lambda key: [random.uniform(key, (1000,)), key], seeds=(3,))
    (value,) = export.model.graph.inputs
    assert (value.name, value.dtype.name, list(value.shape)) == ("key", "UINT32", [2])
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


@pytest.mark.parametrize("partitionable", [pytest.param(True, marks=pytest.mark.full), False])
def test_both_orders_of_hashing_agree_with_jax(partitionable):
    """Draws agree with JAX at the oldest and newest opsets, and in 64 bits."""
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
    def next_state(state):
        return random.split(state[0])[0], state[1] + 1

    def is_low(state):
        return random.uniform(state[0]) < 0.7

    return jax.vmap(lambda one: lax.while_loop(is_low, next_state, (one, 0)))(random.split(key, 5))


def either(key):
    is_odd = random.key_data(key)[1] % 2 == 1
    return lax.cond(is_odd, lambda k: random.split(k)[0], lambda k: random.fold_in(k, 3), key)


@pytest.mark.full
@pytest.mark.parametrize("fn", [moved, in_turn, of_each, until, either])
def test_keys_move_as_arrays_do(fn):
    assert_draws(fn, seeds=(2, 3))


def test_keys_may_have_symbolic_dimensions():
    def fn(keys, x):
        drop = jax.vmap(lambda key, row: row * random.bernoulli(key, 0.5, row.shape))
        return drop(keys, x), random.uniform(keys[0], x.shape)

    keys = jax.ShapeDtypeStruct(jax.export.symbolic_shape("B"), KEY.dtype)
    for partitionable in (True, False):
        with jax.threefry_partitionable(partitionable):
            inputs = random.split(random.key(5), 7), np.ones((7, 3), np.float32)
            file_session = session(converter.to_onnx(fn, [keys, ("B", 3)]))
            actual_values = file_session.run(None, {"keys": key_data(inputs[0]), "x": inputs[1]})
            np.testing.assert_equal(actual_values, [np.asarray(y) for y in fn(*inputs)])


def test_constant_and_unused_draws_add_no_nodes():
    """Draws from constant keys are folded, and unused draws are removed.

    Draws of more than a mebibyte are not folded.
    """

    def fn(x):
        keys = random.split(KEY, 9)
        [random.normal(key, (3,)) for key in random.split(keys[4], 30)]
        return x + random.normal(keys[3], (2, 3))

    assert converter.to_onnx(fn, [()]).report.histogram == {"Add": 1}
    large = converter.to_onnx(lambda x: x + random.uniform(KEY, (600, 600)), [()])
    assert large.report.nodes < 150


def test_keys_may_be_parameters(tmp_path):
    """Parameters may be typed keys, old keys, or abstract keys that are bound at saving."""

    def fn(params, x):
        return x + random.bits(params["key"], ()) % 100, random.split(params["key"])

    def assert_agrees(file, key):
        actual_values = session(file).run(None, {"x": np.array(2, np.uint32)})
        np.testing.assert_equal(actual_values, [*map(key_data, fn({"key": key}, jnp.uint32(2)))])

    specs, path = [((), "uint32")], tmp_path / "model.onnx"
    for leaf in (KEY, random.PRNGKey(0)):
        assert_agrees(converter.to_onnx(fn, specs, params={"key": leaf}), leaf)
    abstract = converter.to_onnx(fn, specs, params={"key": jax.ShapeDtypeStruct((), KEY.dtype)})
    abstract.save(path, {"key": random.key(8)})
    assert_agrees(path, random.key(8))


@pytest.mark.full
def test_dropout_of_equinox_takes_a_key_as_input():
    dropout, linear = eqx.nn.Dropout(0.5), eqx.nn.Linear(4, 8, key=KEY)

    def fn(x, key):
        return jax.vmap(lambda row, one: dropout(linear(row), key=one))(
            x, random.split(key, x.shape[0])
        )

    export = converter.to_onnx(fn, [("B", 4), KEY])
    arguments = [np.ones((5, 4), np.float32), random.key(4)]
    for inputs in (arguments, [arguments[0], key_data(arguments[1])]):
        verdict = converter.check(export, fn, inputs)
        assert verdict.passed, verdict.differences
    assert converter.bisect(lambda x, key: dropout(x, key=key), arguments) is None
    by_name = converter.to_onnx(dropout, [(4, 5)], kwargs={"key": KEY})
    assert [value.name for value in by_name.model.graph.inputs] == ["x", "key"]


@pytest.mark.parametrize("impl", ["rbg", "unsafe_rbg"])
def test_other_generators_are_rejected_by_name(impl):
    def fn(key):
        return random.normal(key[0], (3,))

    keys = random.split(random.key(0, impl=impl), 3)
    message = f"random_bits of {keys.dtype.name}.*impl='threefry2x32'"
    with pytest.raises(converter.UnsupportedError, match=message):
        converter.to_onnx(fn, [keys])
    assert converter.to_onnx(lambda key: key[0], [keys]).report.nodes <= 3
    assert len(converter.explain(fn, [keys]).obstacles) == 1


def test_seeds_of_64_bits_agree_with_jax():
    """The upper half of a seed above 32 bits is part of the key."""
    with jax.enable_x64(True):
        seed = np.int64(2**40 + 3)
        export = converter.to_onnx(lambda s: jax.random.key_data(jax.random.key(s)), [seed])
        (key,) = converter.run(export, [seed]).values()
    assert key.tolist() == [2**8, 3]
