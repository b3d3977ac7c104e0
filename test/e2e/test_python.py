"""The Python package with the library of this build: python/tests, by the first Python that has torch."""

import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def has_torch(python):
    try:
        return subprocess.run([python, "-c", "import torch, numpy"], capture_output=True, timeout=120).returncode == 0
    except OSError:
        return False


candidates = [p for p in (os.environ.get("P2PML_PYTHON"), sys.executable, "/usr/bin/python3") if p]
python = next((p for p in candidates if has_torch(p)), None)
if python is None:
    print("skipped: no Python with torch and numpy; P2PML_PYTHON names one (Debian: python3-torch)")
    sys.exit(77)

environment = dict(os.environ, PYTHONPATH=os.path.join(ROOT, "python"), PYTHONDONTWRITEBYTECODE="1")
status = 0
for name in ("test_examples.py", "test_integrations.py", "test_lab.py", "test_notebook.py", "test_pytorch.py", "test_versions.py"):
    status |= subprocess.run([python, os.path.join(ROOT, "python", "tests", name)], env=environment).returncode
sys.exit(status)
