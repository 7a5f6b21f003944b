"""Workers that fail, die or are left alone: nothing hangs and nothing is left behind."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from continual_learning.envs.errors import WorkerError
from continual_learning.envs.host import Pool, process, workers
from tests.envs.host.toys import DIE, RAISE, SLEEP, Broken, CountingStream, Stillborn, gone

ROOT = Path(__file__).parents[3]


@pytest.fixture
def pool():
    """Two environments, each with a worker of its own, in episodes of five steps."""
    with Pool(CountingStream(), [3], 2, workers=2) as pool:
        pool.enter(1)
        yield pool


def actions(*rewards):
    return np.array([[[reward, 0.0] for reward in rewards]], np.float32)


def check_cut(pool, before, step):
    """The second environment was cut in this step, which was its second; the first went on."""
    np.testing.assert_array_equal(step.truncated, [[False, True]])
    assert not step.terminated.any()
    np.testing.assert_array_equal(step.reward, [[1.0, 0.0]])
    np.testing.assert_array_equal(step.episode_return, [[2.0, 1.0]])
    np.testing.assert_array_equal(step.episode_length, [[2, 2]])
    np.testing.assert_array_equal(step.observation[0, 1], before[0, 1])
    assert pool.workers_lost == 1
    # The next episode, from its start; that of the other environment goes on.
    np.testing.assert_array_equal(pool.observation[..., 3], [[2, 0]])
    assert pool.observation[0, 1, 2] != before[0, 1, 2]
    step = pool.step(actions(1.0, 1.0))
    np.testing.assert_array_equal(step.episode_return, [[3.0, 1.0]])
    np.testing.assert_array_equal(step.observation[..., 3], [[3, 1]])


def test_a_worker_that_dies_in_a_step_is_replaced(pool):
    pool.step(actions(1.0, 1.0))
    before = pool.observation
    with pytest.warns(RuntimeWarning, match=r"died \(SIGKILL\) and was replaced"):
        step = pool.step(actions(1.0, DIE))
    check_cut(pool, before, step)


def test_nothing_of_a_step_in_which_a_worker_died_is_kept():
    """Neither what an environment did before the other died, nor what was there before."""
    with Pool(CountingStream(), [3], 2, workers=1) as pool:
        before = pool.enter(1)
        with pytest.warns(RuntimeWarning, match="was replaced"):
            step = pool.step(actions(4.0, DIE))
    np.testing.assert_array_equal(step.observation, before)
    assert step.truncated.all() and not step.reward.any() and not step.metrics["twice"].any()


def test_a_worker_killed_from_outside_in_the_middle_of_a_step(pool):
    pool.step(actions(1.0, 1.0))
    before = pool.observation
    pool.step_async(actions(1.0, SLEEP))
    time.sleep(0.05)
    os.kill(pool.pids[1], signal.SIGKILL)
    with pytest.warns(RuntimeWarning, match="was replaced"):
        step = pool.step_wait()
    check_cut(pool, before, step)


def test_a_worker_killed_between_steps(pool):
    pool.step(actions(1.0, 1.0))
    before = pool.observation
    pid = pool.pids[1]
    os.kill(pid, signal.SIGKILL)
    assert gone([pid])
    with pytest.warns(RuntimeWarning, match="was replaced"):
        step = pool.step(actions(1.0, 1.0))
    check_cut(pool, before, step)


def test_a_worker_killed_before_its_state_is_asked_for(pool):
    pool.step(actions(1.0, 1.0))
    os.kill(pool.pids[1], signal.SIGKILL)
    with pytest.warns(RuntimeWarning, match="was replaced"):
        state = pool.state()
    np.testing.assert_array_equal(state["episode"], [[0, 1]])
    np.testing.assert_array_equal(state["episode_length"], [[1, 0]])
    np.testing.assert_array_equal(state["episode_return"], [[1.0, 0.0]])
    np.testing.assert_array_equal(state["observation"], pool.observation)
    assert pool.observation[0, 1, 3] == 0
    pool.restore(state)
    np.testing.assert_array_equal(pool.step(actions(1.0, 1.0)).observation[..., 3], [[2, 1]])


def test_an_exception_ends_the_pool_with_its_traceback(pool):
    pids = pool.pids
    with pytest.raises(WorkerError, match=r"(?s)in step.*ArithmeticError: the count is off"):
        pool.step(actions(1.0, RAISE))
    assert gone(pids, seconds=0)
    with pytest.raises(RuntimeError, match="closed"):
        pool.step(actions(1.0, 1.0))


def test_workers_that_die_at_once_are_not_replaced_for_ever():
    with (
        Pool(Stillborn(), [0], 1) as pool,
        pytest.raises(WorkerError, match=r"died \(SIGKILL\), and so did its replacement"),
    ):
        pool.enter(0)


def test_workers_that_die_again_and_again_end_the_pool(pool, monkeypatch):
    monkeypatch.setattr(workers, "MOST_LOST", 0)
    with pytest.raises(WorkerError, match="1 workers died, the last one with SIGKILL"):
        pool.step(actions(DIE, 1.0))


def test_an_environment_that_cannot_be_made_is_told():
    with (
        Pool(Broken(), [0], 1) as pool,
        pytest.raises(WorkerError, match="LookupError: no room for task 1"),
    ):
        pool.enter(1)


SCRIPT = """
import os, signal, sys
import numpy as np
from continual_learning.envs.host import Pool
from tests.envs.host.toys import SLEEP, CountingStream

