"""How fast SAC trains on MetaWorld, against a loop of the structure that was published.

That loop trains one seed: its environments step one after the other in the same process, and every
update is a call. Ours trains all seeds: workers step, and all updates of a step are one call. Both
use the same networks, optimizers and replay. All is compiled first, side by side; then they are
measured in turns, so that a machine that slows down is seen. Diagnostics are off. Needs the extra
`metaworld`, and `-P`: without it this file would be imported in its place.

    python -P benchmarks/metaworld.py --seeds 1 5 --methods muon cpr --json metaworld.json
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from continual_learning.agents.sac.actions import actions_of
from continual_learning.agents.sac.learner import SACLearner
from continual_learning.agents.sac.replay import Experience
from continual_learning.studies import build, registry
from continual_learning.studies.experiment import Experiment
from continual_learning.studies.runner import Lanes


def published(experiment: Experiment, method: str) -> Iterator[None]:
    """Return steps of one seed: act, step one environment after the other, one update per call."""
    stream = build.stream(experiment).stream
    actions = actions_of(stream)
    networks = [
        experiment.networks.build(role, outputs)
        for role, outputs in (("policy", actions.outputs), ("critic", actions.critic_outputs))
    ]
    one: Any = experiment.override(replay_ratio=1).agent
    make = build.optimizers(experiment, method)
    makers = {"policy": make(0, histogram=False), "critic": make(1, histogram=False)}
    learning = SACLearner.of(*networks, stream, makers, one)
    key = jax.random.key(0)
    learner = jax.jit(lambda: learning.init(key, {}))()
    stored = learning.replay.start(actions.like)
    act = jax.jit(learning.act)
    add = jax.jit(learning.replay.add, donate_argnums=0)

    @jax.jit
    def update(learner: Any, stored: Any, number: jax.Array) -> Any:
        drawn = learning.draw(stored, key, number)
        return learning.learn(learner, drawn, jnp.zeros((), jnp.int32), {})[0]

    environments = [stream.make(0, 0, i) for i in range(experiment.agent.environments)]
    seen = np.stack([each.reset(i) for i, each in enumerate(environments)]).astype(np.float32)
    for number in itertools.count():
        action = np.asarray(act(learner.params["policy"], key, np.int32(number), seen))
        reached = [each.step(a) for each, a in zip(environments, action, strict=True)]
        after = np.stack([each.observation for each in reached]).astype(np.float32)
        rewards = np.array([each.reward for each in reached], np.float32)
        ends = np.array([each.terminated for each in reached])
        stored = add(stored, Experience(*map(jnp.asarray, (seen, action, rewards, ends, after))))
        for i in range(experiment.agent.replay_ratio):
            learner = update(learner, stored, np.int32(number * experiment.agent.replay_ratio + i))
        seen = after
        for i, each in enumerate(environments):
            if reached[i].truncated:
                seen[i] = each.reset(number)
        jax.block_until_ready(learner)  # the next actions would wait; so the clock does, too
        yield


def ours(experiment: Experiment, method: str, seeds: int) -> Iterator[Any]:
    """Chunks of our program; what it is, at first."""
    lanes = Lanes(range(seeds))
    program: Any = build.trainer(experiment, method, None).program(lanes.seeds, lanes.keys(), {})
    try:
        state = program.init()
        while True:
            state, _ = program.chunk(state)
            jax.block_until_ready(state.learner)
            yield program, state
    finally:
        program.close()


def rate(steps: Callable[[], Any], each: int, seconds: float) -> float:
    """Return what is done per second, `each` with every call."""
    begin, count = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds or count == 0:
        steps()
        count += each
    return count / (time.perf_counter() - begin)


def hours(
    experiment: Experiment, seeds: int, training: float, evaluation: float
) -> dict[str, float]:
    """Of a method of the whole experiment, at these environment steps per second."""
    full: Any = registry.get(experiment.name)
    met = [1 + step // full.agent.vector_steps_per_task for step in evaluations(full)]
    played = sum(min(n, full.tasks) for n in met) * full.agent.eval_episodes * 500
    return {
        "training_hours": full.steps * seeds / training / 3600,
        "evaluation_hours": played * seeds / evaluation / 3600,
        "evaluation_steps_per_training_step": played / full.steps,
    }


def evaluations(full: Experiment) -> range:
    """Return the last step before each."""
    last = full.tasks * full.agent.vector_steps_per_task
    return (
        range(full.agent.eval_every - 1, last, full.agent.eval_every)
        if full.agent.eval_every
        else range(0)
    )


def started(
    experiment: Experiment, method: str, seeds: int
) -> tuple[Iterator[None], dict[int, Any]]:
    """Their loop, and ours by its staleness; all compiled, and their workers running."""
    theirs = published(experiment, method)
    programs = {n: ours(experiment.override(staleness=n), method, seeds) for n in (1, 0)}
    for each in (theirs, *programs.values()):
        next(each)
    return theirs, programs


def measured(
    experiment: Experiment, seeds: int, seconds: float, theirs: Iterator[None], programs: Any
) -> dict[str, Any]:
    """Rates of both, in turns; what was started is ended."""
    chunk, found = experiment.agent.steps_per_row * experiment.agent.environments * seeds, {}
    for staleness, program in programs.items():
        before = rate(lambda: next(theirs), experiment.agent.environments, seconds)
        steps = rate(lambda p=program: next(p), chunk, seconds)
        per_step = experiment.agent.replay_ratio / experiment.agent.environments
        found[f"staleness_{staleness}"] = {
            "published_steps_per_second": before,
            "published_updates_per_second": before * per_step,
            "steps_per_second": steps,
            "updates_per_second": steps * per_step,
            "ratio": steps / before,
        }
        if staleness:
            running, state = next(program)
            params, evaluation = state.learner.params["policy"], running._evaluation
            evaluation.evaluate(running._calls.likeliest, params, 1, 0)
            begin = time.perf_counter()
            columns = evaluation.evaluate(running._calls.likeliest, params, 1, 1)
            played = columns["evaluation_steps"].sum() / (time.perf_counter() - begin)
            found["evaluation_steps_per_second"] = float(played)
            found |= hours(experiment, seeds, steps, played)
        program.close()
    return found


def main() -> None:
    """Print a line per measurement and, with --json, add it to a file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--experiment", default="continual_metaworld")
    parser.add_argument("--seeds", type=int, nargs="+", default=[5])
    parser.add_argument("--methods", nargs="+", default=["muon"])
    parser.add_argument("--steps", type=int, default=50, help="of all environments, per chunk")
    parser.add_argument("--seconds", type=float, default=15.0, help="of each measurement")
    parser.add_argument("--workers", type=int, help="processes; one per core if left out")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = json.loads(args.json.read_text()) if args.json and args.json.exists() else []
    experiment: Any = registry.get(args.experiment).override(
        vector_steps_per_task=args.steps * 100_000,
        steps_per_row=args.steps,
        rows_per_chunk=1,
        learning_starts=0,
        eval_every=0,
        diagnostics=False,
        workers=args.workers,
    )
    cases = list(itertools.product(args.methods, args.seeds))
    with ThreadPoolExecutor() as pool:
        parts = list(pool.map(lambda case: started(experiment, *case), cases))
    for (method, seeds), part in zip(cases, parts, strict=True):
        row = {
            "experiment": args.experiment,
            "method": method,
            "seeds": seeds,
            "environments": experiment.agent.environments,
            "replay_ratio": experiment.agent.replay_ratio,
            "device": jax.devices()[0].device_kind,
            "cores": len(os.sched_getaffinity(0)),
            "jax": jax.__version__,
            "python": platform.python_version(),
            **measured(experiment, seeds, args.seconds, *part),
        }
        rows.append(row)
        print(json.dumps(row), flush=True)
        if args.json:
            args.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
