"""One update of SAC by hand, and what a task change renews."""

import math
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from continual_learning.agents.common.network import Network
from continual_learning.agents.sac.actions import Continuous, Discrete, actions_of
from continual_learning.agents.sac.replay import Experience
from continual_learning.agents.sac.update import Learner, apart, renewed, update
from continual_learning.networks import MLP, Categorical, TanhGaussian
from continual_learning.optim.method import Initial

SEEN, BATCH = 2, 6
KINDS = {"discrete": Discrete(3), "continuous": Continuous(2)}
DISCOUNT, TAU, ALPHA, RATE = 0.9, 0.25, 0.3, 0.1


class Case:
    """Networks whose parameters are drawn, and an update by gradient descent with rate 0.1."""

    def __init__(self, kind):
        self.kind = kind
        inputs = SEEN if isinstance(kind, Discrete) else SEEN + kind.size
        self.networks = {
            "policy": Network.of(MLP((4,), kind.outputs, "tanh"), SEEN, kind.outputs, "policy"),
            "critic": Network.of(
                MLP((4,), kind.critic_outputs, "tanh"), inputs, kind.critic_outputs, "critic"
            ),
        }
        keys = jax.random.split(jax.random.key(0), 9)
        critic = jax.vmap(self.networks["critic"].init)
        params = {"policy": self.networks["policy"].init(keys[0]), "critic": critic(keys[1:3])}
        tx = optax.with_extra_args_support(optax.sgd(RATE))
        self.optimizers = {"policy": tx, "critic": tx, "alpha": tx}
        log_alpha = jnp.log(jnp.float32(ALPHA))
        states = {
            "policy": tx.init(params["policy"]),
            "critic": jax.vmap(tx.init)(params["critic"]),
            "alpha": tx.init(log_alpha),
        }
        self.before = Learner(params, critic(keys[3:5]), log_alpha, states)
        if isinstance(kind, Discrete):
            action = jax.random.randint(keys[5], (BATCH,), 0, kind.count)
        else:
            action = jax.random.uniform(keys[5], (BATCH, kind.size), minval=-1)
        self.batch = Experience(
            jax.random.normal(keys[6], (BATCH, SEEN)),
            action,
            jax.random.normal(keys[7], (BATCH,)),
            jnp.arange(BATCH) % 3 == 0,
            jax.random.normal(keys[8], (BATCH, SEEN)),
        )
        self.key = jax.random.key(5)
        self.after, self.metrics = self.update(0.5)

    def update(self, target_entropy, bounds=(-5.0, 2.0), optimizers=None, **others):
        return update(
            self.networks,
            self.kind,
            optimizers or self.optimizers,
            self.before,
            self.batch,
            self.key,
            task=jnp.zeros((), jnp.int32),
            discount=DISCOUNT,
            tau=TAU,
            target_entropy=target_entropy,
            log_alpha_bounds=bounds,
            **others,
        )

    def targets(self):
        """Of the critics, [batch]: none of the future after a termination."""
        _, then = jax.random.split(self.key)
        policy, critics = self.before.params["policy"], both(self.before.targets)
        value, _ = self.value(policy, critics, self.batch.reached, then)
        return self.batch.reward + DISCOUNT * jnp.where(self.batch.terminated, 0, value)

    def critic(self, params, *read):
        """[batch, outputs]."""
        return self.networks["critic"].apply(params, jnp.concatenate(read, axis=1))

    def value(self, policy, critics, observation, key):
        """Soft value [batch] by the definition, and −log π."""
        outputs = self.networks["policy"].apply(policy, observation)
        if isinstance(self.kind, Discrete):
            q = jnp.minimum(*(self.critic(params, observation) for params in critics))
            log_probs = Categorical.from_outputs(outputs).log_probs
            probs = jnp.exp(log_probs)
            return (probs * (q - ALPHA * log_probs)).sum(1), -(probs * log_probs).sum(1)
        action, log_prob = TanhGaussian.from_outputs(outputs).sample(key)
        q = jnp.minimum(*(self.critic(params, observation, action)[:, 0] for params in critics))
        return q - ALPHA * log_prob, -log_prob

    def q(self, params):
        """Of what was done, [batch]."""
        if isinstance(self.kind, Discrete):
            said = self.critic(params, self.batch.observation)
            return jnp.stack([row[a] for row, a in zip(said, self.batch.action, strict=True)])
        return self.critic(params, self.batch.observation, self.batch.action)[:, 0]


@pytest.fixture(scope="module", params=list(KINDS))
def case(request):
    return Case(KINDS[request.param])


def both(params):
    return [jax.tree.map(lambda x, i=i: x[i], params) for i in range(2)]


def close(one, other):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-6), one, other)


def test_critics(case):
    """Targets are of the state reached, by the target critics."""
    targets = case.targets()

    def loss(params):
        return 0.5 * jnp.mean((case.q(params) - targets) ** 2)

    critics = both(case.before.params["critic"])
    for i, (params, after) in enumerate(
        zip(critics, both(case.after.params["critic"]), strict=True)
    ):
        found, grads = jax.value_and_grad(loss)(params)
        close(case.metrics[f"critic_{i + 1}_loss"], found)
        norm = np.sqrt(sum((g**2).sum() for g in jax.tree.leaves(grads)))
        close(case.metrics[f"critic_{i + 1}_gradient_norm"], norm)
        close(after, jax.tree.map(lambda p, g: p - RATE * g, params, grads))
    q = np.mean([case.q(params).mean() for params in critics])
    np.testing.assert_allclose(case.metrics["q"], q, rtol=1e-4, atol=1e-6)


