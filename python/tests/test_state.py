"""What happens to a learner's state (docs/EMBEDDING.md): the same table for every learner, and each optimiser of torch."""

import array
import collections
import importlib.util
import json
import math
import os
import subprocess
import sys
import threading
import time
import unittest
import urllib.request
import warnings

import numpy
import torch

import p2pml
from loops import Loop, small
from processes import ROOT, free_ports, patience
from test_documents import blocks

sys.path.insert(0, os.path.join(ROOT, "daemon", "examples"))
import trainer  # noqa: E402

OPTIMISERS = {
    "sgd": lambda ps: torch.optim.SGD(ps, lr=0.05),
    "momentum": lambda ps: torch.optim.SGD(ps, lr=0.05, momentum=0.9),
    "adam": lambda ps: torch.optim.Adam(ps, lr=1e-3),
    "adamw": lambda ps: torch.optim.AdamW(ps, lr=1e-3, amsgrad=True),
    "nadam": lambda ps: torch.optim.NAdam(ps, lr=1e-3),
    "radam": lambda ps: torch.optim.RAdam(ps, lr=1e-3),
    "adamax": lambda ps: torch.optim.Adamax(ps, lr=1e-3),
    "rmsprop": lambda ps: torch.optim.RMSprop(ps, lr=1e-3, momentum=0.5, centered=True),
    "adagrad": lambda ps: torch.optim.Adagrad(ps, lr=1e-2),
    "adadelta": lambda ps: torch.optim.Adadelta(ps, lr=0.5),
    "asgd": lambda ps: torch.optim.ASGD(ps, lr=0.05),
    "rprop": lambda ps: torch.optim.Rprop(ps, lr=1e-3),
}
if hasattr(torch.optim, "Muon"):
    exec(compile(blocks("docs/recipes.md", "Muon and AdamW in one optimiser")[0], "recipes.md", "exec"))

    def both(ps):
        ps = list(ps)
        return Both(torch.optim.Muon(ps[:1], lr=0.02), torch.optim.AdamW(ps[1:], lr=1e-3))  # noqa: F821
    OPTIMISERS.update({"muon": lambda ps: torch.optim.Muon(ps, lr=0.02), "both": both})
EVERY = 5
TRUTH = torch.randn(20, generator=torch.Generator().manual_seed(5))


def net(seed=0, name=""):
    torch.manual_seed(seed)
    if name == "muon":  # matrices only
        return torch.nn.Sequential(torch.nn.Linear(20, 16, bias=False), torch.nn.BatchNorm1d(16, affine=False), torch.nn.ReLU(),
                                   torch.nn.Linear(16, 2, bias=False))
    return torch.nn.Sequential(torch.nn.Linear(20, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(), torch.nn.Linear(16, 2))


def batch(step, bad=False):
    x = torch.randn(64, 20, generator=torch.Generator().manual_seed(1000 + step))
    y = (x @ TRUTH > 0).long()
    if bad:
        x[3, 4] = float("nan")
    return x, y


def take(model, optimizer, x, y, scheduler=None):
    loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if scheduler is not None:
        scheduler.step()
    return float(loss.detach())


def cosine(optimizer):
    return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 400)


def all_of(model, optimizer):
    """Every number of them."""
    found = dict(model.state_dict())
    for i, state in optimizer.state_dict()["state"].items():
        found.update((f"{i}.{key}", torch.as_tensor(value)) for key, value in state.items() if value is not None)
    return {key: value.detach().clone() for key, value in found.items()}


