"""A trained model in use: `p2pml eval`, `predict`, `export` and `model.init` with the files of a run.

torch, and onnx with onnxruntime, are used if some Python has them: this one, /usr/bin/python3 or P2PML_TEST_PYTHON.
"""

import csv
import io
import json
import math
import os
import random
import re
import shutil
import struct
import subprocess
import tempfile
import unittest

from cluster import PROGRAM, python_with

P2PML = os.path.join(os.path.dirname(PROGRAM), "p2pml")
SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
QUICK = """
experiment: {nodes: 3, baselines: []}
train: {steps: 80, batch: 16, eval_rounds: 0}
average: {mode: sync, deadline_floor: 10s}
node: {start_timeout: 60s}
checkpoint: {every: 0}
"""
DIGITS = QUICK + "model: {hidden: [24]}\ndata: {train_count: 600, test_count: 200}\n"
OF_DIGITS = ["--set", "data.train_count=600", "--set", "data.test_count=200"]


def environment(**more):
    return {**{k: v for k, v in os.environ.items() if not k.startswith("P2PML_")}, **more}


def p2pml(*arguments, status=0, **options):
    ran = subprocess.run([P2PML, *arguments], capture_output=True, text=True, timeout=300, env=environment(), **options)
    assert ran.returncode == status, f"{arguments}: {ran.returncode} {ran.stderr}"
    return ran.stderr if status else ran.stdout


def read_file(path):
    """(metadata, {name: (shape, values)}) of F32 safetensors, and the header alone."""
    with open(path, "rb") as f:
        data = f.read()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    tensors = {}
    for name, tensor in header.items():
        if name != "__metadata__" and tensor["dtype"] == "F32":
            begin, end = tensor["data_offsets"]
            values = struct.unpack(f"<{(end - begin) // 4}f", data[8 + length + begin:8 + length + end])
            tensors[name] = (tensor["shape"], values)
    return header.get("__metadata__", {}), tensors


def write_file(path, tensors, metadata=None):
    """tensors: {name: (shape, values)}; written as another program would."""
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        content = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    if metadata:
        header["__metadata__"] = metadata
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def logits_of(tensors, row):
    """The output of the nn.Sequential of these tensors for a row, in double precision."""
    layers = len(tensors) // 2
    for layer in range(layers):
        (outputs, inputs), weight = tensors[f"{2 * layer}.weight"]
        bias = tensors[f"{2 * layer}.bias"][1]
        row = [math.fsum(x * w for x, w in zip(row, weight[o * inputs:(o + 1) * inputs])) + bias[o] for o in range(outputs)]
        row = [max(x, 0.0) for x in row] if layer + 1 < layers else row
    return row


def softmax(logits):
    powers = [math.exp(x - max(logits)) for x in logits]
    return [p / sum(powers) for p in powers]


def text_of(rows):
    return "".join(",".join(map(str, row)) + "\n" for row in rows)


def predict(model, rows):
    """[(class, [probability])]"""
    lines = list(csv.reader(io.StringIO(p2pml("predict", model, input=text_of(rows)))))
    assert lines[0][0] == "class", lines[0]
    return [(line[0], list(map(float, line[1:]))) for line in lines[1:]]


def run(directory, experiment, *arguments, command="run", **options):
    path = directory + ".yaml"
    with open(path, "w") as f:
        f.write(experiment)
    return p2pml(command, path, "--fresh", "--out", directory, *arguments, **options)


def summary_of(directory):
    with open(os.path.join(directory, "summary.json")) as f:
        return json.load(f)


def first_point(directory):
    with open(os.path.join(directory, "rounds.jsonl")) as f:
        return json.loads(f.readline())


def evaluate(model, *arguments):
    return json.loads(p2pml("eval", model, "--json", *arguments))


class ModelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp(prefix="p2pml-model-")
        cls.digits = os.path.join(cls.directory, "digits")
        run(cls.digits, DIGITS)
        cls.averaged = os.path.join(cls.digits, "averaged.safetensors")
        generator = random.Random(1)
        cls.rows = [[round(generator.random(), 4) for _ in range(784)] for _ in range(150)]

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.directory)

    def path(self, name):
        return os.path.join(self.directory, name)

    def assert_score(self, measured, score):
        self.assertAlmostEqual(measured["accuracy"], score["accuracy"], delta=1e-9)
        self.assertAlmostEqual(measured["loss"], score["loss"], delta=1e-6)

    def test_eval_gives_the_score_of_the_run(self):
        summary = summary_of(self.digits)
        for model in (self.digits, self.averaged):
            measured = evaluate(model, *OF_DIGITS)
            self.assert_score(measured, summary["averaged"])
            self.assertEqual(measured["examples"], 200)
        for i, node in enumerate(summary["per_node"]):
            directory = os.path.join(self.digits, f"node-0{i}")
            for model in (directory, directory + "/model.safetensors", directory + "/checkpoint-80.safetensors"):
                self.assert_score(evaluate(model, *OF_DIGITS), node)
        self.assertRegex(p2pml("eval", self.digits, *OF_DIGITS), r"accuracy +\d+\.\d\d%\nloss +\d\.\d{4}\nexamples +200\n")

    def test_sim_writes_the_same_file(self):
        simulated = self.path("simulated")
        run(simulated, DIGITS, command="sim")
        with open(self.averaged, "rb") as a, open(os.path.join(simulated, "averaged.safetensors"), "rb") as b:
            self.assertEqual(a.read(), b.read())
        run(simulated, DIGITS, "--set", "sim.engine=rounds", command="sim")
        self.assert_score(evaluate(simulated, *OF_DIGITS), summary_of(simulated)["averaged"])

    def test_the_file_has_the_layout_of_torch(self):
        metadata, tensors = read_file(self.averaged)
        self.assertEqual({name: shape for name, (shape, _) in tensors.items()},
                         {"0.weight": [24, 784], "0.bias": [24], "2.weight": [10, 24], "2.bias": [10]})
        self.assertEqual((metadata["format"], metadata["model"], metadata["labels"], metadata["input_divisor"]),
                         ("pt", "mlp 784-24-10", "0..9", "1"))
        for row, (label, probabilities) in zip(self.rows[:10], predict(self.digits, self.rows[:10])):
            expected = softmax(logits_of(tensors, row))
            self.assertEqual(int(label), expected.index(max(expected)))
            self.assertLess(max(abs(a - b) for a, b in zip(expected, probabilities)), 1e-5)

    def test_a_checkpoint_exports_the_model_of_its_node(self):
        out = self.path("node.safetensors")
        for model in ("node-01", "node-01/checkpoint-80.safetensors"):
            p2pml("export", os.path.join(self.digits, model), "--format", "torch", "-o", out)
            with open(out, "rb") as a, open(os.path.join(self.digits, "node-01", "model.safetensors"), "rb") as b:
                self.assertEqual(a.read(), b.read())

    def test_torch_gives_the_same_answers(self):
        python = python_with("torch")
        if not python:
            self.skipTest("no Python here has torch")
        script = """
import json, sys, torch
rows, tensors = json.load(sys.stdin)
state = {name: torch.tensor(values, dtype=torch.float32).reshape(shape) for name, (shape, values) in tensors.items()}
model = torch.nn.Sequential(torch.nn.Linear(784, 24), torch.nn.ReLU(), torch.nn.Linear(24, 10))
model.load_state_dict(state)
print(json.dumps(model(torch.tensor(rows)).tolist()))
"""
        tensors = read_file(self.averaged)[1]
        said = json.loads(subprocess.run([python, "-c", script], input=json.dumps([self.rows, tensors]), text=True, check=True,
                                         stdout=subprocess.PIPE).stdout)
        for row, logits, (label, probabilities) in zip(self.rows, said, predict(self.digits, self.rows)):
            self.assertLess(max(abs(a - b) for a, b in zip(logits, logits_of(tensors, row))), 1e-5)
            self.assertEqual(int(label), logits.index(max(logits)))
            self.assertLess(max(abs(a - b) for a, b in zip(softmax(logits), probabilities)), 1e-5)

    def ask_onnx(self, path, rows):
        python = python_with("onnx", "onnxruntime", "numpy")
        if not python:
            self.skipTest("no Python here has onnx, onnxruntime and numpy")
        script = """
import json, sys, numpy, onnx, onnxruntime
rows, path = json.load(sys.stdin)
onnx.checker.check_model(onnx.load(path), full_check=True)
session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
logits, probabilities = session.run(["logits", "probabilities"], {"input": numpy.array(rows, numpy.float32)})
print(json.dumps([logits.tolist(), probabilities.tolist()]))
"""
        return json.loads(subprocess.run([python, "-c", script], input=json.dumps([rows, path]), text=True, check=True,
                                         stdout=subprocess.PIPE).stdout)

    def test_onnx_gives_the_same_answers(self):
        path = self.path("digits.onnx")
        p2pml("export", self.digits, "--format", "onnx", "-o", path)
        tensors = read_file(self.averaged)[1]
        all_logits, all_probabilities = self.ask_onnx(path, self.rows)
        for row, logits, theirs, (label, ours) in zip(self.rows, all_logits, all_probabilities, predict(self.digits, self.rows)):
            self.assertLess(max(abs(a - b) for a, b in zip(logits, logits_of(tensors, row))), 1e-5)
            self.assertEqual(int(label), theirs.index(max(theirs)))
            self.assertLess(max(abs(a - b) for a, b in zip(theirs, ours)), 1e-5)

    def test_training_begins_with_the_model_of_a_file(self):
        again, measured = self.path("again"), evaluate(self.digits, *OF_DIGITS)
        elsewhere = self.path("elsewhere.safetensors")
        write_file(elsewhere, dict(reversed(read_file(self.averaged)[1].items())))  # another order, no metadata
        for init in (self.averaged, elsewhere):
            run(again, DIGITS, "--set", f"model.init={init}", "--set", "train.steps=40")
            self.assert_score(measured, first_point(again))
            self.assertNotEqual(summary_of(again)["averaged"]["loss"], measured["loss"])
        run(again, DIGITS, "--set", f"model.init={self.averaged}", command="sim")
        self.assert_score(measured, first_point(again))
        # Without a step the model is that of the file.
        run(again, DIGITS, "--set", f"model.init={self.averaged}", "--set", "train.rate=0")
        self.assertEqual(read_file(os.path.join(again, "node-02", "model.safetensors"))[1], read_file(self.averaged)[1])

    def bad_files(self):
        """(name, what is wrong with the file)"""
        tensors = read_file(self.averaged)[1]
        with open(self.averaged, "rb") as f:
            whole = f.read()
        length = struct.unpack("<Q", whole[:8])[0]
        header = whole[8:8 + length]
        made = {
            "truncated": (whole[:-100], "the file is cut off"),
            "no header": (whole[:5], "5 bytes are too few"),
            "overlapping": (whole[:8] + header.replace(b"[75264,75360]", b"[75260,75356]") + whole[8 + length:], "overlap"),
            "flipped": (whole[:-5] + bytes([whole[-5] ^ 1]) + whole[-4:], "the digest does not match"),
            "text": (b"these are no weights at all", "the header length"),
        }
        for name, (content, reason) in made.items():
            with open(self.path(name), "wb") as f:
                f.write(content)
            yield self.path(name), reason
        weight = tensors["2.weight"]
        for name, changed, reason in [
                ("misshapen", {**tensors, "2.weight": ([24, 10], weight[1])},
                 "its tensor '2.weight' is F32 [24, 10], expected F32 ["),
                ("missing", {k: v for k, v in tensors.items() if k != "2.bias"}, "there is no tensor '2.bias' [10] in it"),
                ("extra", {**tensors, "4.bias": ([3], (1, 2, 3))}, "it has the tensor '4.bias' [3]"),
                ("renamed", {"net." + k: v for k, v in tensors.items()}, "there is no tensor '0.weight'"),
                ("not finite", {**tensors, "0.bias": ([24], (math.nan,) * 24)}, "its tensor '0.bias' holds NaN"),
                ("nothing", {}, "no tensor at all")]:
            write_file(self.path(name), changed)
            yield self.path(name), reason

    def test_bad_files_are_refused_with_the_reason(self):
        refused = self.path("refused")
        for path, reason in self.bad_files():
            with self.subTest(path):
                for arguments in (["eval", path, *OF_DIGITS], ["export", path, "--format", "onnx", "-o", refused]):
                    said = p2pml(*arguments, status=1)
                    self.assertIn(reason, said)
                    self.assertIn(f"'{path}'", said)
                self.assertIn(f"'{path}'", p2pml("predict", path, status=1, stdin=subprocess.DEVNULL))
                self.assertFalse(os.path.exists(refused))
                said = run(refused, DIGITS, "--set", f"model.init={path}", status=1)
                self.assertIn(f"--set: model.init: '{path}'", said)
                self.assertIn(reason, said)
                self.assertFalse(os.path.exists(refused))  # before anything started
        said = run(refused, DIGITS, "--set", f"model.init={self.averaged}", "--set", "model.hidden=[25]", status=1)
        self.assertIn("does not fit the model 'mlp 784-25-10': its tensor '0.weight' is F32 [24, 784], expected F32 [25, 784]", said)
        self.assertIn("which cannot be read", run(refused, DIGITS, "--set", "model.init=no/such", status=2))

    def test_a_node_refuses_bad_files_too(self):
        with open(self.path("secret"), "w"):
            pass
        ran = subprocess.run([PROGRAM, "--set", f"node.dir={self.path('node')}", "--set", f"model.init={self.averaged}"],
                             capture_output=True, text=True, timeout=60, env=environment())
        self.assertEqual(ran.returncode, 1)
        self.assertIn("its tensor '0.weight' is F32 [24, 784], expected F32 [256, 784]", ran.stderr)
        self.assertNotIn("listening", ran.stderr)

    def test_bytes_of_images_are_divided(self):
        generator = random.Random(2)

        def write(name, count):
            labels = [generator.randrange(3) for _ in range(count)]
            images = [[min(255, max(0, int(generator.gauss(90 + 70 * (i % 3 == label), 50)))) for i in range(16)] for label in labels]
            with open(self.path(name + "-images"), "wb") as f:
                f.write(struct.pack(">IIII", 0x803, count, 4, 4) + bytes(sum(images, [])))
            with open(self.path(name + "-labels"), "wb") as f:
                f.write(struct.pack(">II", 0x801, count) + bytes(labels))
            return images, labels
        write("train", 300)
        images, labels = write("test", 200)
        files = {f"{use}_{what}": self.path(f"{use}-{what}") for use in ("train", "test") for what in ("images", "labels")}
        directory = self.path("idx")
        run(directory, QUICK + f"model: {{hidden: [8]}}\ndata: {json.dumps({'kind': 'idx', 'classes': 3, **files})}\n")
        self.assertEqual(read_file(os.path.join(directory, "averaged.safetensors"))[0]["input_divisor"], "255")
        tests = ["--set", f"data.test_images={files['test_images']}",
                 "--set", f"data.test_labels={files['test_labels']}"]  # no more keys: kind and classes come from the model
        measured = evaluate(directory, *tests)
        self.assert_score(measured, summary_of(directory)["averaged"])
        answers = predict(directory, images)  # bytes, as they are in the file
        self.assertAlmostEqual(sum(int(a) == b for (a, _), b in zip(answers, labels)) / 200, measured["accuracy"])
        # The same for a checkpoint, which must also contain the divisor.
        self.assert_score(evaluate(os.path.join(directory, "node-00"), *tests), summary_of(directory)["per_node"][0])
        path = self.path("idx.onnx")
        p2pml("export", directory, "--format", "onnx", "-o", path)
        for theirs, (_, ours) in zip(self.ask_onnx(path, images)[1], answers):
            self.assertLess(max(abs(a - b) for a, b in zip(theirs, ours)), 1e-5)

    def test_answers_have_the_labels_of_the_data(self):
        generator = random.Random(3)

        def write(name, count):
            rows = [[round(generator.gauss(0, 1), 3) for _ in range(3)] for _ in range(count)]
            labels = ["+1" if row[0] > row[2] else "-1" for row in rows]
            with open(self.path(name), "w") as f:
                for label, row in zip(labels, rows):
                    f.write(label + "".join(f" {i + 1}:{x}" for i, x in enumerate(row)) + "\n")
            return rows, labels
        write("train.svm", 300)
        rows, labels = write("test.svm", 100)
        directory = self.path("svm")
        data = {"kind": "libsvm", "train_file": self.path("train.svm"), "test_file": self.path("test.svm"), "features": 3, "classes": 2}
        run(directory, QUICK + f"model: {{kind: softmax}}\ndata: {json.dumps(data)}\n")
        metadata, tensors = read_file(os.path.join(directory, "averaged.safetensors"))
        self.assertEqual((metadata["model"], json.loads(metadata["data"])["classes"], sorted(tensors)),
                         ("softmax 3-2", ["-1", "1"], ["0.bias", "0.weight"]))
        measured = evaluate(directory, "--set", f"data.test_file={self.path('test.svm')}")
        self.assertEqual(measured, evaluate(directory, "--set", "data.kind=libsvm", "--set", f"data.test_file={self.path('test.svm')}"))
        self.assertIn("data.train_file: found \"\", expected a file with the training examples", p2pml("eval", directory, status=2))
        self.assertGreater(measured["accuracy"], 0.8)
        answers = predict(directory, rows)
        self.assertEqual({a for a, _ in answers}, {"-1", "1"})
        self.assertAlmostEqual(sum(int(a) == int(b) for (a, _), b in zip(answers, labels)) / 100, measured["accuracy"])

    def of_kind(self, kind):
        """The model of the digits, with metadata that name another kind of data."""
        metadata, tensors = read_file(self.averaged)
        self.assertEqual(metadata.pop("data_kind"), "digits")
        del metadata["p2pml"], metadata["digest"]
        write_file(self.path(f"of-{kind}"), tensors, {**metadata, "data_kind": kind})
        return self.path(f"of-{kind}")

    def test_usage(self):
        out = self.path("never")
        for arguments, status, part in [
                (["eval"], 2, "found 0 files, expected one model"),
                (["eval", "a", "b"], 2, "found 2 files"),
                (["eval", self.digits, "--set", "train.steps=3"], 2, "expected a key data.*"),
                (["eval", self.digits, "--set", "data.kind=png"], 2, "data.kind"),
                (["eval", self.of_kind("png")], 2, "of-png: data.kind: found \"png\", expected one of digits, idx"),
                (["eval", self.of_kind("a kind of its own")], 1, "metadata 'data_kind' is 'a kind of its own', expected a data.kind"),
                (["eval", self.digits, "--set", "data.kind=libsvm"], 2, "data.train_file"),
                (["eval", self.directory], 1, "holds no model: expected averaged.safetensors of a run"),
                (["eval", self.path("no")], 1, self.path("no")),
                (["predict"], 2, "expected a model"),
                (["predict", "--frmt"], 2, "p2pml help predict"),
                (["export", self.digits], 2, "found 1 models, no format and no file to write"),
                (["export", self.digits, "--format", "pickle", "-o", out], 2, "found 'pickle', expected torch or onnx"),
                (["export", self.digits, "--format", "onnx", "-o", "/no/such/directory/x"], 1, "/no/such/directory"),
                (["eval", "--help"], 0, "--set KEY=VALUE"),
                (["predict", "--help"], 0, "p2pml predict MODEL < rows.csv"),
                (["help", "export"], 0, "--format torch|onnx")]:
            self.assertIn(part, p2pml(*arguments, status=status))
        said = p2pml("predict", self.digits, status=1, input="1,2,3\n")
        self.assertIn("standard input: line 1, column 3: the row ends early, expected 784 numbers", said)
        self.assertIn("a model of p2pml", p2pml("inspect", self.averaged))

    def documented(self):
        with open(os.path.join(SOURCE, "docs/models.md")) as f:
            section = f.read().split("## Use the model\n")[1].split("\n## ")[0]
        return re.findall(r"```(\w*)\n(.*?)```", section, re.S)

    def test_the_documented_commands_work(self):
        (kind, lines), (language, script) = self.documented()
        self.assertEqual((kind, language), ("", "python"))
        work = self.path("readme")
        os.mkdir(work)
        os.symlink(os.path.join(SOURCE, "configs"), os.path.join(work, "configs"))
        with open(os.path.join(work, "rows.csv"), "w") as f:
            f.write(text_of(self.rows))
        # The demonstration, shortened by variables.
        shell = environment(PATH=os.path.dirname(P2PML) + ":" + os.environ["PATH"], P2PML_TRAIN_STEPS="40", P2PML_EVENTS="[]",
                            P2PML_EXPERIMENT_NODES="2", P2PML_EXPERIMENT_BASELINES="[]")
        for line in ["p2pml run configs/demo.yaml", *lines.strip().split("\n")]:
            typed = subprocess.run(["bash", "-c", line], cwd=work, env=shell, capture_output=True, text=True, timeout=300)
            self.assertEqual(typed.returncode, 0, line + "\n" + typed.stderr)
        with open(os.path.join(work, "answers.csv")) as f:
            self.assertEqual(len(f.readlines()), 1 + len(self.rows))
        for name in ("digits.onnx", "node.safetensors", "run/more/averaged.safetensors"):
            self.assertTrue(os.path.exists(os.path.join(work, name)), name)
        self.assertAlmostEqual(first_point(os.path.join(work, "run/more"))["accuracy"], summary_of(os.path.join(work, "run/demo"))["averaged"]["accuracy"])
        python = python_with("torch", "safetensors.torch")
        if not python:
            self.skipTest("the commands are fine; no Python here has torch and safetensors for the lines of Python")
        subprocess.run([python, "-c", script], cwd=work, check=True)


if __name__ == "__main__":
    unittest.main(verbosity=2)
