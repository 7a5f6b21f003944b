"""What each extra does in an environment that has nothing else, or which extra it asks for."""

from typing import NamedTuple


class Job(NamedTuple):
    """A program, and what it has to print."""

    code: str
    printed: tuple[str, ...]


def _command(line: str, *printed: str) -> Job:
    """Return the job of one command of `continual`."""
    return Job(f"from continual_learning import cli\ncli.main({line.split()!r})\n", printed)


def _asks_for(extra: str, line: str) -> Job:
    """Return the job of a command that cannot do without another extra."""
    return _command(line, f"pip install 'plasticax[{extra}]'")


RUN = "run permuted_digits --out study --methods cpr --seeds 1 --scale smoke"
SMALL = f"{RUN} --tasks 2 --examples-per-task 32 --rows-per-task 1 --hidden 8"

CORE = (
    _command("doctor", "plasticax 0", "with a reset on", "fine"),
    _command("list", "permuted_mnist"),
    _asks_for("studies", RUN),
    _asks_for("figures", "figure util_comp --out util_comp.svg"),
    Job(
        "try:\n    from continual_learning.networks import MLP\n"
        "except ModuleNotFoundError as error:\n    print(error)\n",
        ("pip install 'plasticax[flax]'",),
    ),
    Job(
        "from continual_learning.installation import VERSION, commit\nprint(VERSION, commit())\n",
        ("{version} {commit}",),
    ),
)
"""Of the package without extras."""

JOBS = {
    "flax": Job(
        """\
import jax
from continual_learning.networks import MLP
from continual_learning.optim import trace_units

model, x = MLP((8,), 2), jax.numpy.ones((3, 4))
print(trace_units(model.apply, model.init(jax.random.key(0), x), x).names)
""",
        ("('params/hidden_0/kernel',)",),
    ),
    "equinox": Job(
        """\
import equinox as eqx
import jax
from continual_learning.optim import trace_units

model = eqx.nn.MLP(3, 2, 8, 1, key=jax.random.key(0))
params, static = eqx.partition(model, eqx.is_array)
apply = lambda params, x: jax.vmap(eqx.combine(params, static))(x)
print(trace_units(apply, params, jax.numpy.ones((4, 3))).names)
""",
        ("('layers/0/weight',)",),
    ),
    "haiku": Job(
        """\
import haiku as hk
import jax
from continual_learning.optim import trace_units

model = hk.without_apply_rng(hk.transform(lambda x: hk.nets.MLP([8, 2])(x)))
x = jax.numpy.ones((4, 3))
print(trace_units(model.apply, model.init(jax.random.key(0), x), x).names)
""",
        ("('mlp/~/linear_0/w',)",),
    ),
    "studies": _asks_for("demo", RUN),
    "figures": Job(
        """\
from pathlib import Path
from continual_learning import cli

cli.main(["figure", "util_comp", "--out", "util_comp.svg"])
print(Path("util_comp.svg").read_text()[:4])
""",
        ("<svg",),
    ),
    "demo": Job(
        f"""\
import json
from pathlib import Path
from continual_learning import cli

print(cli.main({SMALL.split()!r}), cli.main(["report", "study"]))
print(json.loads(Path("study/environment.json").read_text())["commit"])
""",
        ("0 0", "{commit}"),
    ),
    "brax": Job(
        """\
import jax
from continual_learning import cli
from continual_learning.envs.robots import Ant

cli.main(["run", "slippery_ant", "--out", "study"])
env = Ant()
state = jax.jit(env.reset)(jax.random.key(0), env.parameters)
print(env.observe(state, env.parameters).shape)
""",
        ("pip install 'plasticax[studies]'", "(27,)"),
    ),
    "gymnasium": Job(
        """\
import numpy as np
from continual_learning.envs.host import GymnasiumStream, Pool

if __name__ == "__main__":
    with Pool(GymnasiumStream(["Pendulum-v1"]), seeds=[0], environments=1) as pool:
        pool.enter(0)
        print(pool.step(np.zeros((1, 1, 1), np.float32)).reward.shape)
""",
        ("(1, 1)",),
    ),
    "metaworld": Job(
        """\
import numpy as np
from continual_learning.envs.host import MetaWorld, Pool

if __name__ == "__main__":
    with Pool(MetaWorld.mt1("reach"), seeds=[0], environments=1) as pool:
        pool.enter(0)
        print(pool.step(np.zeros((1, 1, 4), np.float32)).reward.shape)
""",
        ("(1, 1)",),
    ),
    "video": _asks_for("studies", "render ."),
    "tensorboard": _asks_for("studies", f"{RUN} --tensorboard"),
    "wandb": _asks_for("studies", f"{RUN} --wandb"),
    "optuna": _asks_for(
        "studies",
        "sweep permuted_digits --out sweep --method cpr --grid max_reset=0.01,0.02 "
        "--sampler optuna --trials 2",
    ),
    "submitit": _asks_for("studies", f"{RUN} --launcher submitit"),
    "ray": _asks_for("studies", f"{RUN} --launcher ray"),
}
"""{extra: its job}."""
