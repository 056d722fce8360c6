"""Brax: the networks of its agents, called through its inference functions."""

from collections.abc import Callable
from typing import Any

import jax
from brax.training import networks
from brax.training.acme import running_statistics, specs
from brax.training.agents.ppo import networks as ppo
from brax.training.agents.sac import networks as sac

from tests.frameworks.rows import Bound, Row, draw

WIDTH, ACTIONS = 7, 3
OBSERVED = (("B", WIDTH),)
KEY = jax.random.key(0)


def policy(agent: Any) -> Callable[..., Bound]:
    """Return ``bind`` for a trained agent's actions. It normalises observations by running
    statistics."""
    agent_networks = getattr(agent, f"make_{agent.__name__.split('.')[-2]}_networks")(
        WIDTH, ACTIONS, running_statistics.normalize
    )
    act = agent.make_inference_fn(agent_networks)
    statistics = jax.eval_shape(
        lambda: running_statistics.init_state(specs.Array((WIDTH,), "float32"))
    )
    params = draw((statistics, jax.eval_shape(agent_networks.policy_network.init, KEY)))

    def fn(params: Any, observation: jax.Array) -> jax.Array:
        return act(params, deterministic=True)(observation, KEY)[0]

    return lambda _: (fn, params)


def value() -> Callable[..., Bound]:
    value_network = networks.make_value_network(WIDTH, hidden_layer_sizes=(8, 8))

    def fn(params: Any, observation: jax.Array) -> jax.Array:
        return value_network.apply(None, params, observation)

    return lambda _: (fn, draw(jax.eval_shape(value_network.init, KEY)))


ROWS = [
    Row("PPO policy", policy(ppo), OBSERVED),
    Row("SAC policy", policy(sac), OBSERVED),
    Row("value network", value(), OBSERVED),
]