def test_policy_and_temperature(case):
    """The policy climbs the soft value by the critics just updated, at the old temperature."""
    now, _ = jax.random.split(case.key)

    def loss(params):
        value, entropy = case.value(
            params, both(case.after.params["critic"]), case.batch.observation, now
        )
        return -jnp.mean(value), jnp.mean(entropy)

    before = case.before.params["policy"]
    (found, entropy), grads = jax.value_and_grad(loss, has_aux=True)(before)
    close(case.metrics["policy_loss"], found)
    close(case.metrics["entropy"], entropy)
    close(case.after.params["policy"], jax.tree.map(lambda p, g: p - RATE * g, before, grads))
    close(case.metrics["alpha_loss"], ALPHA * (entropy - 0.5))
    close(case.after.log_alpha, math.log(ALPHA) - RATE * ALPHA * (entropy - 0.5))


def test_scores_of_single_samples(case):
    """Optimizers get the mean norms of gradients of each sample's own loss, for every unit."""
    layer = "params/hidden_0/kernel"
    keeping = optax.GradientTransformationExtraArgs(
        lambda params: (), lambda grads, state, params, sample_scores, **_: (grads, sample_scores)
    )
    given = {"policy": keeping, "critic": keeping, "alpha": case.optimizers["alpha"]}
    after, _ = case.update(0.5, optimizers=given, sample_scores=True)

    def norms(losses, params):
        each = jax.jacrev(losses)(params)["params"]["hidden_0"]["kernel"]
        return np.linalg.norm(each, axis=1).mean(0)

    now, _ = jax.random.split(case.key)
    critics, targets = both(after.params["critic"]), case.targets()
    expected = norms(
        lambda params: -case.value(params, critics, case.batch.observation, now)[0],
        case.before.params["policy"],
    )
    close(after.optimizers["policy"][layer], expected)
    for i, params in enumerate(both(case.before.params["critic"])):
        expected = norms(lambda params: 0.5 * (case.q(params) - targets) ** 2, params)
        close(after.optimizers["critic"][layer][i], expected)


def test_targets_follow(case):
    new, old = case.after.params["critic"], case.before.targets
    close(case.after.targets, jax.tree.map(lambda n, o: TAU * n + (1 - TAU) * o, new, old))


def test_temperature_stays_within_its_bounds(case):
    assert case.update(1e6, (-5.0, 2.0))[0].log_alpha == 2
    assert case.update(-1e6, (-5.0, 2.0))[0].log_alpha == -5


def test_kinds():
    assert actions_of(SimpleNamespace(actions=6)) == Discrete(6)
    assert Discrete(6).target_entropy == pytest.approx(0.5 * math.log(6))
    assert actions_of(SimpleNamespace(action_size=4)) == Continuous(4)
    assert Continuous(4).target_entropy == -4
    outputs = jnp.array([[0.0, 2.0, 1.0], [9.0, 0.0, 0.0]])
    assert Discrete(3).mode(outputs).tolist() == [1, 0]
    mode = Continuous(2).mode(jnp.array([[0.5, -1.0, 3.0, 3.0]]))
    np.testing.assert_allclose(mode, np.tanh([[0.5, -1.0]]), rtol=1e-6)


class State(NamedTuple):
    inner: Any
    log: str
    scales: str


def learner(which):
    def state(name):
        said = {part: f"{which} {part} of {name}" for part in ("inner", "log", "scales", "first")}
        return State((said["inner"], Initial(said["first"])), said["log"], said["scales"])

    states = {"policy": state("policy"), "critic": state("critic"), "alpha": f"{which} moments"}
    return Learner({"policy": "kept"}, f"{which} targets", f"{which} alpha", states)


@pytest.mark.parametrize("part", ["optimizers", "targets", "alpha", None])
def test_a_task_change_renews_each_part_on_its_own(part):
    parts = {name: name == part for name in ("optimizers", "targets", "alpha")}
    old, found = learner("old"), renewed(learner("old"), learner("new"), **parts)
    assert found.params == {"policy": "kept"}
    assert found.targets == ("new targets" if part == "targets" else "old targets")
    assert found.log_alpha == ("new alpha" if part == "alpha" else "old alpha")
    moments = "new moments" if part == "alpha" else "old moments"
    assert found.optimizers["alpha"] == moments
    for name in ("policy", "critic"):
        state = found.optimizers[name]
        expected = old.optimizers[name]
        if part == "optimizers":
            inner = f"new inner of {name}", Initial(f"old first of {name}")
            expected = expected._replace(inner=inner)
        assert state == expected


def test_apart():
    tree = apart({"policy": jnp.array(1), "critic": {"w": jnp.array([2, 3])}, "alpha": None})
    assert {name: jax.tree.leaves(x) for name, x in tree.items()} == {
        "policy": [1],
        "critic_1": [2],
        "critic_2": [3],
    }
