"""PPO with a recurrent network of purejaxrl's shape keeps learning under resets of its units.

The task needs memory: a cue is shown in the first step of an episode alone, and the action that it
asks for is rewarded in the last.
"""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
import pytest

from continual_learning.optim import CPR, NoReset, ReDo, attach_reset_method, trace_units

CUES, STEPS, EPISODES = 2, 3, 64


class ActorCritic(nn.Module):
    """(h [B, n], (x [T, B, …], start [T, B])) -> h, logits [T, B, cues], values [T, B]."""

    @nn.compact
    def __call__(self, h, ins):
        x, start = ins
        x = nn.relu(nn.Dense(16)(x))

        class Steps(nn.Module):
            @nn.compact
            def __call__(self, h, now):
                x, start = now
                h = jnp.where(start[:, None], jnp.zeros_like(h), h)
                return nn.GRUCell(h.shape[-1])(h, x)

        steps = nn.scan(Steps, variable_broadcast="params", split_rngs={"params": False})
        h, x = steps()(h, (x, start))
        logits = nn.Dense(CUES)(nn.relu(nn.Dense(16)(x)))
        return h, logits, nn.Dense(1)(nn.relu(nn.Dense(16)(x))).squeeze(-1)


def train(method, iterations=150):
    """Mean reward of every iteration, and the log of the resets."""
    network, start = ActorCritic(), jnp.zeros((STEPS, EPISODES), bool).at[0].set(True)
    h = jnp.zeros((EPISODES, 16))
    example = h[:1], (jnp.zeros((STEPS, 1, CUES)), start[:, :1])
    params = network.init(jax.random.key(0), *example)
    graph = trace_units(network.apply, params, *example)
    assert [layer.size for layer in graph.layers] == [16] * 4
    assert graph.untraced == ()
    tx = attach_reset_method(
        tx=optax.chain(optax.clip_by_global_norm(0.5), optax.adam(1e-2)),
        reset_method=method,
        units=graph,
    )
    forward = graph.with_features(network.apply)

    def iteration(carry: Any, key: jax.Array) -> Any:
        params, state = carry
        cue_key, key = jax.random.split(key)
        cue = jax.random.randint(cue_key, (EPISODES,), 0, CUES)
        x = jnp.zeros((STEPS, EPISODES, CUES)).at[0].set(jax.nn.one_hot(cue, CUES))
        _, logits, values = network.apply(params, h, (x, start))
        actions = jax.random.categorical(key, logits)
        rewards = jnp.zeros((STEPS, EPISODES)).at[-1].set(actions[-1] == cue)
        returns = jnp.cumsum(rewards[::-1], 0)[::-1]
        advantages = returns - values
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        old = jnp.take_along_axis(jax.nn.log_softmax(logits), actions[..., None], -1)

        def loss(params: Any) -> Any:
            (_, logits, values), features, _ = forward(params, h, (x, start))
            log = jax.nn.log_softmax(logits)
            ratio = jnp.exp(jnp.take_along_axis(log, actions[..., None], -1) - old)[..., 0]
            clipped = jnp.clip(ratio, 0.8, 1.2)
            policy = -jnp.minimum(ratio * advantages, clipped * advantages).mean()
            entropy = -(jnp.exp(log) * log).sum(-1).mean()
            return policy + 0.5 * jnp.square(values - returns).mean() - 0.01 * entropy, features

        for _ in range(2):
            grads, features = jax.grad(loss, has_aux=True)(params)
            updates, state = tx.update(grads, state, params, features=features)
            params = optax.apply_updates(params, updates)
        return (params, state), rewards[-1].mean()

    keys = jax.random.split(jax.random.key(1), iterations)
    (_, state), rewards = jax.jit(
        lambda params: jax.lax.scan(iteration, (params, tx.init(params)), keys)
    )(params)
    return rewards, state.log


@pytest.mark.parametrize(
    "method",
    [NoReset(), CPR(max_reset=0.02, every=10), ReDo(threshold=0.025, every=20)],
    ids=["none", "CPR", "ReDo"],
)
@pytest.mark.slow
def test_a_recurrent_ppo_learns(method):
    rewards, log = train(method)
    assert rewards[:3].mean() < 0.65
    assert rewards[-10:].mean() > 0.95
    if not isinstance(method, NoReset):
        assert (log.resets > 0).all()
        assert log.total.sum() > 0
