"""Loops of one process, for the tests: a small model, its optimiser, and nodes whose directories are removed with the test."""

import os
import shutil
import tempfile
import threading
import unittest

import torch

import p2pml
from processes import free_ports, patience


def small():
    model = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Linear(5, 2))
    return model, torch.optim.SGD(model.parameters(), lr=0.01)  # with 0.1 half of all first weights diverge


class Loop(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="p2pml-python-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def join(self, name="node", **more):
        node = p2pml.join(dir=os.path.join(self.folder, name), log__level="error", **more)
        self.addCleanup(node.close)
        return node

    def attach(self, model, optimizer, name="node", **more):
        attachment = p2pml.attach(self.join(name), model, optimizer, **more)
        self.addCleanup(attachment.close)
        return attachment

    def step(self, model, optimizer, times=1):
        for _ in range(times):
            optimizer.zero_grad()
            model(torch.ones(4, 3)).pow(2).sum().backward()
            optimizer.step()

    def together(self, programs, every, settings=(), arguments=(), **more):
        """Runs each of ``programs`` in a thread. A program is a generator: it first yields (model, optimiser), then trains.
        ``settings``: keys of the nodes; ``more``: arguments of attach, ``arguments``: those of each."""
        ports = free_ports(len(programs))
        torch.manual_seed(1)  # one after the other: the threads share torch's generator
        loops = [program(i) for i, program in enumerate(programs)]
        models = [next(loop) for loop in loops]
        attachments, errors = [None] * len(programs), []

        def run(i):
            others = ",".join(f"127.0.0.1:{port}" for k, port in enumerate(ports) if k != i)
            node = self.join(str(i), peers=others, listen=f"127.0.0.1:{ports[i]}", node__start_timeout="300s", **dict(settings))
            try:
                attachments[i] = p2pml.attach(node, *models[i], every=every, **more, **dict(arguments[i] if arguments else ()))
                for _ in loops[i]:
                    pass
            except BaseException as error:
                errors.append(error)
        threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(len(programs))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(patience())
        self.assertFalse(errors or any(thread.is_alive() for thread in threads), errors)
        return attachments
