"""The Python package with the library of this build: runs python/tests with the first Python that has torch."""

import os
import subprocess
import sys
import time

import ending

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

MARGIN = 120  # seconds to report what is late, before everything is killed
seconds = float(os.environ.get("TEST_SECONDS", "2400")) - MARGIN
deadline = time.monotonic() + seconds
# TEST_DEADLINE, not P2PML_...: the programs refuse names that are not keys.
environment = dict(os.environ, PYTHONPATH=os.path.join(ROOT, "python"), PYTHONDONTWRITEBYTECODE="1", PYTHONFAULTHANDLER="1",
                   TEST_DEADLINE=str(deadline))


def run(name):
    tests = subprocess.Popen([python, os.path.join(ROOT, "python", "tests", name)], env=environment)
    return ending.status(tests, name, max(time.monotonic() + 1.0, deadline + MARGIN / 2))


status = 0
for name in ("test_baselines.py", "test_buffers.py", "test_compare.py", "test_defaults.py", "test_documents.py", "test_examples.py",
             "test_integrations.py", "test_interrupts.py", "test_judge.py", "test_lab.py", "test_looks.py", "test_method.py", "test_misuse.py",
             "test_notebook.py", "test_package.py", "test_pages.py", "test_processes.py", "test_programs.py", "test_pytorch.py",
             "test_restarts.py", "test_robust.py", "test_state.py", "test_torchrun.py", "test_versions.py"):
    status |= run(name) != 0
sys.exit(status)