class Optimisers(Loop):
    def assertEqualBits(self, one, other, name):
        self.assertEqual(sorted(one), sorted(other), name)
        for key in one:
            self.assertTrue(torch.equal(one[key], other[key]), f"{name}: {key} differs by {(one[key] - other[key]).abs().max()}")

    def run_on(self, name, node, steps, scheduled=True, state=None, seed=0):
        """Trains to ``steps`` of the cluster; from where the node is."""
        model = net(seed, name)
        optimizer = OPTIMISERS[name](model.parameters())
        scheduler = cosine(optimizer) if scheduled else None
        with p2pml.attach(node, model, optimizer, every=EVERY, scheduler=scheduler, state=state) as together:
            while together.step < steps:
                take(model, optimizer, *batch(together.step), scheduler)
            saved = together.state_dict() if state is None else None
            return all_of(model, optimizer), saved, optimizer.param_groups[0]["lr"]

    def test_a_resumed_run_is_an_uninterrupted_one_bit_for_bit(self):
        for name in OPTIMISERS:
            with self.subTest(name):
                whole, _, rate = self.run_on(name, self.join(name + "-whole"), 60)
                self.run_on(name, self.join(name), 30)
                parts, _, its = self.run_on(name, self.join(name), 60, seed=1)  # a new process: other first weights, fresh optimiser
                self.assertEqual(rate, its)
                self.assertEqualBits(whole, parts, name)
                _, saved, _ = self.run_on(name, self.join(name + "-saved"), 30)
                parts, _, its = self.run_on(name, self.join(name + "-else"), 60, state=saved, seed=1)
                self.assertEqual(rate, its)
                self.assertEqualBits(whole, parts, name + " from state_dict")

    def test_a_resumed_run_has_states_of_the_same_types(self):
        types = []
        for steps in (EVERY, 2 * EVERY):
            model = net(0, "adamw").to(torch.bfloat16)
            optimizer = OPTIMISERS["adamw"](model.parameters())
            with p2pml.attach(self.join(), model, optimizer, every=EVERY) as together:
                while together.step < steps:
                    x, y = batch(together.step)
                    take(model, optimizer, x.to(torch.bfloat16), y)
                types.append({key: value.dtype for key, value in all_of(model, optimizer).items()})
        self.assertEqual(*types)

    def test_one_bad_batch_costs_one_round(self):
        for name in OPTIMISERS:
            with self.subTest(name), warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                model = net(0, name)
                optimizer = OPTIMISERS[name](model.parameters())
                with p2pml.attach(self.join(name), model, optimizer, every=EVERY) as together:
                    losses = [take(model, optimizer, *batch(step, bad=step == 101)) for step in range(160)]
                    self.assertTrue(together.active)
                self.assertEqual(sum("undone" in str(one.message) for one in told), name != "rprop")  # signs of NaN are zero
                self.assertTrue(all(math.isfinite(loss) for loss in losses[105:]), name)
                self.assertLess(sum(losses[-10:]), sum(losses[90:100]) * 1.15, name)
                for key, value in all_of(model, optimizer).items():
                    self.assertTrue(bool(torch.isfinite(value).all()), f"{name}: {key}")

    def test_a_node_that_ends_leaves_a_finite_model_and_optimiser(self):
        for name in ("adam", "momentum", "rmsprop"):
            with self.subTest(name), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = net()
                optimizer = OPTIMISERS[name](model.parameters())
                with p2pml.attach(self.join(name), model, optimizer, every=EVERY) as together:
                    step = 0
                    while together.active:
                        take(model, optimizer, *batch(step, bad=step > 20))
                        step += 1
                        self.assertLess(step, 200)
                    for key, value in all_of(model, optimizer).items():
                        self.assertTrue(bool(torch.isfinite(value).all()), f"{name}: {key}")
                    take(model, optimizer, *batch(step))
                    self.assertTrue(math.isfinite(take(model, optimizer, *batch(step + 1))), name)
                    self.assertEqual(together.step, step + 2)  # those that it takes alone, too


