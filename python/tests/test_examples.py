"""The examples, as processes. Needs numpy; those in PyTorch are skipped without it."""

import importlib.util
import os
import random
import re
import signal
import unittest

from processes import ROOT, Processes, free_ports

EXAMPLES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "examples")
needs_torch = unittest.skipUnless(importlib.util.find_spec("torch"), "no torch in this Python")


class Examples(Processes):
    def start(self, name, index, *arguments):
        return self.start_program(os.path.join(EXAMPLES, name), index, *arguments)

    def test_logistic_regression_in_numpy(self):
        ports = free_ports(2)
        both = [self.start("logistic.py", i, os.path.join(self.folder, str(i)), ports[i], ports[1 - i], i) for i in range(2)]
        for i, process in enumerate(both):
            self.assertGreater(self.result(process, i), 0.85)  # without a class: two thirds

    @needs_torch
    def test_a_cnn_on_four_nodes(self):
        ports = free_ports(4)
        nodes = [self.start("cnn.py", i, self.folder, i, 300, *ports) for i in range(4)]
        for i, process in enumerate(nodes):
            self.assertGreater(self.result(process, i), 0.8)  # its own digits: a quarter

    @needs_torch
    def test_a_gpt_of_which_one_trainer_is_killed(self):
        text = os.path.join(self.folder, "text")
        rng = random.Random(1)
        with open(text, "w", encoding="utf-8") as f:
            f.write(" ".join(rng.choice(["the", "cat", "sat", "on", "a", "mat", "and", "ran"]) for _ in range(10000)))
        ports = free_ports(4)
        nodes = [self.start("gpt.py", i, self.folder, i, 10 ** 9 if i else 400, text, *ports) for i in range(4)]
        self.wait_for(3, "step 50")
        nodes[3].send_signal(signal.SIGKILL)
        nodes[3].wait()
        back = self.start("gpt.py", 3, self.folder, 3, 600, text, *ports)
        for i, process in ((0, nodes[0]), (3, back)):
            self.assertLess(self.result(process, i, "loss"), 1.6)  # a guess: 2.7 nats
        for i in (1, 2):
            self.assertIsNone(nodes[i].poll(), self.read(i)[-2000:])

    @needs_torch
    def test_lora_on_two_nodes(self):
        ports = free_ports(2)
        both = [self.start("lora.py", i, self.folder, i, 600, "AB", *ports) for i in range(2)]
        for i, process in enumerate(both):
            self.assertGreater(self.result(process, i), 0.75)  # the tokens of one process: half

    @unittest.skipUnless(all(map(importlib.util.find_spec, ("torch", "transformers", "peft"))), "no peft in this Python")
    def test_peft_on_three_hosts_ends_with_one_adapter(self):
        ports = free_ports(3)
        hosts = [self.start("lora_peft.py", i, self.folder, i, 400, *ports) for i in range(3)]
        for i, process in enumerate(hosts):
            self.assertGreater(self.result(process, i), 0.45)  # of the adapter as peft opens it; the classes of one host: a third
        adapters = set()
        for i in range(3):
            with open(os.path.join(self.folder, str(i), "adapter", "adapter_model.safetensors"), "rb") as f:
                adapters.add(f.read())
        self.assertEqual(len(adapters), 1)

    def test_the_recipe_for_peft_has_the_lines_of_the_example(self):
        with open(os.path.join(ROOT, "docs", "recipes.md"), encoding="utf-8") as f:
            recipe = re.search(r"## Fine-tune with LoRA.*?```python\n(.*?)```", f.read(), re.S).group(1).splitlines()
        with open(os.path.join(EXAMPLES, "lora_peft.py"), encoding="utf-8") as f:
            example = f.read().splitlines()
        others = [line for line in recipe if line not in example]
        self.assertEqual([re.sub(r"\(.*", "", line.strip()) for line in others],
                         ["node = p2pml.join", "together = p2pml.attach", "x, y = next", "model.save_pretrained"])

    @needs_torch
    def test_three_lines_are_the_user_s(self):
        for name in ("cnn.py", "gpt.py", "lora.py", "lora_peft.py"):
            with open(os.path.join(EXAMPLES, name), encoding="utf-8") as f:
                used = [line for line in f if re.match(r"import p2pml$|node = p2pml\.join|together = p2pml\.attach", line)]
            self.assertEqual(len(used), 3, name)


if __name__ == "__main__":
    unittest.main(verbosity=2)
