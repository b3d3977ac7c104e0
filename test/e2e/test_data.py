"""Typical data, from files to a trained model: a table with classes, a table with a quantity, arrays of NumPy, and a
folder of 1,000 images. Also nodes whose files differ. Uses the sets of scikit-learn if it is installed, else made-up
sets of the same shape."""

import csv
import gzip
import json
import os
import random
import re
import shutil
import struct
import subprocess
import tempfile
import unittest
import zlib

from cluster import PROGRAM

P2PML = os.path.join(os.path.dirname(PROGRAM), "p2pml")
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("P2PML_")}
EXPERIMENT = """
experiment: {nodes: 4, baselines: []}
model: {hidden: [32]}
train: {steps: 400, eval_rounds: 25}
average: {mode: sync, ratio: 1/4, deadline_floor: 10s}
node: {start_timeout: 60s}
checkpoint: {every: 0}
"""


def drawn(examples, features, classes, seed):
    """Rows around a centre for each class; the columns have different units, and one has words."""
    chance = random.Random(seed)
    centres = [[chance.gauss(0, 1) for _ in range(features)] for _ in range(max(classes, 2))]
    units = [10 ** chance.uniform(-2, 3) for _ in range(features)]
    rows = []
    for _ in range(examples):
        c = chance.randrange(max(classes, 2))
        x = [(centre + chance.gauss(0, 0.7)) * unit for centre, unit in zip(centres[c], units)]
        y = f"kind {c}" if classes else 150 + 40 * sum(v / u for v, u in zip(x[:3], units)) + chance.gauss(0, 20)
        rows.append([*(f"{v:.6g}" for v in x), y])
    return [[f"f{i}" for i in range(features)] + ["target"], *rows]


def table(name, examples, features, classes):
    try:
        from sklearn import datasets
        found = getattr(datasets, "load_" + name)()
        names = [str(n) for n in getattr(found, "feature_names", range(features))]
        rows = [[*(f"{v:.9g}" for v in x), f"class {y}" if classes else float(y)]
                for x, y in zip(found.data, found.target)]
        return [[*("f " + n for n in names), "target"], *rows]
    except ImportError:
        return drawn(examples, features, classes, 7)


