"""With no key of the user's, nodes with classes of their own learn what one process with all data learns."""

import threading
import types
import unittest

import torch

import p2pml
from loops import Loop, small
from p2pml import _defaults
from processes import free_ports, patience
from uneven import Lesson, cnn


def shapes(count, generator):
    """One blurred shape per class, shifted and noisy."""
    drawn = torch.nn.functional.interpolate(torch.rand(10, 1, 5, 5, generator=torch.Generator().manual_seed(7)), size=(16, 16))
    labels = torch.randint(10, (count,), generator=generator)
    moves = torch.randint(-1, 2, (count, 2), generator=generator).tolist()
    images = torch.stack([torch.roll(drawn[y], tuple(move), (1, 2)) for y, move in zip(labels, moves)])
    return images + 0.3 * torch.randn(images.shape, generator=generator), labels


class Uneven(unittest.TestCase):
    def test_small_models_learn_all_classes(self):
        torch.set_num_threads(1)
        lesson = Lesson(*shapes(3000, torch.Generator().manual_seed(1)), 1000, 300, {"log__level": "error"})
        for optimiser in ("sgd", "adamw"):
            for seed in range(2):
                central = lesson.central(cnn, optimiser, seed)
                nodes = lesson.together(cnn, optimiser, seed)
                found = [accuracy for accuracy, *_ in nodes]
                print(f"{optimiser}: nodes {found}, one process {central}", flush=True)
                self.assertGreater(min(found), central - 5, (optimiser, seed, found))
                self.assertFalse(any(says for *_, says in nodes))

    def test_nodes_that_exchange_too_little_are_told_so(self):
        torch.set_num_threads(1)
        lesson = Lesson(*shapes(3000, torch.Generator().manual_seed(1)), 1000, 400, {"log__level": "error", "average__ratio": 1 / 400},
                        {"every": 2})
        nodes = lesson.together(cnn, "adamw", 0)
        self.assertLess(min(accuracy for accuracy, *_ in nodes), 80)
        self.assertTrue(any(says for *_, says in nodes), nodes)


class Rules(Loop):
    def test_a_large_model_exchanges_more_rarely(self):
        self.assertEqual([_defaults.steps_between(d) for d in (1, 2698, 1 << 21, (1 << 21) + 1, 11 * 10 ** 6, 10 ** 9)], [1, 1, 1, 2, 6, 30])

    def test_moments_of_small_models_travel_often(self):
        self.assertEqual([_defaults.rounds_of_moments(d, every) for d, every in ((2698, 1), (2698, 30), (1 << 15, 1), (1 << 19, 2), (1 << 20, 1))],
                         [2, 2, 4, 2, 20])

    def test_what_the_program_says_counts_and_a_file_decides(self):
        def chosen(every, file=False, shares=True):
            found = _defaults.settings(types.SimpleNamespace(has_file=file), 1000, every, shares, 0)
            return found.get("average__local_steps"), found.get("average__share_second_moment")
        self.assertEqual([chosen(None), chosen(5), chosen(None, shares=False), chosen(None, file=True), chosen(5, file=True)],
                         [(1, 2), (5, 2), (1, None), (None, None), (5, 2)])

    def test_the_number_in_use_is_told(self):
        model, optimizer = small()  # 32 parameters
        with p2pml.attach(self.join(), model, optimizer) as together:
            self.step(model, optimizer, 3)
            self.assertEqual(together.step, 3)
            self.assertEqual(together.node.status()["ratio"], 1 / 8)

    def test_auto_and_the_same_number_train_together(self):
        ports, ratios, found = free_ports(2), ("auto", "1/8"), {}

        def run(i):
            model, optimizer = small()
            node = self.join(str(i), peers=f"127.0.0.1:{ports[1 - i]}", listen=f"127.0.0.1:{ports[i]}", average__ratio=ratios[i],
                             average__mode="sync", node__start_timeout="300s")
            with p2pml.attach(node, model, optimizer, steps=200) as together:
                while not together.done:
                    self.step(model, optimizer)
                    if not found.get(i, {}).get("exchanges"):
                        found[i] = node.status()
        threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(patience())
        self.assertEqual([found[i]["ratio"] for i in range(2)], [1 / 8] * 2)
        self.assertTrue(all(found[i]["exchanges"] for i in range(2)))


if __name__ == "__main__":
    unittest.main(verbosity=2)