# Programs that are started in the background ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)
with Pool(CountingStream(), [0], 2, workers=2) as pool:
    pool.enter(0)
    pool.step_async(np.full((1, 2, 2), float(sys.argv[1]), np.float32))
    print(*pool.pids, flush=True)
    {}
"""


def run(body, action):
    """The workers of a program that began a step, and how the program ended."""
    program = subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(body), str(action)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert program.stdout
    pids = [int(pid) for pid in program.stdout.readline().split()]
    assert len(pids) == 2
    return program, pids


def test_workers_end_when_the_program_is_killed():
    program, pids = run("os.kill(os.getpid(), signal.SIGKILL)", 0.0)
    program.communicate()
    assert program.returncode == -signal.SIGKILL
    assert gone(pids)


def test_workers_in_an_endless_step_end_when_the_program_is_killed():
    program, pids = run("os.kill(os.getpid(), signal.SIGKILL)", SLEEP)
    program.communicate()
    assert gone(pids)


def test_a_worker_that_does_not_answer_is_told_of_and_replaced(monkeypatch):
    monkeypatch.setattr(process, "PATIENCE", 0.05)
    with Pool(CountingStream(), [3], 2, workers=2, limit=60.0) as pool:
        pool.enter(1)
        before, [_, pid] = pool.observation, pool.pids
        monkeypatch.setattr(process, "REMINDER", 0.1)
        pool._workers._processes[1]._limit = 0.3  # the other, and the new one, have time to start
        with pytest.warns(RuntimeWarning) as told:
            step = pool.step(actions(1.0, SLEEP))
        said = "\n".join(str(each.message) for each in told)
        task = "to step environment 1 of seed 3"
        assert f"(process {pid}) has not answered for 0.1 s: it has {task}. After 0.3 s" in said
        assert f"(no answer for 0.3 s, when it had {task}) and was replaced" in said
        np.testing.assert_array_equal(step.truncated, [[False, True]])
        np.testing.assert_array_equal(step.observation[0, 1], before[0, 1])
        assert gone([pid]) and pool.workers_lost == 1


def test_a_pool_of_a_thread_outlives_the_thread():
    """Linux would otherwise end its workers with the thread that started them."""
    made = []
    thread = threading.Thread(target=lambda: made.append(Pool(CountingStream(), [3], 1)))
    thread.start()
    thread.join()
    with made[0] as pool:
        pool.enter(0)
        assert pool.workers_lost == 0


def test_the_shared_memory_has_no_name_that_could_stay(pool):
    assert os.fstat(pool._workers._file.fileno()).st_nlink == 0


def test_workers_end_at_an_interrupt_without_a_word():
    program, pids = run("pool.step_wait()", 88.0)
    time.sleep(0.1)
    os.killpg(program.pid, signal.SIGINT)  # as Ctrl-C does
    _, told = program.communicate(timeout=20)
    assert gone(pids)
    assert told.count("Traceback") == 1 and told.rstrip().endswith("KeyboardInterrupt")


def test_importing_the_host_environments_imports_no_jax():
    code = "import sys, continual_learning.envs.host; assert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
