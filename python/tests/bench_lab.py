"""What the methods of configs/methods.yaml cost in numpy (p2pml.lab) and in the simulator (lab/methods): processor time for its 2,500 steps of 16
nodes, from the difference of two short runs, so without start and measurements.

    P2PML_PROGRAM=build/release/bin/p2pml OPENBLAS_NUM_THREADS=1 PYTHONPATH=python python3 python/tests/bench_lab.py DIRECTORY_OF_MNIST [METHOD...]"""

import gzip
import os
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np

from p2pml import lab
from p2pml._command import environment

CONFIG = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "configs", "methods.yaml")
JOBS = {  # graph, local steps, ratio, settings of the method in numpy: the rows of configs/methods.yaml, and sparseloco
    "edge-ref": ("butterfly", 4, 1 / 32, {"selection": "top", "ratio": 1 / 32, "drift_gain": 4}),
    "choco": ("ring", 1, 1 / 8, {"ratio": 1 / 8, "step_size": 0.4}),
    "dpsgd": ("ring", 1, 1 / 32, {}),
    "diloco": ("ring", 16, 1 / 32, {}),
    "noloco": ("matchings", 16, 1 / 32, {}),
    "sparseloco": ("ring", 16, 1 / 32, {"ratio": 1 / 32}),
    "local": ("ring", 16, 1 / 32, {}),
}
NODES, STEPS, SHORT, LONG = 16, 2500, 16, 80
SIZES = ((784, 256), (256,), (256, 10), (10,))


def tensors(x):
    at = 0
    for shape in SIZES:
        size = int(np.prod(shape))
        yield x[at:at + size].reshape(shape)
        at += size


def mlp_on(pixels, labels):
    shards = np.array_split(np.argsort(labels, kind="stable"), NODES)  # one or two digits each

    def model(x, node, random):
        chosen = random.choice(shards[node], 32)
        w1, b1, w2, b2 = tensors(x)
        images = pixels[chosen]
        hidden = np.maximum(images @ w1 + b1, 0)
        scores = hidden @ w2 + b2
        p = np.exp(scores - scores.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        loss = -np.log(p[range(32), labels[chosen]] + 1e-9).mean()
        p[range(32), labels[chosen]] -= 1
        p /= 32
        back = (p @ w2.T) * (hidden > 0)
        return loss, np.concatenate([(images.T @ back).ravel(), back.sum(0), (hidden.T @ p).ravel(), p.sum(0)])
    return model


def seconds_of_numpy(model, method, steps):
    graph, local_steps, _, settings = JOBS[method]
    start = np.concatenate([(np.random.default_rng(0).normal(size=shape) * 0.05).astype(np.float32).ravel() for shape in SIZES])
    rounds = steps // local_steps
    began = time.process_time()
    lab.rounds(model, start, method, topology=graph, nodes=NODES, local_steps=local_steps, rounds=rounds, every=rounds, rate=0.2, **settings)
    return time.process_time() - began


def seconds_of_sim(folder, method, steps):
    graph, local_steps, ratio, settings = JOBS[method]
    keys = {"sweep": "[]", "experiment.baselines": "[]", "average.method": method, "topology.kind": graph, "average.local_steps": local_steps,
            "average.ratio": ratio, "average.step_size": settings.get("step_size", 0), "train.steps": steps, "train.eval_rounds": steps, "sim.engine": "rounds",
            "average.finish": "none", "average.filters": "[]",
            **{f"data.{part}_{kind}": f"{folder}/t10k-{kind}-idx{dims}-ubyte.gz" for part in ("train", "test") for kind, dims in (("images", 3), ("labels", 1))}}
    with tempfile.TemporaryDirectory() as out:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([os.environ["P2PML_PROGRAM"], "sim", CONFIG, "--out", f"{out}/run", *[f"--set={key}={value}" for key, value in keys.items()]],
                       check=True, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(folder, *methods):
    with gzip.open(f"{folder}/t10k-images-idx3-ubyte.gz") as images, gzip.open(f"{folder}/t10k-labels-idx1-ubyte.gz") as labels:
        pixels = np.frombuffer(images.read(), np.uint8, offset=16).reshape(-1, 784)[:8000].astype(np.float32) / 255
        model = mlp_on(pixels, np.frombuffer(labels.read(), np.uint8, offset=8)[:8000])
    print(f"{'method':<12} {'numpy':>8} {'simulator':>10}  seconds of processor time for {STEPS} steps of {NODES} nodes")
    for method in methods or JOBS:
        part = STEPS / (LONG - SHORT)
        ours = (seconds_of_numpy(model, method, LONG) - seconds_of_numpy(model, method, SHORT)) * part
        theirs = (seconds_of_sim(folder, method, LONG) - seconds_of_sim(folder, method, SHORT)) * part
        print(f"{method:<12} {ours:8.0f} {theirs:10.0f}", flush=True)


main(*sys.argv[1:])
