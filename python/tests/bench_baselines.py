"""Methods of the literature at their best, in numpy (`p2pml.lab`): each over the same learning rates and over local steps, on MNIST, where every node sees
one or two digits (the images in the order of their labels, cut into equal parts). A line a run, as JSON: accuracy of the averaged model and of the
worst node, bytes that all nodes have sent in all and until the averaged model had 93%.

    P2PML_PROGRAM=build/release/bin/p2pml OPENBLAS_NUM_THREADS=1 PYTHONPATH=python python3 python/tests/bench_baselines.py DIRECTORY_OF_MNIST \\
        [--nodes 4 8] [--rate 0.1 0.2 0.4] [--steps 800] [--seeds 1] [--only NAME...] [--finalists]"""

import argparse
import gzip
import itertools
import json

import numpy as np

from p2pml import lab

HIDDEN = 32
SIZES = ((784, HIDDEN), (HIDDEN,), (HIDDEN, 10), (10,))
SIGN = {"ratio": 1 / 14, "filter": "sign"}
INT8 = {"ratio": 1 / 32, "filter": "int8"}
OUTER = [(1.0, 0.0), (0.4, 0.9), (0.7, 0.9)]
METHODS = {  # name: (method, graph, local steps, settings)
    "allreduce": ("allreduce", "ring", (1, 4), [{}]),
    "pairs": ("model-average", "butterfly", (1, 4), [{}]),
    "dsgt": ("gradient-tracking", "ring", (1, 4), [{}]),
    "gasloc": ("gasloc", "butterfly", (1, 4, 10), [{"momentum": m} for m in (0.2, 0.5)]),
    "powergossip": ("powergossip", "butterfly", (1, 4), [{"shapes": SIZES}]),
    "two-way": ("two-way", "ring", (2, 4), [INT8, SIGN]),
    "sparseloco": ("sparseloco", "ring", (4, 10), [INT8, SIGN]),
    "diloco": ("diloco", "ring", (10, 30), [{"outer_rate": r, "outer_nesterov": m} for r, m in OUTER]),
    "diloco-4": ("diloco", "ring", (10, 30), [{"outer_rate": r, "outer_nesterov": m, "filter": "uniform4"} for r, m in OUTER]),
    "diloco-1": ("diloco", "ring", (10, 30), [{"outer_rate": r, "outer_nesterov": m, "filter": "sign"} for r, m in OUTER]),
    "choco": ("choco", "ring", (1,), [{"ratio": 1 / 8, "step_size": 0.4}]),
    "edge-ref": ("edge-ref", "butterfly", (2, 4), [{**INT8, "drift_gain": 4.0}, {**SIGN, "drift_gain": 4.0}]),
}

FINALISTS = {  # name: (rate, local steps, which settings): the highest accuracy of 8 nodes, seed 0
    "allreduce": (0.4, 1, 0), "pairs": (0.4, 1, 0), "dsgt": (0.4, 1, 0), "gasloc": (0.2, 1, 1), "powergossip": (0.2, 1, 0), "two-way": (0.4, 2, 1),
    "sparseloco": (0.4, 4, 0), "diloco": (0.2, 10, 2), "diloco-4": (0.2, 10, 2), "diloco-1": (0.2, 10, 2), "choco": (0.2, 1, 0), "edge-ref": (0.2, 2, 1),
}


def tensors(x):
    at = 0
    for shape in SIZES:
        size = int(np.prod(shape))
        yield x[at:at + size].reshape(shape)
        at += size


def load(folder):
    with gzip.open(f"{folder}/t10k-images-idx3-ubyte.gz") as images, gzip.open(f"{folder}/t10k-labels-idx1-ubyte.gz") as labels:
        return (np.frombuffer(images.read(), np.uint8, offset=16).reshape(-1, 784).astype(np.float32) / 255,
                np.frombuffer(labels.read(), np.uint8, offset=8).astype(int))


def mlp_on(pixels, labels, nodes, batch=32):
    shards = np.array_split(np.argsort(labels, kind="stable"), nodes)

    def model(x, node, random):
        chosen = shards[node][random.integers(0, len(shards[node]), batch)]
        w1, b1, w2, b2 = tensors(x)
        images = pixels[chosen]
        hidden = np.maximum(images @ w1 + b1, 0)
        scores = hidden @ w2 + b2
        p = np.exp(scores - scores.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        loss = -np.log(p[range(batch), labels[chosen]] + 1e-9).mean()
        p[range(batch), labels[chosen]] -= 1
        p /= batch
        back = (p @ w2.T) * (hidden > 0)
        return loss, np.concatenate([(images.T @ back).ravel(), back.sum(0), (hidden.T @ p).ravel(), p.sum(0)])
    return model


def accuracy_on(pixels, labels):
    def accuracy(x):
        w1, b1, w2, b2 = tensors(x)
        return float(((np.maximum(pixels @ w1 + b1, 0) @ w2 + b2).argmax(1) == labels).mean())
    return accuracy


def start(random):
    return np.concatenate([(random.normal(size=shape) * (2 / shape[0]) ** 0.5 * (len(shape) > 1)).astype(np.float32).ravel() for shape in SIZES])


def falling(rate):
    """The schedule of configs/methods.yaml."""
    return lambda done: rate * (1 if done < 0.6 else 0.3 if done < 0.85 else 0.1)


def run(data, name, nodes, rate, steps, local_steps, settings, seed):
    pixels, labels = data
    method, graph, _, _ = METHODS[name]
    table = lab.rounds(mlp_on(pixels[:8000], labels[:8000], nodes), start, method, nodes=nodes, topology=graph, local_steps=local_steps, seed=seed,
                       rounds=steps // local_steps, rate=falling(rate), every=max(1, 40 // local_steps), measure=accuracy_on(pixels[8000:], labels[8000:]),
                       **settings)
    last, reached = table.iloc[-1], table[table["measure"] >= 0.93]
    shown = {key: value for key, value in settings.items() if key != "shapes"}
    return {"name": name, "nodes": nodes, "rate": rate, "local_steps": local_steps, **shown, "seed": seed, "averaged": round(100 * last["measure"], 2),
            "worst": round(100 * last["worst"], 2), "bytes": int(last["bytes"]), "to_93": int(reached["bytes"].iloc[0]) if len(reached) else None}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--nodes", type=int, nargs="+", default=[4, 8])
    parser.add_argument("--rate", type=float, nargs="+", default=[0.1, 0.2, 0.4])
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--only", nargs="+", default=list(METHODS))
    parser.add_argument("--finalists", action="store_true", help="of each method the setting that was best with 8 nodes")
    given = parser.parse_args()
    data = load(given.folder)
    for nodes, name, seed in itertools.product(given.nodes, given.only, range(given.seeds)):
        for rate, local_steps, settings in [finalist(name)] if given.finalists else itertools.product(given.rate, METHODS[name][2], METHODS[name][3]):
            print(json.dumps(run(data, name, nodes, rate, given.steps, local_steps, settings, seed)), flush=True)


def finalist(name):
    rate, local_steps, which = FINALISTS[name]
    return rate, local_steps, METHODS[name][3][which]


main()
