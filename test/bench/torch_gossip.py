#!/usr/bin/python3
"""An experiment of `p2pml sim` as a plain PyTorch script: all nodes in one process, one after the other.

MLP 784-256-10 on MNIST, classes divided by a Dirichlet distribution, SGD with momentum, a round every few local steps.
Methods:
  edge-ref   top-k of the difference to an edge's reference, int8, on a butterfly, with drift correction
  choco      CHOCO-SGD on a ring: public replicas, top-k of the difference to them, int8
  dpsgd      whole models, all neighbours on a ring, Metropolis-Hastings weights
  allreduce  the mean of all models

Prints a line per measurement and, in the end, when the averaged model and the worst node first reached each target.

usage: torch_gossip.py --data DIR [--method edge-ref] [--nodes 16] [--steps 2000] ...
(Debian and Ubuntu: apt-get install python3-torch)
"""
import argparse
import gzip
import math
import os
import time

import numpy
import torch


def read_idx(path):
    with gzip.open(path) as file:
        data = file.read()
    dimensions = data[3]
    shape = [int.from_bytes(data[4 + 4 * i:8 + 4 * i], "big") for i in range(dimensions)]
    return numpy.frombuffer(data, numpy.uint8, offset=4 + 4 * dimensions).reshape(shape)


def load(directory):
    images = read_idx(os.path.join(directory, "t10k-images-idx3-ubyte.gz")).reshape(-1, 784).astype(numpy.float32) / 255
    labels = read_idx(os.path.join(directory, "t10k-labels-idx1-ubyte.gz")).astype(numpy.int64)
    x, y = torch.from_numpy(images), torch.from_numpy(labels)
    return (x[:8000], y[:8000]), (x[8000:], y[8000:])


def deal_out(labels, nodes, alpha, rng):
    """Indices of each node's examples; each class is divided in proportions drawn from Dirichlet(alpha)."""
    while True:
        shards = [[] for _ in range(nodes)]
        for c in range(10):
            index = rng.permutation(numpy.flatnonzero(labels.numpy() == c))
            cuts = (numpy.cumsum(rng.dirichlet([alpha] * nodes))[:-1] * len(index)).astype(int)
            for shard, part in zip(shards, numpy.split(index, cuts)):
                shard.extend(part)
        if min(len(shard) for shard in shards) >= 10:
            return [torch.tensor(shard) for shard in shards]


def top_k(vector, k):
    """The k largest values of a vector in int8 with one scale, the rest zero; and the number of bytes."""
    index = torch.topk(vector.abs(), k).indices
    values = vector[index]
    scale = values.abs().max().clamp(min=1e-30) / 127
    sparse = torch.zeros_like(vector)
    sparse[index] = torch.round(values / scale) * scale
    bits = vector.numel() * entropy(k / vector.numel()) + 8 * k
    return sparse, bits / 8


def entropy(p):
    return 0.0 if p in (0.0, 1.0) else -(p * math.log2(p) + (1 - p) * math.log2(1 - p))


