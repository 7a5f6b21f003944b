"""Features, scores and resets under `jax.make_mesh` as it comes: shardings in the types."""

import os
import subprocess
import sys
import textwrap

SHARDED = """
    import jax, jax.numpy as jnp, numpy as np, optax
    from jax.sharding import NamedSharding, PartitionSpec as P
    from continual_learning.optim import CBP, CPR, ReDo, attach_reset_method, trace_units

    def dense(p, x):
        h = jnp.tanh(x @ p["a"] + p["b"][None])
        h = jnp.tanh(jnp.einsum("bi,io->bo", h, p["c"], out_sharding=OUT))
        return h @ p["d"]

    def cnn(p, x):
        dims = ("NHWC", "HWIO", "NHWC")
        h = jax.lax.conv_general_dilated(x, p["w"], (1, 1), "SAME", dimension_numbers=dims)
        h = jnp.tanh(h)
        return jnp.tanh(h.reshape(len(h), -1) @ p["a"]) @ p["d"]

    def arrays(**shapes):
        rng = np.random.default_rng(0)
        return {k: jnp.asarray(rng.normal(size=s), jnp.float32) for k, s in shapes.items()}

    DENSE = dict(a=(4, 8), b=(8,), c=(8, 8), d=(8, 4))
    CASES = {
        "batch": (dense, DENSE, {}, (8, 4), P("d", None), P("d", None)),
        "units": (dense, DENSE, dict(a=P(None, "d"), b=P("d"), c=P("d", None)), (8, 4),
                  P(None, None), P(None, None)),
        "images": (cnn, dict(w=(2, 2, 1, 4), a=(16, 8), d=(8, 4)), {}, (8, 2, 2, 1),
                   P("d", None, None, None), None),
    }
    METHODS = {
        "CPR": CPR(max_reset=0.5, every=1, init=jax.nn.initializers.constant(0.5)),
        "per sample": CPR(max_reset=0.5, every=1, score="per_sample",
                          init=jax.nn.initializers.constant(0.5)),
        "CBP": CBP(replacement_rate=0.3, maturity=0, init=jax.nn.initializers.constant(0.5)),
        "ReDo": ReDo(threshold=0.95, every=1, init=jax.nn.initializers.constant(0.5)),
    }

    def train(apply, graph, method, params, x):
        tx = attach_reset_method(tx=optax.sgd(0.1), reset_method=method, units=graph)

        @jax.jit
        def step(params, state):
            if method.requires == ("sample_scores",):
                loss = lambda p, x: jnp.mean(apply(p, x) ** 2)
                _, grads, scores = graph.per_sample_scores(loss)(params, x)
                updates, state = tx.update(grads, state, params, sample_scores=scores)
            else:
                def loss(p):
                    out, features, _ = graph.with_features(apply)(p, x)
                    return jnp.mean(out ** 2), features
                grads, features = jax.grad(loss, has_aux=True)(params)
                updates, state = tx.update(grads, state, params, features=features)
            return optax.apply_updates(params, updates), state

        state = tx.init(params)
        for _ in range(3):
            params, state = step(params, state)
        return params, state.log

    assert jax.device_count() == 4
    mesh = jax.make_mesh((4,), ("d",))
    for case, (apply, shapes, specs, shape, batch, OUT) in CASES.items():
        params = arrays(**shapes)
        x = arrays(x=shape)["x"]
        OUT, out = None, OUT
        graph = trace_units(apply, params, x[:1])
        for name, method in METHODS.items():
            OUT = None
            expected = train(apply, graph, method, params, x)
            OUT = out
            try:
                with jax.set_mesh(mesh):
                    put = lambda w, spec: jax.device_put(w, NamedSharding(mesh, spec))
                    whole = {k: P(*[None] * w.ndim) for k, w in params.items()}
                    split = {k: put(w, {**whole, **specs}[k]) for k, w in params.items()}
                    found = train(apply, trace_units(apply, split, put(x, batch)), method, split,
                                  put(x, batch))
                for k, spec in specs.items():
                    assert found[0][k].sharding.spec == spec, (k, found[0][k].sharding)
                assert (found[1].total > 0).all(), found[1].total
                close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
                jax.tree.map(close, found, expected)
                print(case, name, "same numbers")
            except Exception as error:
                print(case, name, repr(error).replace(chr(10), " "))
"""


def test_with_shardings_in_types_the_numbers_are_the_same():
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
    environment = {
        **os.environ,
        "XLA_FLAGS": f"{flags} --xla_backend_optimization_level=0",
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SHARDED)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 12
    assert [line for line in lines if not line.endswith("same numbers")] == []
