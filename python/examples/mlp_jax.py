"""An MLP in JAX, two processes: mlp_jax.py DIR INDEX STEPS PORT PORT. Each process sees half of the classes."""
import sys
import jax
import jax.numpy as jnp
import p2pml

folder, index, steps, ports = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
truth = jax.random.normal(jax.random.PRNGKey(5), (20, 4))
first, second = jax.random.split(jax.random.PRNGKey(1))
params = {"hidden": {"w": jax.random.normal(first, (20, 64)) / 5, "b": jnp.zeros(64)},
          "out": {"w": jax.random.normal(second, (64, 4)) / 8, "b": jnp.zeros(4)}}
RATE = 0.3


def logits(params, x):
    return jax.nn.relu(x @ params["hidden"]["w"] + params["hidden"]["b"]) @ params["out"]["w"] + params["out"]["b"]


@jax.jit
def update(params, key):
    x = jax.random.normal(key, (64, 20))
    y = (x @ truth).argmax(1)

    def loss(params):
        each = jnp.take_along_axis(jax.nn.log_softmax(logits(params, x)), y[:, None], 1)[:, 0]
        return -(each * (y % 2 == index)).sum() / 32
    return jax.tree_util.tree_map(lambda p, g: p - RATE * g, params, jax.grad(loss)(params))


together, params = p2pml.jax.attach(p2pml.join(f"127.0.0.1:{ports[1 - index]}", dir=f"{folder}/{index}", average__mode="sync",
                                               listen=f"127.0.0.1:{ports[index]}"), params, steps=steps)
key = jax.random.PRNGKey(10 + index)
while not together.done:  # in the cluster's steps: a process may be killed and started again
    params = update(params, jax.random.fold_in(key, together.cluster_step))
    params = together.step(params, RATE)
x = jax.random.normal(jax.random.PRNGKey(7), (2000, 20))
print("accuracy", float((logits(params, x).argmax(1) == (x @ truth).argmax(1)).mean()), flush=True)