class Shown(Loop):
    def test_a_detached_state_has_its_own_memory(self):
        model, optimizer = torch.nn.Linear(1000, 100), None
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        attachment = self.attach(model, optimizer, every=1)
        model(torch.ones(4, 1000)).sum().backward()
        optimizer.step()
        path = os.path.join(self.folder, "bias.pt")
        torch.save(model.state_dict()["bias"], path)
        self.assertGreater(os.path.getsize(path), 400000)  # torch writes the whole vector
        torch.save(attachment.detached_state()["bias"], path)
        self.assertLess(os.path.getsize(path), 4000)
        state = attachment.detached_state(optimizer)
        torch.save(state["state"][1], path)
        self.assertLess(os.path.getsize(path), 8000)
        self.assertEqual(state["param_groups"], optimizer.state_dict()["param_groups"])
        for mine, its in zip(state["state"][0].values(), optimizer.state_dict()["state"][0].values()):
            self.assertTrue(torch.equal(mine, its))

    def test_what_a_program_reports_is_shown(self):
        model, optimizer = small()
        attachment = self.attach(model, optimizer, every=2)
        attachment.report(loss=torch.tensor(3.0), accuracy=0.625, perplexity=7)
        attachment.report(loss=2.0)
        attachment.report(loss=float("nan"))
        self.step(model, optimizer, 2)
        node, shown = attachment.node, {}
        while shown.get("accuracy") != 0.625 or shown.get("loss") is None:  # it is told ten times a second, when a round ends
            shown = node.status()
            if shown.get("loss") is not None:
                self.assertEqual(shown["loss"], 2.5)  # the mean of a round
            if shown.get("accuracy") != 0.625 or shown.get("loss") is None:
                attachment.report(loss=2.5)
                attachment.exchange()
        with urllib.request.urlopen(node.page + "status", timeout=patience()) as answer:
            self.assertEqual(json.load(answer)["accuracy"], 0.625)
        with open(os.path.join(self.folder, "node", "reported.jsonl"), encoding="utf-8") as f:
            row = json.loads(f.read().splitlines()[0])
        self.assertEqual((row["step"], row["accuracy"], row["perplexity"]), (0, 0.625, 7))


class Library:
    """A program that trains on the flat vector with a momentum of its own, as docs/EMBEDDING.md asks of it."""
    size, rate = 20, 0.05

    def __init__(self, node):
        self.node, self.momentum = node, numpy.zeros(self.size, numpy.float32)
        node.open([("w", (self.size,))], average__local_steps=EVERY)
        node.model[:] = 7.0
        self.adopt(node.start())

    def adopt(self, round):
        self.round = round
        if round.another == p2pml.node.RESTORED:
            self.momentum = numpy.frombuffer(self.node.came()[1], numpy.float32).copy()
        if round.another == p2pml.node.TAKEN or (round.rolled_back and not numpy.isfinite(self.momentum).all()):
            self.momentum[:] = 0

    def train(self, bad=False):
        for _ in range(EVERY):
            self.momentum[:] = 0.9 * self.momentum + (self.node.model - numpy.sin(numpy.arange(self.size)))
            if bad:
                self.momentum[3] = numpy.nan
            self.node.model -= self.rate * (self.momentum - self.node.correction)
        self.before = self.momentum.copy()
        if self.round.saves:
            self.node.keep(self.momentum.tobytes())
        self.adopt(self.node.exchange(EVERY, EVERY * self.rate))

    def model(self):
        return self.node.model.copy()

    def first(self):
        return self.momentum.copy()

    def close(self):
        if self.node.ended is None:
            self.node.keep(self.momentum.tobytes())
        self.node.close()


class Torch:
    def __init__(self, node, make=lambda ps: torch.optim.SGD(ps, lr=0.05, momentum=0.9), key="momentum_buffer"):
        self.net, self.key = torch.nn.Module(), key
        self.net.w = torch.nn.Parameter(torch.full((20,), 7.0))
        self.optimizer = make(self.net.parameters())
        self.together = p2pml.attach(node, self.net, self.optimizer, every=EVERY)
        exchange = node.exchange

        def watched(*arguments):
            self.before = self.first()
            return exchange(*arguments)
        node.exchange = watched

    def train(self, bad=False):
        for _ in range(EVERY):
            self.optimizer.zero_grad()
            (0.5 * (self.net.w - torch.sin(torch.arange(20.0))) ** 2).sum().backward()
            if bad:
                self.net.w.grad[3] = float("nan")
            self.optimizer.step()

    def model(self):
        return self.net.w.detach().numpy().copy()

    def first(self):
        held = self.optimizer.state.get(self.net.w, {}).get(self.key)
        return numpy.zeros(20, numpy.float32) if held is None else held.detach().numpy().copy()

    def close(self):
        self.together.close()


