"""Models of text: trained in the simulator, used with eval and generate, passed to Hugging Face's transformers and back.

transformers and torch are used if some Python has them: this one, /usr/bin/python3 or P2PML_TEST_PYTHON.
"""

import os
import random
import subprocess
import tempfile
import unittest

from cluster import python_with
from test_model import p2pml

QUICK = """
experiment: {nodes: 2, baselines: []}
model: {kind: gpt2, layers: 2, width: 32, heads: 4, context: 16}
data: {kind: text, text: characters, train_file: TEXT, test_part: 0.1, partition: contiguous}
train: {optimizer: adamw, rate: 0.01, steps: 60, batch: 8, eval_rounds: 0}
average: {mode: sync, share_second_moment: 0}
checkpoint: {every: 0}
"""

LOGITS = """
import sys, torch
from safetensors.torch import load_file, save_file
from transformers import GPT2Config, GPT2LMHeadModel
path, out = sys.argv[1:]
torch.manual_seed(3)
given = load_file(path)
words, width = given["wte.weight"].shape
config = GPT2Config(vocab_size=words, n_positions=given["wpe.weight"].shape[0], n_embd=width, n_layer=2, n_head=4,
                    bos_token_id=0, eos_token_id=0)
model = GPT2LMHeadModel(config).eval()
missing, unexpected = model.transformer.load_state_dict(given, strict=False)
assert not unexpected and all(".attn." in name for name in missing), (missing, unexpected)
ids = torch.tensor([[1, 5, 3, 2, 7, 0, 4, 6, 1, 1, 2]])
text = ids[0].tolist()
with torch.no_grad():
    for _ in range(20):
        text.append(int(model(torch.tensor([text[-16:]])).logits[0, -1].argmax()))
    logits = model(ids).logits[0, -1]
print(*text)
print(*logits.tolist())
save_file({"transformer." + k: v.contiguous().clone() for k, v in model.transformer.state_dict().items()}, out)
"""


class Text(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        path, cls.run_dir = os.path.join(cls.folder.name, "text.txt"), os.path.join(cls.folder.name, "run")
        draw = random.Random(5)
        with open(path, "w", encoding="utf-8") as f:
            f.write("".join(draw.choice(["die Katze ", "der Hund ", "schläft.\n"]) for _ in range(700)))
        cls.text = path
        experiment = os.path.join(cls.folder.name, "text.yaml")
        with open(experiment, "w") as f:
            f.write(QUICK.replace("TEXT", path))
        p2pml("sim", experiment, "--out", cls.run_dir)
        cls.experiment = experiment
        cls.data = ["--set", "data.kind=text", "--set", "data.text=characters", "--set", f"data.train_file={path}",
                    "--set", "data.test_part=0.1"]

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def characters(self):
        with open(self.text, encoding="utf-8") as f:
            return sorted(set(f.read()))

    def test_a_text_is_learned_and_its_perplexity_reported(self):
        said = dict(line.split() for line in p2pml("eval", self.run_dir, *self.data).splitlines())
        self.assertLess(float(said["perplexity"]), 12)  # of 21 characters
        self.assertAlmostEqual(float(said["perplexity"]), 2.718281828 ** float(said["loss"]), delta=0.01)
        refused = p2pml("eval", self.run_dir, *self.data, "--set", "data.text=bytes", status=1)
        self.assertIn("expected", refused)

    def test_one_seed_generates_one_text(self):
        options = ["generate", self.run_dir, "--prompt", "der Hund sch", "--tokens", "40"]
        first, other = p2pml(*options), p2pml(*options, "--seed", "2")
        self.assertTrue(first.startswith("der Hund sch"))
        self.assertEqual(len(first), 12 + 40 + 1)
        self.assertEqual(first, p2pml(*options))
        self.assertNotEqual(first, other)
        self.assertEqual(p2pml(*options, "--temperature", "0"), p2pml(*options, "--top-k", "1", "--seed", "9"))
        self.assertIn("U+0078, which the vocabulary lacks", p2pml("generate", self.run_dir, "--prompt", "x", status=1))
        self.assertIn("--top-k: found '-1'", p2pml("generate", self.run_dir, "--top-k", "-1", status=2))
        self.assertIn("see p2pml generate", p2pml("predict", self.run_dir, status=1, input=""))

    def test_transformers_continues_texts_like_p2pml(self):
        python = python_with("torch", "transformers", "safetensors")
        if not python:
            self.skipTest("no Python has torch, transformers and safetensors; P2PML_TEST_PYTHON names one that has")
        out = os.path.join(self.folder.name, "back.safetensors")
        ran = subprocess.run([python, "-c", LOGITS, os.path.join(self.run_dir, "averaged.safetensors"), out],
                             capture_output=True, text=True, timeout=300)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        logits = [float(number) for number in ran.stdout.splitlines()[1].split()]
        characters = self.characters()
        prompt = "".join(characters[i] for i in (1, 5, 3, 2, 7, 0, 4, 6, 1, 1, 2))
        options = ["generate", self.run_dir, "--prompt", prompt]
        ours = [float(line.split(",")[1]) for line in p2pml(*options, "--scores").splitlines()]
        self.assertEqual(len(ours), len(logits))
        self.assertLess(max(abs(a - b) for a, b in zip(ours, logits)), 1e-4)
        text = "".join(characters[int(i)] for i in ran.stdout.splitlines()[0].split())
        self.assertEqual(p2pml(*options, "--tokens", "20", "--temperature", "0"), text + "\n")
        # The file of transformers does not contain the number of heads, and 32 is not a multiple of 64.
        self.assertIn("how many heads", p2pml("generate", out, "--prompt", "1", status=1))
        # With model.heads a node continues from the file of transformers.
        run = os.path.join(self.folder.name, "again")
        p2pml("sim", self.experiment, "--out", run, "--set", f"model.init={out}", "--set", "train.steps=4",
              "--set", "train.rate=0")
        self.assertEqual(p2pml("generate", run, "--prompt", prompt, "--scores"), p2pml(*options, "--scores"))
        refused = p2pml("sim", self.experiment, "--out", run + "2", "--set", f"model.init={out}",
                        "--set", "model.context=8", status=1)
        self.assertIn("'transformer.wpe.weight' is F32 [16, 32], expected F32 [8, 32]", refused)


if __name__ == "__main__":
    unittest.main()
