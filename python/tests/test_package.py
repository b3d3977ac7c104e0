"""The sdist holds what the C build reads; a wheel made from it holds the programs, and its demonstration can be run."""

import glob
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile

from processes import ROOT, patience

missing = [name for name in ("setuptools", "pip") if not importlib.util.find_spec(name)]
if not missing and int(importlib.metadata.version("setuptools").split(".")[0]) < 71 and not importlib.util.find_spec("wheel"):
    missing = ["wheel"]
BUILD = os.path.dirname(os.path.dirname(os.environ.get("P2PML_LIBRARY", "")))
CLEAN = {k: v for k, v in os.environ.items() if not k.startswith("P2PML_") and k != "PYTHONPATH"}


def run(*command, cwd, **more):
    return subprocess.run(command, cwd=cwd, env={**CLEAN, **more}, capture_output=True, text=True, timeout=patience(), check=False)


@unittest.skipIf(missing, f"no {' and no '.join(missing)} in this Python")
class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="p2pml-package-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        made = run(sys.executable, "setup.py", "-q", "egg_info", "--egg-base", cls.folder, "sdist", "--dist-dir", cls.folder,
                   cwd=os.path.join(ROOT, "python"))
        if made.returncode != 0:
            raise AssertionError(made.stderr[-3000:])
        with tarfile.open(glob.glob(os.path.join(cls.folder, "*.tar.gz"))[0]) as packed:
            packed.extractall(cls.folder)
        cls.sources, = glob.glob(os.path.join(cls.folder, "p2pml-*", "setup.py"))
        cls.sources = os.path.dirname(cls.sources)

    def test_the_sdist_has_the_c_sources(self):
        with open(os.path.join(self.sources, "source", "CMakeLists.txt"), encoding="utf-8") as f:
            folders = re.findall(r"^add_subdirectory\((\w+)\)", f.read(), re.M)
        self.assertGreater(len(folders), 5)
        for folder in folders:
            self.assertTrue(os.path.exists(os.path.join(self.sources, "source", folder, "CMakeLists.txt")), folder)
        configured = run("cmake", "-S", "source", "-B", "build-c", "-DBUILD_TESTING=OFF", "-DP2PML_CUDA=off", cwd=self.sources)
        self.assertEqual(configured.returncode, 0, configured.stderr[-3000:])

    def test_a_build_that_is_none_is_named(self):
        made = run(sys.executable, "setup.py", "-q", "build_py", "--build-lib", os.path.join(self.folder, "lib"), cwd=self.sources,
                   P2PML_BUILD="nowhere")
        self.assertNotEqual(made.returncode, 0)
        self.assertIn("P2PML_BUILD: found no build in ", made.stderr)

    @unittest.skipIf(not os.path.exists(os.path.join(BUILD, "CMakeCache.txt")), "P2PML_LIBRARY is in no build folder")
    def test_the_wheel_runs_its_demonstration(self):
        made = run(sys.executable, "-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps", "-w", self.folder, ".", cwd=self.sources,
                   P2PML_BUILD=BUILD)
        self.assertEqual(made.returncode, 0, made.stderr[-3000:])
        place = os.path.join(self.folder, "installed")
        with zipfile.ZipFile(glob.glob(os.path.join(self.folder, "*.whl"))[0]) as wheel:
            wheel.extractall(place)
        for name in ("p2pml", "p2pml-node"):
            os.chmod(os.path.join(place, "p2pml", "_bin", name), 0o755)
        checked = run(sys.executable, "-m", "p2pml", "demo", "--check", cwd=self.folder, PYTHONPATH=place)
        self.assertEqual(checked.returncode, 0, checked.stderr)
        short = run(sys.executable, "-m", "p2pml", "demo", "--out", "short", "--set", "train.steps=20", "--set", "events=[]", "--set",
                    "experiment.baselines=[]", cwd=self.folder, PYTHONPATH=place)
        self.assertEqual(short.returncode, 0, short.stderr[-3000:])
        self.assertTrue(os.path.exists(os.path.join(self.folder, "short", "summary.json")))
        wrong = run(sys.executable, "-m", "p2pml", "dance", cwd=self.folder, PYTHONPATH=place)
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("usage: python -m p2pml demo", wrong.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