def adam(node):
    return Torch(node, lambda ps: torch.optim.AdamW(ps, lr=0.05), "exp_avg")


class Jax:
    State = collections.namedtuple("State", "count mu nu")

    def __init__(self, node):
        import jax.numpy as jnp
        self.jnp, zeros = jnp, jnp.zeros(20)
        self.together, self.params, self.state = p2pml.jax.attach(node, jnp.full(20, 7.0), every=EVERY,
                                                                  state=self.State(jnp.int32(0), zeros, zeros))

    def train(self, bad=False):
        for _ in range(EVERY):
            gradient = self.params - self.jnp.sin(self.jnp.arange(20.0))
            gradient = gradient.at[3].set(self.jnp.nan) if bad else gradient
            mu, nu = 0.9 * self.state.mu + 0.1 * gradient, 0.99 * self.state.nu + 0.01 * gradient ** 2
            self.before = numpy.array(mu)
            self.params, self.state = self.together.step(self.params - 0.05 * mu, 0.05, self.State(self.state.count + 1, mu, nu))

    def model(self):
        return numpy.array(self.params)

    def first(self):
        return numpy.array(self.state.mu)

    def close(self):
        self.together.close(self.params, self.state)


class Socket:
    """A program at the other end of the daemon's socket."""

    def __init__(self, folder, listen, peers):
        program = os.path.join(os.path.dirname(os.environ["P2PML_PROGRAM"]), "p2pml-node")
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, "socket")
        with open(os.path.join(folder, "log"), "ab") as log:
            self.process = subprocess.Popen([program, "--trainer", f"unix:{path}", "--resume", "--set", f"node.dir={folder}", "--set", "node.http=",
                                             "--set", f"node.listen=127.0.0.1:{listen}", *(["--peers", peers] if peers else []), "--set",
                                             f"average.local_steps={EVERY}"], stdout=log, stderr=log,
                                            env={k: v for k, v in os.environ.items() if not k.startswith("P2PML_")})
        until, self.trainer = time.monotonic() + patience(), None
        while self.trainer is None:
            try:
                self.trainer = trainer.Trainer(path, [("w", (20,))])
            except OSError:  # it does not listen yet
                if time.monotonic() > until or self.process.poll() is not None:
                    raise
                time.sleep(0.02)
        if not self.trainer.started:
            self.trainer.vectors[trainer.MODEL][:] = array.array("f", [7.0] * 20)
        self.momentum = array.array("f", bytes(80))
        self.adopt(self.trainer.start())

    def adopt(self, turn):
        self.momentum = trainer.tidy(self.momentum, turn[3])

    def train(self, bad=False):
        x, c, m = self.trainer.vectors[trainer.MODEL], self.trainer.vectors[trainer.CORRECTION], self.momentum
        for _ in range(EVERY):
            for i in range(20):
                m[i] = 0.9 * m[i] + x[i] - math.sin(i) if not (bad and i == 3) else math.nan
                x[i] -= 0.05 * (m[i] - c[i])
        self.before = numpy.array(m)
        self.adopt(self.trainer.round(EVERY, EVERY * 0.05))

    def model(self):
        return numpy.array(self.trainer.vectors[trainer.MODEL])

    def first(self):
        return numpy.array(self.momentum)

    def close(self):
        if self.process.poll() is None:
            self.trainer.send(trainer.LEAVE)
            self.trainer.socket.recv(131072)
            self.trainer.socket.close()
            self.process.wait(patience())


