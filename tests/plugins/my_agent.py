"""An agent in one file, as a user writes it: REINFORCE (Williams 1992) with a mean as baseline."""

import dataclasses

import jax
import jax.numpy as jnp

from continual_learning.agents.catalog import AGENTS, Agent
from continual_learning.agents.common.network import Network, descend, optimizers_of, reported
from continual_learning.agents.common.statistics import disjoint, statistics, tally
from continual_learning.agents.common.tasks import ACTIONS, NETWORK, Tasks
from continual_learning.agents.common.trainer import Trainer, strongly_typed
from continual_learning.envs import Episodes
from continual_learning.networks import DiagonalGaussian
from continual_learning.schema.fields import field


@AGENTS.register
@dataclasses.dataclass(frozen=True, kw_only=True)
class Reinforce(Agent):
    """One update on every rollout of whole episodes."""

    kind = "reinforce"
    places = ("device",)
    actions = ("continuous",)

    environments: int = field(16, budget=True, positive=True, help="environments of a seed")
    rollout: int = field(20, positive=True, help="steps of every environment per update")
    updates: int = field(10, budget=True, positive=True, help="updates per task")
    scale: float = field(0.1, positive=True, number=True, help="factor on returns")

    def row_steps(self, stream):
        """Return the steps of an update."""
        return self.rollout * self.environments

    def steps_per_task(self, stream):
        """Return the steps of a task."""
        return self.updates * self.row_steps(stream)

    def chunks(self, tasks):
        """Return how many chunks there are: a task each."""
        return tasks

    def trainer(self, built, networks, optimizers, *, tasks, sample_scores):
        """Return the training program."""
        env = built.stream.environment
        policy = networks.build("policy", 2 * env.action_size)
        network = Network.of(policy, env.observation_size, 2 * env.action_size, "policy")
        make = optimizers_of({"policy": network}, {"policy": optimizers(0)}, self.numbers())
        episodes = Episodes(env, self.environments, built.length, built.restart)
        on_tasks = Tasks(episodes, built.stream)

        def init(key, hyper, data):
            params = network.init(jax.random.fold_in(key, NETWORK))
            state = make(hyper)["policy"].init(params)
            return strongly_typed((key, params, state, on_tasks.start(key), jnp.int32(0)))

        def loss(params, seen, done, advantage):
            outputs, features, _ = network.forward(params, seen)
            said = DiagonalGaussian.from_outputs(outputs).log_prob(done)
            return -jnp.mean(said * advantage), ({}, features)

        def chunk(state, hyper, data):
            key, params, optimizer, kept, updates = state
            task, live = on_tasks.enter(key, updates // self.updates, jnp.array(True), kept)

            def update(carry, number):
                params, optimizer, live = carry
                draws = jax.random.fold_in(jax.random.fold_in(key, ACTIONS), number)

                def step(live, i):
                    outputs = network.apply(params, live.observation)
                    action = DiagonalGaussian.from_outputs(outputs).sample(
                        jax.random.fold_in(draws, i)
                    )
                    after, reached = episodes.step(live, action, task)
                    return after, (live.observation, action, reached.reward, tally(reached))

                live, (seen, done, reward, tallies) = jax.lax.scan(
                    step, live, jnp.arange(self.rollout)
                )
                to_come = jnp.cumsum(reward[::-1], axis=0)[::-1] * hyper.get("scale", self.scale)
                advantage = to_come - jnp.mean(to_come, axis=1, keepdims=True)
                flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), (seen, done, advantage))
                params, optimizer, metrics = descend(
                    loss, make(hyper)["policy"], params, optimizer, *flat
                )
                row = {
                    "step": (number + 1) * (self.rollout * self.environments),
                    "task": number // self.updates,
                    **{f"policy_{name}": value for name, value in metrics.items()},
                    **reported({"policy": params}, {"policy": optimizer}, norms=True),
                }
                row = disjoint(row, statistics(live, tallies, reward), dict(task))
                return (params, optimizer, live), row

            numbers = updates + jnp.arange(self.updates)
            (params, optimizer, live), rows = jax.lax.scan(
                update, (params, optimizer, live), numbers
            )
            after = (key, params, optimizer, live.state, updates + self.updates)
            return strongly_typed(after), rows

        return Trainer(init, chunk, self.chunks(tasks), (), "latest_return")
