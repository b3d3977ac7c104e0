"""From a file to a prediction in four commands: sklearn's digits, breast_cancer and diabetes as tables, and a folder
of 1,000 images. The commands are those of docs/recipes.md. If no Python has scikit-learn and pandas (P2PML_TEST_PYTHON
names one), the same commands read made-up tables with the same rows, columns, units and classes; only the accuracies of
docs/recipes.md need the real ones."""

import csv
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from cluster import PROGRAM, python_with
from test_data import picture, png

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FILES = {"digits": "digits.csv", "breast_cancer": "cancer.csv", "diabetes": "diabetes.csv"}
SKLEARN = python_with("sklearn", "pandas")


def made_up(name):
    """Rows like those of scikit-learn: digits of 0 to 16 around ten pictures, two words and units from 0.001 to 1,000, a quantity."""
    chance = random.Random(name)
    if name == "digits":
        pictures = [[chance.choice((0, 8, 16)) for _ in range(64)] for _ in range(10)]
        rows = [(min(16, max(0, round(v + chance.gauss(0, 4)))) for v in pictures[i % 10]) for i in range(1797)]
        return [f"pixel_{i // 8}_{i % 8}" for i in range(64)], [(*row, i % 10) for i, row in enumerate(rows)]
    if name == "breast_cancer":
        units = [10 ** (i % 7 - 3) for i in range(30)]
        words = [chance.choice(("malignant", "benign")) for _ in range(569)]
        return ([f"mean {i}" for i in range(30)],
                [(*(f"{u * (5 + chance.gauss(word == 'benign', 1)):.9g}" for u in units), word) for word in words])
    weights = [chance.uniform(-40, 40) for _ in range(10)]
    rows = [[chance.gauss(0, 1) for _ in weights] for _ in range(442)]
    return ([f"s{i}" for i in range(10)],
            [(*(f"{x / 20:.9g}" for x in row), round(150 + sum(w * x for w, x in zip(weights, row)) + chance.gauss(0, 50))) for row in rows])


def blocks(language=""):
    with open(os.path.join(ROOT, "docs", "recipes.md")) as f:
        return [block for name, block in re.findall(r"^```(\w*)\n(.*?)^```", f.read(), re.M | re.S) if name == language]


def commands_of(name):
    """The block of commands that contains this file name."""
    found = [b for b in blocks() if re.search(rf"data info {name}\b", b)]
    assert len(found) == 1, f"{len(found)} recipes for {name}"
    return found[0].splitlines()


class Recipes(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="p2pml-recipes-")
        self.addCleanup(shutil.rmtree, self.directory)

    def write_table(self, name):
        if SKLEARN:
            script = blocks("python")[0]
            subprocess.run([SKLEARN, "-c", script], cwd=self.directory, check=True)
            return
        print(f"{name}: made up, no Python here has scikit-learn and pandas", file=sys.stderr)
        columns, rows = made_up(name)
        with open(os.path.join(self.directory, FILES[name]), "w", newline="") as f:
            csv.writer(f).writerows([[*columns, "target"], *rows])

    def follow(self, name):
        """Runs the commands unchanged, each by a shell in the directory; returns what eval printed."""
        os.symlink(os.path.join(ROOT, "configs"), os.path.join(self.directory, "configs"))
        commands = commands_of(name)
        self.assertLessEqual(len(commands), 4)
        measured = ""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("P2PML_")}
        environment.update(P2PML_AVERAGE_MODE="sync", P2PML_AVERAGE_DEADLINE_FLOOR="10s")  # else a busy host leaves a run incomplete
        environment["PATH"] = os.path.dirname(PROGRAM) + ":" + environment["PATH"]
        for command in commands:
            ran = subprocess.run(command, shell=True, cwd=self.directory, env=environment, capture_output=True, text=True,
                                 timeout=300)
            self.assertEqual(ran.returncode, 0, f"{command}\n{ran.stdout}{ran.stderr}")
            if command.startswith("p2pml eval"):
                measured = ran.stdout
        print(f"{name}: {' '.join(measured.split())}", file=sys.stderr)
        return float(re.search(r"(?:accuracy|R2) +([\d.]+)", measured).group(1))

    def answers(self):
        with open(os.path.join(self.directory, "answers.csv"), newline="") as f:
            return list(csv.DictReader(f))

    def rows(self, name):
        with open(os.path.join(self.directory, name), newline="") as f:
            return list(csv.DictReader(f))

    def test_digits(self):
        self.write_table("digits")
        self.assertGreater(self.follow("digits.csv"), 93)
        pairs = list(zip(self.rows("digits.csv"), self.answers()))
        self.assertEqual(len(pairs), 1797)
        self.assertGreater(sum(row["target"] == answer["class"] for row, answer in pairs), 0.93 * len(pairs))

    def test_breast_cancer(self):
        self.write_table("breast_cancer")
        self.assertGreater(self.follow("cancer.csv"), 93)
        pairs = list(zip(self.rows("cancer.csv"), self.answers()))
        self.assertGreater(sum(row["target"] == answer["class"] for row, answer in pairs), 0.93 * 569)
        for _, answer in pairs:
            self.assertAlmostEqual(float(answer["p_benign"]) + float(answer["p_malignant"]), 1, delta=1e-5)

    def test_diabetes(self):
        self.write_table("diabetes")
        self.assertGreater(self.follow("diabetes.csv"), 0.3)
        values = [(float(row["target"]), float(answer["target"]))
                  for row, answer in zip(self.rows("diabetes.csv"), self.answers())]
        mean = sum(y for y, _ in values) / len(values)
        self.assertGreater(1 - sum((y - z) ** 2 for y, z in values) / sum((y - mean) ** 2 for y, _ in values), 0.3)

    def test_a_thousand_images(self):
        chance = random.Random(3)
        kinds = ("lying", "standing", "leaning")
        for i in range(1000):
            folder = os.path.join(self.directory, "pictures", kinds[i % 3])
            os.makedirs(folder, exist_ok=True)
            with open(os.path.join(folder, f"{i:04}.png"), "wb") as f:
                f.write(png(picture(kinds[i % 3], chance), 12))
        self.assertGreater(self.follow("pictures"), 90)
        answers = self.answers()
        self.assertEqual(len(answers), 334)
        self.assertGreater(sum(a["class"] == a["file"].split("/")[1] for a in answers), 0.9 * len(answers))
        with open(os.path.join(self.directory, "run", "pictures", "summary.json")) as f:
            self.assertEqual(json.load(f)["measure"], "accuracy")


if __name__ == "__main__":
    unittest.main()