class Node:
    def __init__(self, start, data, weight, arguments, seed):
        self.model = torch.nn.Sequential(torch.nn.Linear(784, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
        torch.nn.utils.vector_to_parameters(start.clone(), self.model.parameters())
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=arguments.rate, momentum=arguments.momentum)
        self.loss = torch.nn.CrossEntropyLoss()
        self.x, self.y = data
        self.weight, self.batch = weight, min(arguments.batch, len(self.y))
        self.generator = torch.Generator().manual_seed(seed)
        self.order, self.position = None, 0

    def vector(self):
        return torch.nn.utils.parameters_to_vector(self.model.parameters()).detach()

    def set(self, vector):
        torch.nn.utils.vector_to_parameters(vector, self.model.parameters())

    def next_batch(self):
        if self.order is None or self.position + self.batch > len(self.y):
            self.order, self.position = torch.randperm(len(self.y), generator=self.generator), 0
        index = self.order[self.position:self.position + self.batch]
        self.position += self.batch
        return self.x[index], self.y[index]

    def train(self, steps, rate, correction):
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        for _ in range(steps):
            x, y = self.next_batch()
            self.optimizer.zero_grad(set_to_none=True)
            (self.weight * self.loss(self.model(x), y)).backward()
            self.optimizer.step()
            if correction is not None:
                self.set(self.vector() + rate * correction)


class EdgeRef:
    """x_i += (q_j - q_i)/2, r += (q_i + q_j)/2, q = C(x - r); c += beta/s (q_j - q_i)/2."""

    def __init__(self, start, arguments):
        self.start, self.n = start, arguments.nodes
        self.k = max(1, int(len(start) * arguments.ratio))
        self.beta = min(arguments.drift_gain * arguments.ratio, 0.25)
        self.stages = max(1, (self.n - 1).bit_length())
        self.reference, self.c = {}, {}
        self.correction = [torch.zeros_like(start) for _ in range(self.n)]

    def mix(self, nodes, turn, scale):
        sent = 0.0
        for i in range(self.n):
            j = i ^ (1 << (turn % self.stages))
            if not i < j < self.n:
                continue
            r = self.reference.setdefault((i, j), self.start.clone())
            x_i, x_j = nodes[i].vector(), nodes[j].vector()
            q_i, bytes_i = top_k(x_i - r, self.k)
            q_j, bytes_j = top_k(x_j - r, self.k)
            force = (q_j - q_i) / 2
            nodes[i].set(x_i + force)
            nodes[j].set(x_j - force)
            r += (q_i + q_j) / 2
            pull = self.beta / (scale * self.stages) * force
            self.correction[i] += pull
            self.correction[j] -= pull
            sent += bytes_i + bytes_j
        return sent


def ring_weights(n):
    return {i: [((i - 1) % n, 1 / 3), ((i + 1) % n, 1 / 3)] for i in range(n)}


class Choco:
    """x += gamma sum_j w_ij (hat_j - hat_i), hat += C(x - hat). Koloskova, Stich, Jaggi 2019, Algorithm 2."""

    def __init__(self, start, arguments):
        self.n, self.gamma = arguments.nodes, arguments.step_size
        self.k = max(1, int(len(start) * arguments.ratio))
        self.hat = [start.clone() for _ in range(self.n)]
        self.neighbours = ring_weights(self.n)
        self.correction = [None] * self.n

    def mix(self, nodes, turn, scale):
        sent = 0.0
        for i, node in enumerate(nodes):
            q, size = top_k(node.vector() - self.hat[i], self.k)
            self.hat[i] += q
            sent += size * len(self.neighbours[i])
        for i, node in enumerate(nodes):
            pull = sum(w * (self.hat[j] - self.hat[i]) for j, w in self.neighbours[i])
            node.set(node.vector() + self.gamma * pull)
        return sent


class Dpsgd:
    def __init__(self, start, arguments):
        self.n, self.neighbours = arguments.nodes, ring_weights(arguments.nodes)
        self.correction = [None] * self.n

    def mix(self, nodes, turn, scale):
        x = [node.vector() for node in nodes]
        for i, node in enumerate(nodes):
            node.set(x[i] + sum(w * (x[j] - x[i]) for j, w in self.neighbours[i]))
        return 4.0 * len(x[0]) * 2 * self.n


class Allreduce:
    def __init__(self, start, arguments):
        self.n = arguments.nodes
        self.correction = [None] * self.n

    def mix(self, nodes, turn, scale):
        mean = torch.stack([node.vector() for node in nodes]).mean(0)
        for node in nodes:
            node.set(mean.clone())
        return 4.0 * len(mean) * 2 * (self.n - 1)


METHODS = {"edge-ref": EdgeRef, "choco": Choco, "dpsgd": Dpsgd, "allreduce": Allreduce}


def accuracy(model, data):
    with torch.no_grad():
        return (model(data[0]).argmax(1) == data[1]).float().mean().item()


def rate_at(step, arguments):
    part = step / arguments.steps
    return arguments.rate * (0.1 if part >= 0.85 else 0.3 if part >= 0.6 else 1.0)


def measure(nodes, probe, test):
    mean = torch.stack([node.vector() for node in nodes]).mean(0)
    torch.nn.utils.vector_to_parameters(mean, probe.parameters())
    return accuracy(probe, test), min(accuracy(node.model, test) for node in nodes)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--method", choices=METHODS, default="edge-ref")
    parser.add_argument("--nodes", type=int, default=16)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--local-steps", type=int, default=4)
    parser.add_argument("--ratio", type=float, default=1 / 32)
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--momentum", type=float, default=0.0)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--alpha", type=float, default=0.1)
    parser.add_argument("--drift-gain", type=float, default=4.0)
    parser.add_argument("--step-size", type=float, default=0.2)
    parser.add_argument("--eval-rounds", type=int, default=25)
    parser.add_argument("--targets", type=float, nargs="*", default=[0.93, 0.95])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)
    train, test = load(arguments.data)
    shards = deal_out(train[1], arguments.nodes, arguments.alpha, numpy.random.default_rng(arguments.seed))
    probe = torch.nn.Sequential(torch.nn.Linear(784, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
    with torch.no_grad():  # first weights as in p2pml: He et al. 2015
        for layer in (probe[0], probe[2]):
            layer.weight.normal_(0, math.sqrt(2 / layer.in_features))
            layer.bias.zero_()
    start = torch.nn.utils.parameters_to_vector(probe.parameters()).detach().clone()
    mean_size = len(train[1]) / arguments.nodes
    nodes = [Node(start, (train[0][s], train[1][s]), len(s) / mean_size, arguments, arguments.seed + i)
             for i, s in enumerate(shards)]
    method = METHODS[arguments.method](start, arguments)
    reached, sent, begin = {}, 0.0, time.perf_counter()
    for turn in range(arguments.steps // arguments.local_steps):
        rate = rate_at(turn * arguments.local_steps, arguments)
        for node, correction in zip(nodes, method.correction):
            node.train(arguments.local_steps, rate, correction)
        sent += method.mix(nodes, turn, rate * arguments.local_steps)
        if (turn + 1) % arguments.eval_rounds == 0:
            averaged, worst = measure(nodes, probe, test)
            seconds = time.perf_counter() - begin
            print(f"round {turn + 1}  {seconds:.1f} s  {sent / 1e6:.1f} MB  averaged {averaged:.4f}  worst {worst:.4f}",
                  flush=True)
            for target in arguments.targets:
                for name, value in (("averaged", averaged), ("worst", worst)):
                    if value >= target and (name, target) not in reached:
                        reached[name, target] = (seconds, sent, turn + 1)
    print(f"torch {torch.__version__}, seed {arguments.seed}: {time.perf_counter() - begin:.1f} s in all")
    for target in arguments.targets:
        for name in ("averaged", "worst"):
            if (name, target) in reached:
                seconds, bytes_sent, turn = reached[name, target]
                print(f"{name} {target}: {seconds:.1f} s, {bytes_sent / 1e6:.2f} MB, round {turn}")
            else:
                print(f"{name} {target}: never")


if __name__ == "__main__":
    main()
