"""Buffers of a model: each node's own, or averaged with the neighbours (attach(..., buffers="average"))."""

import os
import threading
import unittest

import torch

import p2pml
from loops import Loop
from processes import patience

STEPS = 60
ROUNDS = 6  # in which a node holds something back


def net():
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))
    return model, torch.optim.AdamW(model.parameters(), lr=1e-3)


def inputs(i, step):
    """Of node i: another mean than the other's; one column varies by 10, one by 0.01."""
    drawn = torch.randn(16, 4, generator=torch.Generator().manual_seed(1000 * i + step))
    return drawn * torch.tensor([10.0, 1.0, 1.0, 0.01]) + (3.0 if i else -3.0)


class Buffers(Loop):
    def take(self, model, optimizer, i, step):
        optimizer.zero_grad()
        loss = model(inputs(i, step)).pow(2).sum()
        loss.backward()
        optimizer.step()
        return loss

    def two(self, **more):
        least = []

        def program(i):
            model, optimizer = net()
            yield model, optimizer
            while not optimizer._p2pml.done:
                self.assertTrue(bool(torch.isfinite(self.take(model, optimizer, i, optimizer._p2pml.step))))
                least.append(float(model[0].running_var.min()))
                yield
            optimizer._p2pml.close()
            models[i] = model
        models = {}
        self.together([program] * 2, 1, {"average__ratio": 1, "node__start_members": 2}, steps=STEPS, **more)
        return models[0][0], models[1][0], min(least)

    def test_averaged_statistics_end_the_same_on_all_nodes(self):
        one, other, least = self.two(buffers="average")
        self.assertTrue(torch.equal(one.weight, other.weight))
        self.assertTrue(torch.equal(one.running_mean, other.running_mean), (one.running_mean, other.running_mean))
        self.assertTrue(torch.equal(one.running_var, other.running_var))
        self.assertLess(float(one.running_mean[1:].abs().max()), 2.5)  # between the two means
        self.assertGreater(least, 0.0)

    def test_own_statistics_stay_own(self):
        one, other, _ = self.two()
        self.assertTrue(torch.equal(one.weight, other.weight))
        self.assertGreater(float((other.running_mean - one.running_mean)[1:].min()), 5.0)

    def test_averaged_statistics_come_back_with_the_state(self):
        model, optimizer = net()
        attachment = self.attach(model, optimizer, "before", buffers="average")
        for step in range(10):
            self.take(model, optimizer, 0, step)
        saved = attachment.state_dict()
        mean, variance = model[0].running_mean.clone(), model[0].running_var.clone()
        attachment.close()
        self.assertTrue(torch.equal(model[0].running_mean, mean))
        model, optimizer = net()
        self.attach(model, optimizer, "after", buffers="average", state=saved)
        self.assertTrue(torch.equal(model[0].running_mean, mean) and torch.equal(model[0].running_var, variance))
        model, optimizer = net()
        with self.assertRaisesRegex(p2pml.MismatchError, "the state is of another model: 6 and 4 tensors"):
            self.attach(model, optimizer, "own", state=saved)

    def held(self, detaches):
        """The states of two nodes with average.hold before they part, and the parameters that they then have."""
        before, after, lacked, both = {}, {}, [0, 0], threading.Barrier(2, timeout=patience())

        def program(i):
            model, optimizer = net()
            model.add_module("low", torch.nn.Linear(2, 2).to(torch.bfloat16))
            optimizer.add_param_group({"params": list(model.low.parameters())})
            yield model, optimizer
            attachment = optimizer._p2pml
            both.wait()  # both have begun
            for _ in range(20 * ROUNDS):  # a node that catches up holds nothing back
                optimizer.zero_grad()
                model.low(model[1](model[0](inputs(i, attachment.step))).to(torch.bfloat16)).float().pow(2).sum().backward()
                optimizer.step()
                whole = attachment.model_state()
                lacked[i] += any(not torch.equal(whole[name], p) for name, p in model.named_parameters())
                self.assertTrue(all(torch.equal(whole[name], b) for name, b in model.named_buffers()))
                self.assertTrue(all(torch.equal(whole[name], value) for name, value in attachment.detached_state().items()))
                vector = torch.from_numpy(attachment.node.model + attachment.node.held)
                self.assertTrue(torch.equal(whole["0.running_mean"], vector[-8:-4]))  # before the four of running_var
                yield
                if min(lacked) >= ROUNDS:
                    break
            both.wait()  # neither is in an exchange
            before[i] = attachment.model_state()
            both.wait()  # neither has left
            attachment.detach() if detaches else attachment.close()
            after[i] = {name: value.clone() for name, value in model.state_dict().items()}
        self.folder = os.path.join(self.folder, str(detaches))
        self.together([program] * 2, 1, {"average__ratio": "1/16", "average__hold": 0.5, "average__mode": "sync", "node__start_members": 2},
                      buffers="average")
        self.assertGreaterEqual(min(lacked), ROUNDS)
        return before, after

    def test_what_is_held_back_is_in_the_model_s_state(self):
        for detaches in (False, True):
            before, after = self.held(detaches)
            for i in range(2):
                changed, count = 0, 0
                for name, value in before[i].items():
                    rounding = 1e-5 if value.dtype == torch.float32 else 0.02
                    same = torch.isclose(value.float(), after[i][name].float(), rtol=rounding, atol=1e-6)
                    changed, count = changed + int((~same).sum()), count + value.numel()
                # an answer that was late may come while the node leaves: it changes an eighth of the elements
                self.assertLessEqual(changed, 0 if detaches else count // 3, (detaches, before[i], after[i]))

    def test_another_word_is_refused(self):
        model, optimizer = net()
        with self.assertRaisesRegex(p2pml.ConfigurationError, "buffers: found 'mean', expected 'own' or 'average'"):
            p2pml.attach(self.join(), model, optimizer, buffers="mean")


if __name__ == "__main__":
    unittest.main(verbosity=2)