class Contract(Loop):
    """The table of docs/EMBEDDING.md, one column after the other, for every learner. unit.node_built_in has that of the built-in trainer."""

    def learner(self, make, name, listen, peers=None):
        if make is Socket:
            one = Socket(os.path.join(self.folder, name), listen, peers)
            self.addCleanup(one.process.wait)
            self.addCleanup(one.process.kill)
        else:
            one = make(self.join(name, listen=f"127.0.0.1:{listen}", node__http="", **({"peers": peers} if peers else {})))
        self.addCleanup(one.close)
        return one

    def go_on(self, one):
        """Trains in a thread until the returned function is called."""
        stop = threading.Event()

        def run():
            while not stop.is_set():
                one.train()
        thread = threading.Thread(target=run, daemon=True)
        thread.start()

        def end():
            stop.set()
            thread.join(patience())
        self.addCleanup(end)
        return end

    def check(self, make, restores=True):
        ports, name = free_ports(2), getattr(make, "__name__", "one")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            one = self.learner(make, name, ports[0])
            self.assertTrue((one.model() == 7).all() and not one.first().any(), "a fresh start changes nothing")
            for _ in range(4):
                one.train()
                self.assertTrue(one.first().any() and numpy.array_equal(one.first(), one.before), "an exchange leaves the first moment")
            good = one.model()
            one.train(bad=True)
            self.assertTrue(numpy.isnan(one.before).any(), "the batch was bad")
            self.assertTrue(numpy.array_equal(one.model(), good), "rolled back: the model of the last boundary")
            self.assertFalse(one.first().any(), "rolled back: what is not finite is zero")
            one.train()
            self.assertTrue(numpy.isfinite(one.model()).all() and not numpy.array_equal(one.model(), good), "and training goes on")
            if restores:
                model, first = one.model(), one.first()
                one.close()
                one = self.learner(make, name, ports[0])
                self.assertTrue(numpy.array_equal(one.model(), model), "restored: the model of the checkpoint")
                self.assertTrue(numpy.array_equal(one.first(), first) and first.any(), "restored: the first moment of the checkpoint")
            end = self.go_on(one)
            late = self.learner(make, name + "-late", ports[1], f"127.0.0.1:{ports[0]}")
            self.assertFalse((late.model() == 7).any(), "taken: the model of a member")
            self.assertFalse(late.first().any(), "taken: no first moment of steps on another model")
            late.train()
            end()
            one.close()
            late.close()

    def test_library(self):
        self.check(Library)

    def test_pytorch(self):
        self.check(Torch)

    def test_pytorch_adam(self):
        self.check(adam)

    @unittest.skipIf(importlib.util.find_spec("jax") is None, "no jax in this Python")
    def test_jax(self):
        self.check(Jax)

    @unittest.skipIf("P2PML_PROGRAM" not in os.environ, "P2PML_PROGRAM names no p2pml, beside which p2pml-node is")
    def test_socket(self):
        self.check(Socket, restores=False)  # its momentum is in the program, which outlives the daemon


