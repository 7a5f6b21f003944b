"""What is not covered is refused by its name, before anything is traced."""

import jax.numpy as jnp
import mujoco
import pytest

from continual_learning.physics import UnsupportedModel, unroll

ROBOT = """
<mujoco>
  {option}
  <worldbody>
    <geom name="floor" type="plane" size="1 1 1"/>
    <body name="one" pos="0 0 1">
      {joint}
      {geom}
      <body name="two"><joint name="knee" axis="0 1 0"/>
        <geom size="0.1" contype="0" conaffinity="0"/>
      </body>
    </body>
    {world}
  </worldbody>
  {rest}
</mujoco>
"""
SOUND = {
    "option": "",
    "joint": '<joint name="hip" axis="0 1 0"/>',
    "geom": '<geom name="leg" size="0.1" conaffinity="0"/>',
    "world": "",
    "rest": '<actuator><motor name="pull" joint="knee"/></actuator>',
}


def loaded(**changes):
    return mujoco.MjModel.from_xml_string(ROBOT.format(**SOUND | changes))


def test_a_sound_model_is_read():
    engine = unroll(loaded())
    assert engine.model.velocities == 2 and len(engine.model.touches) == 1


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"option": '<option integrator="RK4"/>'}, "integrator"),
        ({"option": '<option solver="CG"/>'}, "solver"),
        ({"option": '<option noslip_iterations="3"/>'}, "noslip_iterations"),
        ({"option": '<option density="1.2"/>'}, "fluid"),
        ({"option": '<option><flag override="enable"/></option>'}, "flags that are enabled"),
        ({"option": '<option><flag passive="disable"/></option>'}, "flags that are disabled"),
        ({"joint": '<joint name="hip" type="ball"/>'}, "joints that are not .*: hip"),
        ({"joint": '<joint name="hip" frictionloss="1"/>'}, "frictionloss"),
        (
            {"joint": '<joint name="hip" limited="true" range="0 0.1" margin="0.2"/>'},
            "below twice their margin: hip",
        ),
        (
            {"joint": '<joint name="hip" type="free" stiffness="1"/>'},
            "springs of free joints: hip",
        ),
        ({"geom": '<geom name="leg" type="cylinder" size="0.1 0.1"/>'}, "floor with leg"),
        ({"geom": '<geom name="leg" size="0.1" condim="6"/>'}, "condim 1 and 3; leg has 6"),
        (
            {"world": '<body><freejoint/><geom name="ball" size="0.1" contype="2"/></body>'},
            "leg with ball|ball",
        ),
        (
            {"rest": '<actuator><position name="pull" joint="knee" kp="1"/></actuator>'},
            "not motors of one joint: pull",
        ),
        (
            {
                "rest": '<tendon><fixed><joint joint="knee" coef="1"/></fixed></tendon>'
                "<equality><joint joint1='knee'/></equality>"
            },
            "equality.*tendons",
        ),
    ],
)
def test_what_is_not_covered_is_refused(changes, says):
    with pytest.raises(UnsupportedModel, match=says):
        unroll(loaded(**changes))


def test_unknown_parameters_are_named():
    engine = unroll(loaded())
    state = engine.state(jnp.zeros((2, 1)), jnp.zeros((2, 1)))
    with pytest.raises(ValueError, match="Unknown parameters wind; known are friction"):
        engine.step(state, jnp.zeros((1, 1)), {"wind": jnp.ones(())})
