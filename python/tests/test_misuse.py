"""Invalid arguments: each raises an error that explains it, and a node that has started continues."""

import math
import unittest

import torch

import p2pml
from loops import Loop, small
from processes import free_ports


def frozen():
    model, _ = small()
    return model, torch.optim.SGD(model.requires_grad_(False).parameters(), lr=0.1)


def complex_numbers():
    model = torch.nn.Linear(2, 2, dtype=torch.complex64)
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


class Misuse(Loop):
    def test_shapes_and_names_that_the_library_would_see_differently(self):
        for i, tensors in enumerate(([("w", (2 ** 64 + 4,))], [("w", (-1,))], [("w", (1.5,))], [("w", ("3",))], [("w", 3)], [("w",)], "ab",
                                     [("a\0b", (1,))], [("\ud800", (1,))], [(3, (1,))], [(b"w", (1,))])):
            with self.subTest(tensors), self.assertRaisesRegex(p2pml.ConfigurationError, "tensor .*expected"):
                self.join(str(i)).open(tensors)

    def test_settings_that_the_library_would_see_differently(self):
        for i, name in enumerate(("x\0y", "\ud800")):
            with self.subTest(name), self.assertRaisesRegex(p2pml.ConfigurationError, "node.name: found"):
                self.join(str(i), node__name=name).open([("w", (3,))])

    def test_steps_that_nobody_takes(self):
        node = self.join().open([("w", (3,))])
        node.model = 1.0
        node.start()
        for steps in (-1, 2 ** 63, 2 ** 64, 2 ** 64 + 5):
            with self.subTest(steps), self.assertRaisesRegex(p2pml.ConfigurationError, "steps: found"):
                node.exchange(steps, 0.1)
            self.assertFalse(node.lent)
        for arguments in ((1.5, 0.1), ("1", 0.1), (1, None), (1, 0.1, None)):
            with self.subTest(arguments), self.assertRaises(TypeError):
                node.exchange(*arguments)
            self.assertFalse(node.lent)
        self.assertEqual(node.exchange(5, 0.1).steps_done, 5)

    def test_no_examples(self):
        model, optimizer = small()
        for i, examples in enumerate((0, -1, 1.5)):
            with self.subTest(examples), self.assertRaisesRegex(p2pml.ConfigurationError, "examples: found"):
                p2pml.attach(self.join(str(i)), model, optimizer, examples=examples)

    def test_steps_beyond_the_end_end_it(self):
        node = self.join(train__steps=20).open([("w", (3,))], average__local_steps=5)
        node.start()
        with self.assertRaises(p2pml.Ended):
            node.exchange(25, 0.1)

    def test_waiting_for_ever_and_for_no_number(self):
        node = self.join(peers=f"127.0.0.1:{free_ports(1)[0]}", node__start_timeout="1s")
        p2pml.attach(node, *small(), timeout=math.inf)
        with self.assertRaisesRegex(p2pml.ConfigurationError, "timeout: found nan"):
            p2pml.attach(self.join("other"), *small(), timeout=math.nan)

    def test_calls_that_a_first_user_makes(self):
        def attach(**arguments):
            return lambda name: p2pml.attach(self.join(name), *small(), **arguments)

        def join(**settings):
            return lambda name: p2pml.attach(self.join(name, **settings), *small())
        other = torch.optim.lr_scheduler.LinearLR(small()[1])
        calls = {
            "every: found 1.5, expected a whole number": attach(every=1.5),
            "every: found '5', expected a whole number": attach(every="5"),
            "average.local_steps: found \"0\", expected a whole number from 1": attach(every=0),
            "steps: found 'x', expected a whole number": attach(steps="x"),
            "train.steps: found \"-1\", expected a whole number from 0": attach(steps=-1),
            "scheduler: found int, expected one of torch.optim.lr_scheduler's kind": attach(scheduler=3),
            "scheduler: it sets the rates of another optimiser": attach(scheduler=other),
            "state: expected what state_dict() of an attachment returned": attach(state=small()[0].state_dict()),
            "timeout: found '1', expected seconds, or None": attach(timeout="1"),
            "peers: found 7400, expected 'host:port'": join(peers=7400),
            "peers: found [7400], expected 'host:port'": join(peers=[7400]),
            "peers: found \"a.example\", expected host:port": join(peers="a.example"),
            "node.listen: found \"nowhere:xx\", expected a port": join(listen="nowhere:xx"),
            "which other hosts can reach, with neither cluster.secret_file": join(listen="0.0.0.0:0"),
            "average.mode: found \"fast\", expected one of sync, async, bounded": join(average__mode="fast"),
            "train.rate: found \"1e+39\", expected a number from 0": join(train__rate=1e39),
            "average.ratio: found \"1e-60\", expected a number from": join(average__ratio=1e-60),
            "the model is NoneType, expected a torch.nn.Module": lambda name: p2pml.attach(self.join(name), None, small()[1]),
            "the optimiser is Sequential, expected one of torch.optim's kind": lambda name: p2pml.attach(self.join(name), small()[0], small()[0]),
            "the optimiser has no parameter that is trained": lambda name: p2pml.attach(self.join(name), *frozen()),
            "'weight' is torch.complex64, expected a floating-point type": lambda name: p2pml.attach(self.join(name), *complex_numbers()),
            "the first argument is str, expected what p2pml.join returns": lambda _: p2pml.attach("host:port", *small()),
        }
        self.assertGreaterEqual(len(calls), 20)
        for i, (words, call) in enumerate(calls.items()):
            with self.subTest(words), self.assertRaises((p2pml.ConfigurationError, TypeError)) as raised:
                call(str(i))
            self.assertIn(words, str(raised.exception))

    def test_numbers_that_are_reported(self):
        attachment = self.attach(*small())
        for arguments, words in (({"loss": "x"}, "loss: found 'x', expected a number"), ({"loss": torch.ones(3)}, "loss: found tensor"),
                                 ({"accuracy": "97%"}, "accuracy: found '97%', expected a number"), ({"note": "x"}, "note: found 'x'"),
                                 ({"accuracy": -1}, "p2pml_accuracy: found -1, expected 0 to 1")):
            with self.subTest(words), self.assertRaises(p2pml.ConfigurationError) as raised:
                attachment.report(**arguments)
            self.assertIn(words, str(raised.exception))
        attachment.report(loss=1e39)
        attachment.exchange()  # a loss is a double everywhere

    def test_optimisers_and_models_that_cannot_be_attached(self):
        model, optimizer = small()
        del optimizer.param_groups[0]["lr"]
        with self.assertRaisesRegex(p2pml.ConfigurationError, "group 0 of the optimiser has no learning rate 'lr'"):
            p2pml.attach(self.join("no rate"), model, optimizer)
        model, _ = small()
        model = model.to("meta")
        with self.assertRaisesRegex(p2pml.ConfigurationError, "'0.weight' is on the device 'meta'"):
            p2pml.attach(self.join("meta"), model, torch.optim.SGD(model.parameters(), lr=0.1))
        model, optimizer = small()
        attachment = self.attach(model, optimizer, every=100)
        optimizer.param_groups[0]["lr"] = 1e39
        optimizer.zero_grad(set_to_none=False)
        with self.assertRaisesRegex(p2pml.ConfigurationError, r"rate is 1e\+39, expected a number that fp32 can hold"):
            attachment._after_step()
        optimizer.param_groups[0]["lr"] = 0.1
        with self.assertRaisesRegex(p2pml.ConfigurationError, r"step_scale is 1e\+39"):
            attachment.node.begin(1, 1e39)
        self.step(model, optimizer)
        with self.assertRaisesRegex(p2pml.ConfigurationError, "p2pml_accuracy: found 97, expected 0 to 1"):
            attachment.report(accuracy=97)

    def test_an_optimiser_without_groups(self):
        model, optimizer = small()
        self.attach(model, optimizer, every=2)
        groups = list(optimizer.param_groups)
        optimizer.param_groups.clear()
        with self.assertRaisesRegex(p2pml.MismatchError, "no groups"):
            optimizer.step()
        optimizer.param_groups.extend(groups)
        self.step(model, optimizer, 3)
        self.assertTrue(all(bool(torch.isfinite(p).all()) for p in model.parameters()))


if __name__ == "__main__":
    unittest.main(verbosity=2)
