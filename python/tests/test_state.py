"""What happens to a learner's state (docs/EMBEDDING.md): the same table for every learner, and each optimiser of torch."""

import math
import threading
import unittest
import warnings

import torch

import p2pml
from loops import Loop
from processes import free_ports, patience

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
EVERY = 5
TRUTH = torch.randn(20, generator=torch.Generator().manual_seed(5))


def net(seed=0):
    torch.manual_seed(seed)
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
        model = net(seed)
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

    def test_one_bad_batch_costs_one_round(self):
        for name in OPTIMISERS:
            with self.subTest(name), warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                model = net()
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


class Late(Loop):
    """A cluster of one that trains in a thread, and a program that joins it."""

    def cluster(self, scheduled=True, **options):
        ports, stop, ended = free_ports(2), threading.Event(), {}
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(0.002, 1 - step / 100)) if scheduled else None
        node = self.join("first", listen=f"127.0.0.1:{ports[0]}", node__start_members=1, train__alone="go-on")
        begun = threading.Event()

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
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            together = p2pml.attach(node, model, optimizer, every=EVERY, scheduler=scheduler)
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
