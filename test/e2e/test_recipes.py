"""From a file to a prediction in four commands: sklearn's digits, breast_cancer and diabetes as tables, and a folder
of 1,000 images. The commands are those of docs/recipes.md. Skipped where sklearn is not installed."""

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

from cluster import PROGRAM
from test_data import picture, png

try:
    from sklearn import datasets
except ImportError:
    print("skipped: this Python has no scikit-learn", file=sys.stderr)
    sys.exit(77)

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FILES = {"digits": "digits.csv", "breast_cancer": "cancer.csv", "diabetes": "diabetes.csv"}


def commands_of(name):
    """The block of commands that names this file."""
    with open(os.path.join(ROOT, "docs", "recipes.md")) as f:
        blocks = re.findall(r"^```\n(.*?)^```", f.read(), re.M | re.S)
    found = [b for b in blocks if re.search(rf"data info {name}\b", b)]
    assert len(found) == 1, f"{len(found)} recipes for {name}"
    return found[0].splitlines()


class Recipes(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="p2pml-recipes-")
        self.addCleanup(shutil.rmtree, self.directory)

    def write_table(self, name):
        found = getattr(datasets, "load_" + name)()
        names = getattr(found, "target_names", None)
        with open(os.path.join(self.directory, FILES[name]), "w", newline="") as f:
            table = csv.writer(f)
            table.writerow([*(str(n) for n in found.feature_names), "target"])
            for x, y in zip(found.data, found.target):
                table.writerow([*(f"{v:.9g}" for v in x), names[y] if names is not None else y])

    def follow(self, name):
        """The commands as they stand, each by a shell in the directory; what eval said."""
        os.symlink(os.path.join(ROOT, "configs"), os.path.join(self.directory, "configs"))
        commands = commands_of(name)
        self.assertLessEqual(len(commands), 4)
        measured = ""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("P2PML_")}
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