class Late(Loop):
    """A cluster of one that trains in a thread, and a program that joins it."""

    def cluster(self, scheduled=True, **options):
        ports, stop, begun, ended = free_ports(2), threading.Event(), threading.Event(), {}
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(0.002, 1 - step / 100)) if scheduled else None
        node = self.join("first", listen=f"127.0.0.1:{ports[0]}", node__start_members=1, train__alone="go-on")

        def run():
            try:
                with p2pml.attach(node, model, optimizer, every=EVERY, scheduler=scheduler, **options) as together:
                    while not stop.is_set() and not together.done:
                        take(model, optimizer, *batch(together.step), scheduler)
                        if together.step == 300:
                            begun.set()
                    ended.update(step=together.step, rate=optimizer.param_groups[0]["lr"])
            except BaseException as error:
                ended["error"] = error
            begun.set()
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        self.addCleanup(thread.join, patience())
        self.addCleanup(stop.set)
        self.assertTrue(begun.wait(patience()))
        self.assertNotIn("error", ended)
        return self.join("late", listen=f"127.0.0.1:{ports[1]}", peers=f"127.0.0.1:{ports[0]}", node__start_members=0), stop, thread, ended

    def test_a_late_joiner_has_schedule_step_and_buffers(self):
        node, _, _, _ = self.cluster()
        model = net(1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(0.002, 1 - step / 100))
        take(model, optimizer, *batch(0), scheduler)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            together = p2pml.attach(node, model, optimizer, every=EVERY, scheduler=scheduler)
        self.assertFalse(any(bool(state["momentum_buffer"].any()) for state in optimizer.state.values()))  # of a step on another model
        self.assertFalse([str(w.message) for w in told])
        self.assertGreaterEqual(together.step, 300)
        self.assertEqual(scheduler.last_epoch, together.step)
        self.assertEqual(optimizer.param_groups[0]["lr"], 0.001)
        self.assertGreaterEqual(int(model[1].num_batches_tracked), 300 - EVERY)  # each step of the donor is one
        self.assertFalse(torch.equal(model[1].running_var, torch.ones(16)))
        for _ in range(3 * EVERY):
            take(model, optimizer, *batch(together.step), scheduler)
        self.assertGreaterEqual(scheduler.last_epoch, together.step - EVERY)  # and goes on with the cluster
        together.close()

    def test_a_member_in_the_middle_of_a_long_step_gives_its_model(self):
        for taken in (0, 3):
            ports = free_ports(2)
            model, other = net(), net(1)
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
            node = self.join(f"first{taken}", listen=f"127.0.0.1:{ports[0]}", node__start_members=1, train__alone="go-on")
            with p2pml.attach(node, model, optimizer) as first:
                for _ in range(taken):
                    take(model, optimizer, *batch(first.step))
                node = self.join(f"late{taken}", listen=f"127.0.0.1:{ports[1]}", peers=f"127.0.0.1:{ports[0]}", node__start_members=0)
                with p2pml.attach(node, other, torch.optim.AdamW(other.parameters(), lr=1e-3), timeout=patience()) as late:
                    self.assertEqual(late.step, taken)
                    for mine, its in zip(other.parameters(), model.parameters()):
                        self.assertTrue(torch.equal(mine, its))

    def test_programs_may_wait_for_each_other_before_their_first_steps(self):
        barrier = threading.Barrier(2)

        def program(i):
            model, optimizer = small()
            yield model, optimizer
            barrier.wait(patience())
            self.step(model, optimizer, 10)
            yield
        self.together([program] * 2, 1)

    def test_a_rate_far_from_the_cluster_s_is_told(self):
        node, _, _, _ = self.cluster()
        model = net(1)
        with self.assertWarnsRegex(RuntimeWarning, r"learning rate is 0\.5, that of the cluster it joins 0\.001: .*scheduler="):
            p2pml.attach(node, model, torch.optim.SGD(model.parameters(), lr=0.5), every=EVERY).close()

    def test_a_cluster_without_a_schedule_is_told(self):
        node, _, _, _ = self.cluster(scheduled=False)
        model = net(1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
        with self.assertWarnsRegex(RuntimeWarning, "came without a schedule"):
            together = p2pml.attach(node, model, optimizer, every=EVERY, scheduler=scheduler)
        self.assertEqual(scheduler.last_epoch, together.step)
        together.close()

    def test_steps_end_the_training_of_all(self):
        node, _, thread, ended = self.cluster(steps=2000)
        model = net(1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
        together = p2pml.attach(node, model, optimizer, every=EVERY, steps=2000,
                                scheduler=torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(0.002, 1 - step / 100)))
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            while not together.done:
                take(model, optimizer, *batch(together.step))
        self.assertFalse([str(w.message) for w in told if "alone" in str(w.message)])
        thread.join(patience())
        self.assertEqual(ended.get("step"), 2000, ended)
        together.close()


if __name__ == "__main__":
    unittest.main(verbosity=2)