def png(pixels, width):
    """A PNG: grey, eight bits per pixel, no filter."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + bytes(pixels[i:i + width]) for i in range(0, len(pixels), width))
    header = struct.pack(">IIBBBBB", width, len(pixels) // width, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def picture(kind, chance):
    """12 x 12 pixels of noise with a bright bar: vertical, horizontal or diagonal."""
    at = chance.randrange(3, 9)
    bright = {"lying": lambda x, y: y == at, "standing": lambda x, y: x == at, "leaning": lambda x, y: x == y}[kind]
    return [min(255, chance.randrange(90) + (150 if bright(x, y) else 0)) for y in range(12) for x in range(12)]


class Data(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="p2pml-data-")
        self.addCleanup(shutil.rmtree, self.directory)

    def path(self, name):
        return os.path.join(self.directory, name)

    def write_table(self, name, rows):
        with open(self.path(name), "w", newline="") as f:
            csv.writer(f).writerows(rows)
        return self.path(name)

    def p2pml(self, *arguments, status=0, program=P2PML):
        done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=300, env=ENVIRONMENT)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout, done.stderr

    def train(self, command, settings):
        with open(self.path("e.yaml"), "w") as f:
            f.write(EXPERIMENT)
        out, err = self.p2pml(command, self.path("e.yaml"), "--fresh", "--out", self.path("out"),
                              *(f"--set={s}" for s in settings))
        with open(os.path.join(self.path("out"), "summary.json")) as f:
            return json.load(f), out, err

    def settings_of(self, info):
        """The lines that 'p2pml data info' prints, as --set takes them."""
        section, settings = "", []
        for line in info[info.index("A configuration that fits"):].splitlines()[2:]:
            key, _, value = line.partition(":")
            if line.startswith("  "):
                value = value.strip()  # a list has quotes inside, which --set does not take off
                settings.append(f"{section}.{key.strip()}={value.replace(chr(34), '') if value[0] == '[' else value.strip(chr(34))}")
            else:
                section = key
        return settings

    def test_a_table_with_classes_is_learned(self):
        for name, shape in {"breast_cancer": (569, 30, 2), "digits": (1797, 64, 10)}.items():
            with self.subTest(name):
                path = self.write_table("t.csv", table(name, *shape))
                info, said = self.p2pml("data", "info", path)
                self.assertIn(f"a table (CSV), {shape[0]} examples of {shape[1]} features, {shape[2]} classes", info)
                summary, _, _ = self.train("run", self.settings_of(info))
                self.assertGreater(summary["averaged"]["accuracy"], 0.9)
                self.assertEqual(summary["measure"], "accuracy")

    def test_a_table_with_a_quantity_is_learned(self):
        path = self.write_table("t.csv", table("diabetes", 442, 10, 0))
        info, _ = self.p2pml("data", "info", path)
        self.assertIn("442 examples of 10 features, 1 target of a regression", info)
        summary, out, _ = self.train("run", [*self.settings_of(info), "train.rate=0.02"])
        self.assertEqual(summary["measure"], "R2")
        self.assertGreater(summary["averaged"]["accuracy"], 0.3)
        self.assertGreater(summary["averaged"]["rmse"], 1)  # in units of the table
        self.assertRegex(out, r"on the test examples +R2 +RMSE\n +averaged model +0\.\d{4} +\d+\.\d+")
        with open(os.path.join(self.path("out"), "node-00", "metrics.jsonl")) as f:
            last = json.loads(f.readlines()[-1])
        self.assertIsNone(last["accuracy"])
        self.assertTrue(last["r2"] > 0.3 and last["rmse"] > 1)
        with open(os.path.join(self.path("out"), "results.csv")) as f:
            head = f.readline().strip().split(",")
        self.assertTrue("r2" in head and "accuracy" not in head, head)
        with open(os.path.join(self.path("out"), "report.html")) as f:
            self.assertRegex(f.read(), r'"regression": ?true')
        engines, _, _ = self.train("sim", [*self.settings_of(info), "train.rate=0.02", "sim.engine=rounds"])
        self.assertAlmostEqual(engines["averaged"]["rmse"], summary["averaged"]["rmse"], delta=0.05 * summary["averaged"]["rmse"])

    def test_a_folder_of_a_thousand_images_is_learned(self):
        chance = random.Random(3)
        for kind in ("lying", "standing", "leaning"):
            os.makedirs(self.path(f"pictures/{kind}"))
        for i in range(1000):
            kind = ("lying", "standing", "leaning")[i % 3]
            with open(self.path(f"pictures/{kind}/{i:04}.png"), "wb") as f:
                f.write(png(picture(kind, chance), 12))
        info, _ = self.p2pml("data", "info", self.path("pictures"))
        self.assertIn("a folder of images, 1000 examples of 144 features, 3 classes", info)
        self.assertIn("each 12 x 12 pixels, grey", info)
        summary, _, _ = self.train("run", self.settings_of(info))
        self.assertEqual(summary["train_examples"] + summary["test_examples"], 1000)
        self.assertGreater(summary["averaged"]["accuracy"], 0.9)
        small, _, _ = self.train("sim", [*self.settings_of(info), "data.image_size=6x6"])
        self.assertRegex(small["model"], r"mlp 36-32-3")

    def write_idx(self, name, examples, pack=open):
        """12 x 14 pixels; of the five classes that the labels allow, three occur."""
        labels = bytes((0, 2, 4)[i % 3] for i in range(examples))
        end = ".gz" if pack is not open else ""
        with pack(self.path(name + "-images-idx3-ubyte" + end), "wb") as f:
            f.write(struct.pack(">IIII", 0x803, examples, 12, 14))
            f.write(b"".join(bytes(255 * (x == y * c) for y in range(12) for x in range(14)) for c in labels))
        with pack(self.path(name + "-labels-idx1-ubyte" + end), "wb") as f:
            f.write(struct.pack(">II", 0x801, examples) + labels)
        return self.path(name + "-images-idx3-ubyte" + end)

    def test_data_info_describes_other_files(self):
        path = self.write_idx("train", 60, gzip.open)
        self.write_idx("t10k", 30, gzip.open)
        info, said = self.p2pml("data", "info", path)
        self.assertIn("IDX images (MNIST's), 60 examples of 168 features, 5 classes", info)
        self.assertRegex(info, r"\n  2 +20 +33\.33%\n  3 +0 +0\.00%")
        self.assertIn('no example of 2 of the 5 classes, among them "1"', said)
        self.assertIn("the first image:\n    @  ", info)
        self.assertIn(f'test_labels: "{self.path("t10k-labels-idx1-ubyte.gz")}"', info)
        self.train("run", self.settings_of(info))
        self.assertIn("holds the labels", self.p2pml("data", "info", self.path("t10k-labels-idx1-ubyte.gz"), status=2)[1])
        os.remove(self.path("train-labels-idx1-ubyte.gz"))
        self.assertIn("found IDX images without their labels", self.p2pml("data", "info", path, status=2)[1])
        with open(self.path("a.svm"), "w") as f:
            f.writelines(f"{1 + i % 3} 1:{i} 7:{i / 10000}\n" for i in range(60))
        info, said = self.p2pml("data", "info", self.path("a.svm"))
        self.assertIn("LIBSVM rows, 60 examples of 7 features, 3 classes", info)
        self.assertIn("features differ by orders of magnitude", said)
        self.assertRegex(info, r"features: 7\n  labels: \S.*\n  scale: standard")
        self.assertIn("60 examples of 7", self.p2pml("data", "info", self.path("a.svm"), "--set", "model.kind=logistic")[0])
        self.train("run", self.settings_of(info))
        with open(self.path("t.txt"), "w") as f:
            f.write("To be, or not to be: that is the question.\n" * 60)
        info, _ = self.p2pml("data", "info", self.path("t.txt"))
        self.assertRegex(info, r"a text, \d+ examples of 64 tokens, 18 different characters")
        self.assertIn("it begins:\n    To be, or not to be", info)
        os.mkdir(self.path("batches"))
        with open(self.path("batches/data_batch_1.bin"), "wb") as f:
            f.write(b"".join(bytes([i % 10]) + bytes(3072) for i in range(20)))
        for batch in ("batches", "batches/data_batch_1.bin"):
            self.assertIn("CIFAR-10 images, 20 examples of 3072 features", self.p2pml("data", "info", self.path(batch))[0])
        with open(self.path("play.txt"), "w") as f:
            f.write("First Citizen:\nBefore we proceed any further, hear me speak.\n" * 60)
        self.assertRegex(self.p2pml("data", "info", self.path("play.txt"))[0], "a text, ")

    def test_data_info_warns(self):
        path = self.write_table("t.csv", [["small", "large", "y"], *([i * 1e-3, i * 1e3, i % 2] for i in range(40))])
        _, said = self.p2pml("--check", "--set", "data.kind=csv", "--set", f"data.train_file={path}", program=PROGRAM)
        self.assertIn("features differ by orders of magnitude (large reaches", said)
        self.assertIn("33 examples to train on, 7 to test on; 2 features, 2 classes", said)
        rows = [["a", "y"], *([i, i // 10] for i in range(40))]
        path = self.write_table("t.csv", rows)
        test = self.write_table("u.csv", rows[:11])
        _, said = self.p2pml("--check", "--set", "data.kind=csv", "--set", f"data.train_file={path}", "--set",
                             f"data.test_file={test}", program=PROGRAM)
        self.assertIn('the test examples have no example of 3 of the 4 classes, among them "1"', said)

    def test_a_test_file_that_is_the_training_file_is_told(self):
        rows = [["a", "y"], *([i, i % 2] for i in range(40))]
        path, copy = self.write_table("t.csv", rows), self.write_table("copy.csv", rows[:1] + rows[:0:-1])
        other = self.write_table("other.csv", [*rows[:-1], [39.5, 1]])
        os.symlink("t.csv", self.path("link.csv"))
        overlap, copied = "test and training examples overlap", "the test file has the examples of the training file, all 40"

        def told(program, tests, *more, status=0):
            said = self.p2pml(*more, *(word for one in ("data.kind=csv", f"data.train_file={path}", f"data.test_file={tests}")
                                       for word in ("--set", one)), program=program, status=status)[1]
            return [said.count(words) for words in (overlap, copied)]
        self.assertEqual([told(PROGRAM, tests, "--check") for tests in (path, self.path("./t.csv"), self.path("link.csv"), copy, other)],
                         [[1, 0], [1, 0], [1, 0], [0, 1], [0, 0]])
        self.assertEqual(told(PROGRAM, self.path("link.csv"), "--check", "--set", "data.train_count=20", "--set", "data.test_first=20"), [0, 0])
        with open(self.path("e.yaml"), "w") as f:
            f.write(EXPERIMENT.replace("nodes: 4", "nodes: 2").replace("400", "8"))
        for tests, expected in ((path, [1, 0]), (copy, [0, 1]), (other, [0, 0])):
            self.assertEqual(told(P2PML, tests, "run", self.path("e.yaml"), "--out", self.path("run-" + os.path.basename(tests))), expected)

    def test_check_opens_the_data(self):
        path = self.write_table("t.csv", [["a", "y"], ["1", "0"], ["", "1"]])
        _, said = self.p2pml("--check", "--set", "data.kind=csv", "--set", f"data.train_file={path}", program=PROGRAM,
                             status=2)
        self.assertIn("t.csv:3: column 1 (a): found \"\", a missing value", said)

    def test_statistics_are_shared_or_refused(self):
        """Two nodes with different files: without shared statistics each would scale by its own file."""
        for name, unit in {"a.csv": 1, "b.csv": 5}.items():
            self.write_table(name, [["x", "y"], *([i * unit, i % 2] for i in range(60))])
        stats = self.path("stats")
        self.p2pml("data", "info", self.path("a.csv"), "--stats", stats, "--set", "data.scale=standard")
        for extra, met in (([], False), (["--set", f"data.scale_from={stats}"], True)):
            nodes = []
            for i, name in enumerate(("a.csv", "b.csv")):
                directory = self.path(f"node-{met}-{i}")
                arguments = ["node.http=", f"node.dir={directory}", f"node.listen=127.0.0.1:{7931 + i}",
                             "peers=127.0.0.1:7931,127.0.0.1:7932", "data.kind=csv", "data.scale=standard",
                             f"data.train_file={self.path(name)}", "train.steps=400", "node.start_timeout=6s",
                             "node.start_members=2", "node.linger=2s", "checkpoint.every=0"]
                nodes.append(subprocess.Popen([PROGRAM, *(f"--set={a}" for a in arguments), *extra], text=True,
                                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=ENVIRONMENT))
            said = [node.communicate(timeout=120)[1] for node in nodes]
            if met:
                self.assertEqual([node.returncode for node in nodes], [0, 0], said)
            else:
                self.assertTrue(any("its data mean something else" in s and "data.scale_from" in s for s in said), said)


if __name__ == "__main__":
    unittest.main()
