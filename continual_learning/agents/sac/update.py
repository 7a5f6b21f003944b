"""An update of soft actor-critic: its critics, policy, temperature and target critics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from continual_learning.agents.common.network import Metrics, Network, descend
from continual_learning.agents.sac.actions import Actions
from continual_learning.agents.sac.losses import alpha_loss, critic_loss, critic_targets
from continual_learning.agents.sac.replay import Experience
from continual_learning.optim.method import with_initial

CRITICS = 2
"""The number of critics, of which the lesser value counts (Fujimoto et al. 2018, arXiv
1802.09477). Every critic has its own optimizer, which clips its gradients and resets its units, so
parameters and states are arrays [2, …]."""

METRICS = (
    *(
        f"{name}_{what}"
        for name in ("policy", "critic_1", "critic_2")
        for what in ("loss", "gradient_norm")
    ),
    "alpha_loss",
    "entropy",
    "q",
)
"""The names of the metrics of an update."""


class Learner(NamedTuple):
    """The parts of the state that updates change.

    Attributes:
      params: the parameters of the networks, {"policy": …, "critic": … [2, …]}.
      targets: the parameters of the target critics, [2, …].
      log_alpha: float32 [], the logarithm of the temperature.
      optimizers: the states of the optimizers, {"policy": …, "critic": … [2, …], "alpha": …}.
    """

    params: dict[str, Any]
    targets: Any
    log_alpha: jax.Array
    optimizers: dict[str, Any]


def update(
    networks: Mapping[str, Network],
    actions: Actions,
    optimizers: Mapping[str, Any],
    learner: Learner,
    batch: Experience,
    key: jax.Array,
    *,
    task: jax.Array,
    discount: float | jax.Array,
    tau: float | jax.Array,
    target_entropy: float | jax.Array,
    log_alpha_bounds: tuple[float, float],
    sample_scores: bool = False,
) -> tuple[Learner, Metrics]:
    """Update critics, policy, temperature and target critics once.

    Args:
      networks: {"policy", "critic"}.
      actions: the kind of actions.
      optimizers: {"policy", "critic", "alpha"}; the first two get `features=`.
      learner: the learner before the update.
      batch: transitions [batch, …].
      key: the key for actions of the policy.
      task: int32 [], the number of the task, for reset methods that act when it changes.
      discount: γ.
      tau: the share of the way that the target critics move to the critics.
      target_entropy: the target entropy of the policy.
      log_alpha_bounds: the least and the largest log α.
      sample_scores: whether the first two optimizers get per-sample scores.

    Returns:
      The learner after the update, and `METRICS`, all []. Gradient norms are measured before any
      clipping; "entropy" is the entropy of the policy, "q" the mean value of the batch's actions.
    """
    params, states = dict(learner.params), dict(learner.optimizers)
    scored = {name: network.units if sample_scores else None for name, network in networks.items()}
    alpha = jnp.exp(learner.log_alpha)
    now, then = jax.random.split(key)

    def critics(params: Any) -> Any:
        return lambda read: jax.vmap(networks["critic"].apply, (0, None))(params, read)

    outputs = networks["policy"].apply(params["policy"], batch.reached)
    next_value, _ = actions.soft_value(
        then, outputs, batch.reached, critics(learner.targets), alpha
    )
    targets = critic_targets(batch.reward, batch.terminated, next_value, discount=discount)

    def of_critic(params: Any) -> Any:
        read = actions.read(batch.observation, batch.action)
        said, features, _ = networks["critic"].forward(params, read)
        q = actions.of_action(said, batch.action)
        return critic_loss(q, targets), ({"q": jnp.mean(q)}, features)

    def of_policy(params: Any, both: Any) -> Any:
        outputs, features, _ = networks["policy"].forward(params, batch.observation)
        value, entropy = actions.soft_value(now, outputs, batch.observation, critics(both), alpha)
        return -jnp.mean(value), ({"entropy": jnp.mean(entropy)}, features)

    def descend_critic(params: Any, state: Any) -> Any:
        tx = optimizers["critic"]
        return descend(of_critic, tx, params, state, task=task, scored=scored["critic"])

    params["critic"], states["critic"], of_both = jax.vmap(descend_critic)(
        params["critic"], states["critic"]
    )
    params["policy"], states["policy"], found = descend(
        of_policy,
        optimizers["policy"],
        params["policy"],
        states["policy"],
        params["critic"],
        task=task,
        scored=scored["policy"],
    )
    loss, slope = jax.value_and_grad(alpha_loss)(
        learner.log_alpha, found["entropy"], target_entropy=target_entropy
    )
    change, states["alpha"] = optimizers["alpha"].update(slope, states["alpha"])
    log_alpha = jnp.clip(learner.log_alpha + change, *log_alpha_bounds)
    moved = optax.incremental_update(params["critic"], learner.targets, tau)
    metrics = {
        "policy_loss": found["loss"],
        "policy_gradient_norm": found["gradient_norm"],
        "alpha_loss": loss,
        "entropy": found["entropy"],
        "q": jnp.mean(of_both["q"]),
    }
    for name in ("loss", "gradient_norm"):
        metrics |= {f"critic_{i + 1}_{name}": of_both[name][i] for i in range(CRITICS)}
    return Learner(params, moved, log_alpha, states), metrics


def renewed(old: Learner, new: Learner, *, optimizers: bool, targets: bool, alpha: bool) -> Learner:
    """Replace some parts of a learner by those of a new one, but keep its networks.

    Args:
      old: the learner.
      new: a new learner with the same networks.
      optimizers: whether to replace the optimizers of policy and critics. Their logs continue, and
        so does what they know of the first networks: they draw weights from the same distributions.
      targets: whether to replace the target critics.
      alpha: whether to replace the temperature and its optimizer.
    """
    states = dict(old.optimizers)
    if optimizers:
        for name in ("policy", "critic"):
            kept = {"log": states[name].log, "scales": states[name].scales}
            states[name] = with_initial(new.optimizers[name]._replace(**kept), states[name])
    if alpha:
        states["alpha"] = new.optimizers["alpha"]
    return Learner(
        old.params,
        new.targets if targets else old.targets,
        new.log_alpha if alpha else old.log_alpha,
        states,
    )


def apart(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Turn {"policy", "critic" [2, …]} into {"policy", "critic_1", "critic_2"}."""
    both = {
        f"critic_{i + 1}": jax.tree.map(lambda x, i=i: x[i], tree["critic"]) for i in range(CRITICS)
    }
    return {"policy": tree["policy"], **both}
