"""Three nodes in one process, each with three or four of ten classes, and one process with all data, for a bench and a test."""

import json
import os
import tempfile
import threading

import torch

import p2pml
from processes import free_ports

NODES, BATCH = 3, 32


def cnn():
    return torch.nn.Sequential(torch.nn.Conv2d(1, 8, 3, 2), torch.nn.ReLU(), torch.nn.Conv2d(8, 16, 3, 2), torch.nn.ReLU(),
                               torch.nn.AdaptiveAvgPool2d(3), torch.nn.Flatten(), torch.nn.Linear(144, 10))


def mlp():
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 107), torch.nn.ReLU(), torch.nn.Linear(107, 10))


OPTIMISERS = {"sgd": lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.5), "adamw": lambda ps: torch.optim.AdamW(ps, lr=2e-3)}


class Lesson:
    """``images``, ``labels``: the last ``count`` of them are for the test. ``settings``: keys of the nodes; ``arguments``: of attach."""

    def __init__(self, images, labels, count, steps, settings=(), arguments=()):
        self.images, self.labels, self.test, self.truth = images[:-count], labels[:-count], images[-count:], labels[-count:]
        self.steps, self.settings, self.arguments = steps, dict(settings), dict(arguments)

    def train(self, model, optimizer, mine, seed, is_over):
        x, y, random = self.images[mine], self.labels[mine], torch.Generator().manual_seed(seed)
        while not is_over():
            batch = torch.randint(len(y), (BATCH,), generator=random)
            torch.nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
            optimizer.step()
            optimizer.zero_grad()

    def accuracy(self, model):
        with torch.no_grad():
            return 100 * (model(self.test).argmax(1) == self.truth).float().mean().item()

    def central(self, make, optimiser, seed):
        torch.manual_seed(seed)
        model, left = make(), iter(range(self.steps))
        self.train(model, OPTIMISERS[optimiser](model.parameters()), torch.ones(len(self.labels), dtype=torch.bool), seed,
                   lambda: next(left, None) is None)
        return self.accuracy(model)

    def together(self, make, optimiser, seed):
        """For each node: its accuracy, the kilobytes that it sends a step, the consensus distance at the end, whether it says that the models
        stay apart."""
        ports, found, failed = free_ports(NODES), [(0.0, 0.0, 0.0, False)] * NODES, []
        torch.manual_seed(seed)
        models = [make() for _ in range(NODES)]

        def run(i, place):
            try:
                found[i] = self.node(i, ports, place, models[i], optimiser, seed)
            except BaseException as error:
                failed.append(error)
        with tempfile.TemporaryDirectory(prefix="p2pml-uneven-") as folder:
            threads = [threading.Thread(target=run, args=(i, os.path.join(folder, str(i))), daemon=True) for i in range(NODES)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        if failed:
            raise failed[0]
        return found

    def node(self, i, ports, place, model, optimiser, seed):
        peers = ",".join(f"127.0.0.1:{port}" for k, port in enumerate(ports) if k != i)
        own = {"listen": f"127.0.0.1:{ports[i]}", "dir": place, "node__http": "", "node__start_members": NODES, "node__start_timeout": "300s"}
        optimizer = OPTIMISERS[optimiser](model.parameters())
        with p2pml.attach(p2pml.join(peers, **{**own, **self.settings}), model, optimizer, steps=self.steps, **self.arguments) as attachment:
            self.train(model, optimizer, self.labels % NODES == i, 100 * seed + i, lambda: attachment.done)
        with open(os.path.join(place, "metrics.jsonl")) as f:
            last = json.loads(f.readlines()[-1])
        with open(os.path.join(place, "events.jsonl")) as f:
            says = any(json.loads(line)["event"] == "distance" for line in f)
        return self.accuracy(model), last["bytes_sent"] / 1000 / self.steps, last["consensus"] or 0.0, says
