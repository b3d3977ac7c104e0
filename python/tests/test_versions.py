"""Every Python from 3.9 to 3.13 that is installed here. Needs no package. P2PML_LIBRARY names libp2pml.so."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))


def interpreters():
    found = {sys.executable}
    found.update(filter(None, (shutil.which(f"python3.{minor}") for minor in range(9, 14))))
    return sorted(path for path in found if works(path))


def works(python):
    done = subprocess.run([python, "-c", "import ctypes, sys; sys.exit(sys.version_info < (3, 9))"], capture_output=True, check=False)
    return done.returncode == 0


class Versions(unittest.TestCase):
    def test_a_node_alone(self):
        for python in interpreters():
            with self.subTest(python), tempfile.TemporaryDirectory(prefix="p2pml-python-") as folder:
                done = subprocess.run([python, os.path.join(HERE, "plain.py"), os.path.join(folder, "node")], capture_output=True, text=True,
                                      timeout=300, check=False, env=dict(os.environ, PYTHONPYCACHEPREFIX=os.path.join(folder, "cache")))
                self.assertEqual(done.returncode, 0, done.stderr[-2000:])
                print(done.stdout.strip())


if __name__ == "__main__":
    unittest.main(verbosity=2)
