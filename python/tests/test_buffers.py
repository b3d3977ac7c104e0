"""Buffers of a model: each node's own, or averaged with the neighbours (attach(..., buffers="average"))."""

import unittest

import torch

import p2pml
from loops import Loop

STEPS = 60


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

    def test_another_word_is_refused(self):
        model, optimizer = net()
        with self.assertRaisesRegex(p2pml.ConfigurationError, "buffers: found 'mean', expected 'own' or 'average'"):
            p2pml.attach(self.join(), model, optimizer, buffers="mean")


if __name__ == "__main__":
    unittest.main(verbosity=2)
