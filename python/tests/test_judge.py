"""Programs that judge the models of others before they take them."""

import importlib.util
import unittest

import numpy
import torch

import p2pml
from loops import Loop
from p2pml import _judge
from processes import free_ports, patience


class Pair(Loop):
    def pair(self, name=""):
        """A donor, and a node that joins it late."""
        port = free_ports(1)[0]
        return self.join("donor" + name, listen=f"127.0.0.1:{port}"), self.join("late" + name, peers=f"127.0.0.1:{port}")


class Judges(Pair):
    def beside(self, value):
        """A late node beside a member that trains, and whose model is ``value`` everywhere."""
        donor, node = self.pair(str(value))
        donor.open([("w", (8,))], average__local_steps=1)
        donor.model[:] = value
        donor.start(timeout=patience())
        return donor, node

    def begin_beside(self, donor, node, refused=lambda: False):
        """None: the donor's model was refused."""
        started = None
        while started is None and not refused():
            donor.exchange(1, 0.0)
            try:
                started = node.start(timeout=0.05)
            except TimeoutError:
                pass
        return started

    def test_a_late_joiner_takes_a_model_that_serves_its_examples_and_no_wild_one(self):
        for value, taken in ((0.5, True), (50.0, False)):
            with self.subTest(value):
                asked = []

                def judge(model):
                    self.assertRaises(ValueError, model.__setitem__, 0, 1.0)  # it is the node's
                    asked.append(model.copy())
                    return (model - 1.0) ** 2
                donor, node = self.beside(value)
                with donor, node:
                    node.open([("w", (8,))], judge=judge, average__local_steps=1)
                    begun = self.begin_beside(donor, node, lambda: not taken and len(asked) == 3)
                    self.assertEqual([model[0] for model in asked], [0.0, 0.0, numpy.float32(value)])
                    self.assertEqual(begun is not None and begun.another == p2pml.node.TAKEN, taken)
                    self.assertEqual(bool(node.model[0] != 0), taken)

    def test_what_it_raises_is_raised_by_the_call_that_asked(self):
        def broken(model):
            raise ZeroDivisionError("of the program")
        donor, node = self.beside(0.5)
        with donor, node:
            node.open([("w", (8,))], judge=broken, average__local_steps=1)
            with self.assertRaises(ZeroDivisionError):
                while True:
                    donor.exchange(1, 0.0)
                    try:
                        node.start(timeout=0.05)
                        self.fail("it began without the function")
                    except TimeoutError:
                        pass
            self.assertEqual(self.begin_beside(donor, node).another, p2pml.node.TAKEN)  # as it came

    def test_losses_are_numbers(self):
        self.assertEqual(_judge.losses_of(torch.tensor([[1.0, 2.0]], dtype=torch.bfloat16)), [1.0, 2.0])
        self.assertEqual(_judge.losses_of(numpy.float32(0.5)), [0.5])
        self.assertEqual(_judge.losses_of([]), [])
        for wrong in (None, "low", [0.5, None]):
            with self.assertRaisesRegex(p2pml.ConfigurationError, "judge: found"):
                _judge.losses_of(wrong)
        with self.assertRaisesRegex(p2pml.ConfigurationError, "judge: found 3"):
            self.join("wrong").open([("w", (8,))], judge=3)


class Modules(Pair):
    def net(self, bias, kind=torch.float32):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3), torch.nn.Dropout(0.9), torch.nn.Linear(3, 1))
        with torch.no_grad():
            model[3].bias.fill_(bias)
        return model.to(kind)

    def attach_beside(self, kind):
        x, asked = torch.randn(16, 4).to(kind), []
        first, late = self.pair()
        donor = p2pml.attach(first, *self.with_sgd(self.net(0.5)))
        self.addCleanup(donor.close)
        donor.exchange()  # its turn now: it gives its model
        model = self.net(0.25, kind)
        model[0].eval()  # the program's own choice
        before = {key: value.clone() for key, value in model.named_buffers()}

        def judge(it):
            self.assertIs(it, model)
            self.assertFalse(torch.is_grad_enabled() or it[2].training)
            it(x)
            asked.append(float(it[3].bias.detach()))
            return (it(x) - it[3].bias).abs().mean() + 1
        together = p2pml.attach(late, *self.with_sgd(model), judge=judge, timeout=patience())
        self.addCleanup(together.close)
        self.assertEqual(asked[:3], [0.25, 0.25, 0.5])
        self.assertEqual([part.training for part in model], [False, True, True, True])
        for key, value in model.named_buffers():
            self.assertTrue(torch.equal(value, before[key]) or key.endswith("tracked") or kind != torch.float32, key)
        return model

    def with_sgd(self, model):
        return model, torch.optim.SGD(model.parameters(), lr=0.0)

    def test_a_module_has_the_parameters_in_question_and_its_own_modes_and_buffers(self):
        self.attach_beside(torch.float32)

    def test_low_precision(self):
        self.attach_beside(torch.bfloat16)

    def test_a_mistake_is_told_at_once(self):
        with self.assertRaisesRegex(p2pml.ConfigurationError, "judge: found 3, expected a function"):
            p2pml.attach(self.join("wrong"), *self.with_sgd(self.net(0)), judge=3)

    @unittest.skipIf(importlib.util.find_spec("jax") is None, "no jax in this Python")
    def test_jax(self):
        import jax.numpy as jnp
        asked = []

        def judge(params):
            asked.append(float(params["w"][0, 0]))
            return jnp.abs(params["w"] - 1).ravel()
        first, late = self.pair()
        donor, params = p2pml.jax.attach(first, {"w": jnp.full((2, 4), 0.5)})
        params = donor.step(params, 0.0)
        together, _ = p2pml.jax.attach(late, {"w": jnp.zeros((2, 4))}, judge=judge, timeout=patience())
        self.assertEqual(asked[:3], [0.0, 0.0, 0.5])
        together.close()
        donor.close()


if __name__ == "__main__":
    unittest.main()
