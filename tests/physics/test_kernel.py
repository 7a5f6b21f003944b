"""One kernel of a GPU does what XLA's do."""

import functools
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from jax.experimental import pallas

from continual_learning.physics import kernel, unroll

pytest.importorskip("jax.experimental.pallas.triton")  # which JAX has deprecated

HOPPING = """
<mujoco>
  <option iterations="2" ls_iterations="8" cone="elliptic"/>
  <worldbody>
    <geom type="plane" size="5 5 1"/>
    <body pos="0 0 0.09">
      <joint name="up" type="slide" axis="0 0 1"/>
      <joint name="along" type="slide" axis="1 0 0" range="-1 1" limited="true"/>
      <geom size="0.1" conaffinity="0"/>
    </body>
  </worldbody>
  <actuator><motor joint="up" ctrlrange="-1 1" ctrllimited="true"/></actuator>
</mujoco>
"""
ENVS = 40  # more than a block, and no whole number of them


@pytest.fixture
def on_gpu(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")


def arguments(engine):
    keys = jax.random.split(jax.random.key(0), 3)
    q, v, control = (
        jax.random.normal(key, (n, ENVS)) * size
        for key, n, size in zip(keys, (2, 2, 1), (0.05, 1.0, 1.0), strict=True)
    )
    parameters = {"friction": jnp.linspace(0.02, 2.0, ENVS), "gravity": jnp.asarray(0.9)}
    return engine.state(q, v), control, parameters


@pytest.fixture(scope="module", params=[2, 20], ids=["few", "many"])
def engine(request):
    model = mujoco.MjModel.from_xml_string(HOPPING)
    model.opt.iterations = request.param
    return unroll(model, substeps=3)


def test_states_are_those_of_xla(engine, on_gpu, monkeypatch):
    interpreted = functools.partial(pallas.pallas_call, interpret=True)
    monkeypatch.setattr(pallas, "pallas_call", interpreted)
    found = jax.jit(engine.step)(*arguments(engine))
    monkeypatch.undo()
    wanted = jax.jit(engine.step)(*arguments(engine))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


@pytest.fixture
def for_an_h200():
    """From version 0.11 on, JAX must know for which GPU it makes a kernel; none need be there."""
    if not hasattr(jax.sharding, "AbstractDevice"):
        yield
        return
    device = jax.sharding.AbstractDevice("NVIDIA H200", None, "gpu")
    mesh = jax.sharding.AbstractMesh((), (), abstract_device=device)
    with jax.sharding.use_abstract_mesh(mesh):
        yield


def test_a_step_is_one_kernel(engine, on_gpu, for_an_h200):
    given = arguments(engine)
    lowered = jax.jit(engine.step).trace(*given).lower(lowering_platforms=("cuda",))
    assert lowered.as_text().count("triton") == 1


@pytest.mark.parametrize(
    ("backend", "capability", "expected"),
    [
        ("gpu", "9.0", True),
        ("gpu", "10.0", True),
        ("gpu", "7.5", False),
        ("gpu", "gfx90a", False),
        ("cpu", None, False),
    ],
)
def test_other_gpus_have_the_kernels_of_xla(backend, capability, expected, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    monkeypatch.setattr(jax, "devices", lambda: [SimpleNamespace(compute_capability=capability)])
    assert kernel._compiles_triton() == expected
