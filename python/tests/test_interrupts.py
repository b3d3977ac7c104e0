"""Ctrl-C at random moments of joining, training and leaving, and at every line of leaving. The seed is printed; P2PML_SEED repeats it."""

import os
import random
import signal
import sys
import time
import unittest
import unittest.mock

import torch

import p2pml
from loops import Loop, small
from processes import Processes, free_ports

HERE = os.path.dirname(os.path.abspath(__file__))
MOMENTS = 100


def interrupt(*_):
    raise KeyboardInterrupt


class AtRandom(Processes):
    def setUp(self):
        super().setUp()
        seed = int(os.environ.get("P2PML_SEED", random.SystemRandom().randrange(10 ** 6)))
        print(f"P2PML_SEED={seed}", flush=True)
        self.random = random.Random(seed)
        self.truth = torch.randn(20, 4, generator=torch.Generator().manual_seed(5))
        self.addCleanup(signal.signal, signal.SIGALRM, signal.signal(signal.SIGALRM, interrupt))
        self.addCleanup(torch.set_grad_enabled, True)

    def life(self, held, steps):
        """Joins, trains and leaves. ``held`` holds the objects that exist when it is interrupted."""
        model = torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        held["model"], held["optimizer"] = model, optimizer
        held["node"] = p2pml.join(f"127.0.0.1:{self.ports[0]}", listen=f"127.0.0.1:{self.ports[1]}", dir=os.path.join(self.folder, "mine"),
                                  log__level="error", node__start_timeout="300s")
        held["attachment"] = p2pml.attach(held["node"], model, optimizer, every=10)
        self.train(held, steps)
        held["leaves"] = True
        held["attachment"].close()

    def train(self, held, steps):
        for _ in range(steps):
            x = torch.randn(64, 20)
            y = (x @ self.truth).argmax(1)
            held["optimizer"].zero_grad()
            torch.nn.functional.cross_entropy(held["model"](x[y % 2 == 1]), y[y % 2 == 1]).backward()  # the classes that worker.py's process 0 lacks
            held["optimizer"].step()

    def interrupted(self, whole):
        held = {}
        try:
            signal.setitimer(signal.ITIMER_REAL, self.random.uniform(1e-4, whole))
            self.life(held, 40)
        except KeyboardInterrupt:
            return held
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            torch.set_grad_enabled(True)  # torch's own, where its no_grad was interrupted
        return None

    def goes_on(self, held):
        attachment = held.get("attachment")
        if attachment is not None and "leaves" not in held:
            held["optimizer"].state.clear()  # Ctrl-C within torch may have left half of a parameter's state
            self.train(held, 20)
            self.assertFalse(attachment.node.lent or attachment._exchanging)
            self.assertTrue(attachment._flat.lie_in_vector())
            attachment.close()
        elif attachment is not None:
            attachment.close()
        elif held.get("node") is not None:
            held["node"].close()
        self.assertTrue(all(bool(torch.isfinite(p).all()) for p in held["model"].parameters()) if "model" in held else True)

    def test_at_random_moments_of_a_node_s_life(self):
        self.ports = free_ports(2)
        other = self.start_program(os.path.join(HERE, "worker.py"), 0, self.folder, 0, 10 ** 9, 0, self.ports[0])
        self.wait_for(0, "begun at")
        whole, seen = 0.0, 0
        for i in range(MOMENTS):
            if i % 20 == 0:  # the machine may be faster or slower now
                began = time.monotonic()
                self.life({}, 40)
                whole = time.monotonic() - began
            held = self.interrupted(whole)
            if held is not None:
                seen += 1
                with self.subTest(i):
                    self.goes_on(held)
        print(f"{seen} interruptions in {MOMENTS} lives of {whole:.2f} s")
        self.assertGreater(seen, MOMENTS // 3)
        self.assertIsNone(other.poll(), self.read(0)[-2000:])
        last = {}
        self.life(last, 40)  # begins with the other's model
        self.assertLess(max(float(p.detach().abs().max()) for p in last["model"].parameters()), 50)  # 2 to 3 without Ctrl-C


class AtLines(Loop):
    def test_a_join_that_was_interrupted_leaves_nothing_behind(self):
        model, optimizer = small()
        before = [p.data_ptr() for p in model.parameters()]
        for name in "start", "open":
            node = self.join(peers=f"127.0.0.1:{free_ports(1)[0]}")
            with unittest.mock.patch.object(p2pml.Node, name, side_effect=KeyboardInterrupt):
                with self.assertRaises(KeyboardInterrupt):
                    p2pml.attach(node, model, optimizer, every=1)
            self.step(model, optimizer, 2)  # an ordinary loop
            self.assertFalse(optimizer._optimizer_step_post_hooks)
        with self.assertRaisesRegex(TimeoutError, "join again"):
            p2pml.attach(self.join(peers=f"127.0.0.1:{free_ports(1)[0]}"), model, optimizer, timeout=0.1)
        with p2pml.attach(self.join(), model, optimizer, every=1) as attachment:  # in the same directory
            self.step(model, optimizer, 2)
            self.assertNotEqual([p.data_ptr() for p in model.parameters()], before)
            self.assertEqual(attachment._steps, 0)

    def test_at_any_line_of_leaving(self):
        source, at, left = os.path.dirname(p2pml.__file__) + os.sep, 0, 0
        while left <= 0:  # one line further each time, until there is none left
            at += 1
            left = at
            model, optimizer = small()
            attachment = p2pml.attach(self.join(), model, optimizer, every=1)
            self.step(model, optimizer)
            values = [p.detach().clone() for p in model.parameters()]

            def trace(frame, event, _):
                nonlocal left
                left -= event == "line"
                if event == "line" and left == 0:
                    raise KeyboardInterrupt
                return trace
            sys.settrace(lambda frame, event, _: trace if frame.f_code.co_filename.startswith(source) else None)
            try:
                attachment.close()
            except KeyboardInterrupt:
                pass
            finally:
                sys.settrace(None)
            attachment.close()  # what the interruption left over
            self.assertTrue(attachment.closed and attachment.node._closed, at)
            self.assertTrue(all(map(torch.equal, model.parameters(), values)), at)
            self.assertFalse(optimizer._optimizer_step_post_hooks, at)
        self.assertGreater(at, 20)  # lines there are


if __name__ == "__main__":
    unittest.main(verbosity=2)
