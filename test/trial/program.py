"""A program that trains an MLP 784-hidden-10 with NumPy beside a node of its own, for test/trial/attack --program.

    program.py [--judge] --set KEY=VALUE...

It takes the keys of p2pml-node that describe data, model and training for itself, and gives the others to the node. Its last line is that of
a node with a result. --judge: it measures the models of others on 256 of its own examples."""

import argparse
import gzip
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "python"))
import p2pml  # noqa: E402

OWN = {"batch": 32, "rate": 0.2}
CLASSES = 10


def values(path, skip):
    with gzip.open(path) as f:
        return np.frombuffer(f.read(), np.uint8)[skip:]


class Digits:
    """The part of this node of the first `count` examples, and the test examples after them."""

    def __init__(self, keys):
        images = values(keys["data.train_images"], 16).reshape(-1, 784).astype(np.float32) / 255
        labels = values(keys["data.train_labels"], 8)
        count, test = int(keys["data.train_count"]), int(keys["data.test_first"])
        mine = slice(int(keys["data.shard"]), count, int(keys["data.shards"]))
        self.images, self.labels = images[mine], labels[mine]
        self.test, self.truth = images[test:test + int(keys["data.test_count"])], labels[test:test + int(keys["data.test_count"])]


class Mlp:
    def __init__(self, vector, hidden):
        self.vector, ends = vector, np.cumsum([784 * hidden, hidden, hidden * CLASSES, CLASSES])
        parts = np.split(vector, ends[:-1])
        self.w1, self.b1, self.w2, self.b2 = parts[0].reshape(784, hidden), parts[1], parts[2].reshape(hidden, CLASSES), parts[3]

    def fill(self):
        random = np.random.default_rng(0)  # the same on all nodes
        for weights in (self.w1, self.w2):
            weights[:] = random.standard_normal(weights.shape) * np.sqrt(2 / len(weights))

    def forward(self, x):
        hidden = np.maximum(x @ self.w1 + self.b1, 0)
        scores = hidden @ self.w2 + self.b2
        scores -= scores.max(axis=1, keepdims=True)
        return hidden, scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))

    def losses(self, x, y):
        return -self.forward(x)[1][np.arange(len(y)), y]

    def accuracy(self, x, y):
        return float((self.forward(x)[1].argmax(axis=1) == y).mean())

    def step(self, x, y, rate):
        hidden, logs = self.forward(x)
        slope = np.exp(logs)
        slope[np.arange(len(y)), y] -= 1
        slope *= rate / len(y)
        back = (slope @ self.w2.T) * (hidden > 0)
        self.w2 -= hidden.T @ slope
        self.b2 -= slope.sum(axis=0)
        self.w1 -= x.T @ back
        self.b1 -= back.sum(axis=0)
        return -float(logs[np.arange(len(y)), y].mean())


def keys_of(settings):
    keys = dict(s.split("=", 1) for s in settings)
    own = {key: keys.pop(key) for key in list(keys) if key.split(".")[0] in ("data", "model", "train") and key != "train.steps"}
    return own, keys


def train(node, mlp, digits, keys, round_):
    every, random = int(keys.get("train.eval_rounds", 100)), np.random.default_rng(int(keys["data.shard"]) + 1)
    rate, batch, rounds = float(keys.get("train.rate", OWN["rate"])), int(keys.get("train.batch", OWN["batch"])), 0
    while True:
        loss = 0.0
        for _ in range(round_.steps):
            drawn = random.integers(len(digits.labels), size=batch)
            loss += mlp.step(digits.images[drawn], digits.labels[drawn], rate) / round_.steps
            if node.correction is not None:
                mlp.vector += np.float32(rate) * node.correction
        rounds += 1
        if rounds % every == 0:
            node.report(accuracy=mlp.accuracy(digits.test, digits.truth))
        round_ = node.exchange(round_.steps, rate * round_.steps, loss)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--judge", action="store_true")
    parser.add_argument("--set", action="append", default=[])
    chosen = parser.parse_args()
    own, keys = keys_of(chosen.set)
    digits, hidden = Digits(own), int(own["model.hidden"])
    held = digits.images[:256], digits.labels[:256]
    node = p2pml.join(dir=keys.pop("node.dir"), log__level="info", resume=False, **{k.replace(".", "__"): v for k, v in keys.items()})
    judge = (lambda model: Mlp(model, hidden).losses(*held)) if chosen.judge else None
    node.open([("w1", (784, hidden)), ("b1", (hidden,)), ("w2", (hidden, CLASSES)), ("b2", (CLASSES,))], judge=judge)
    mlp = Mlp(node.model, hidden)
    mlp.fill()
    try:
        train(node, mlp, digits, own, node.start())
    except p2pml.Ended as error:
        print(f"ended: {error}", file=sys.stderr)
    loss = float(mlp.losses(digits.test, digits.truth).mean())
    print(f"result step {keys['train.steps']}, test loss {loss:.4f}, test accuracy {100 * mlp.accuracy(digits.test, digits.truth):.2f}%")


if __name__ == "__main__":
    main()
