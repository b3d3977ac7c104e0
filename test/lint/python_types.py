"""The types of the Python package are right: `mypy` with the package's configuration finds nothing; nor does `mypy --strict` with
the types of its integrations, if all of them are installed. Uses the first Python that has mypy."""

import os
import subprocess
import sys

ROOT, CACHE = sys.argv[1], os.path.join(sys.argv[2], "mypy")
INTEGRATIONS = ("jax", "numpy", "torch", "transformers", "lightning")


def has(python, *modules):
    look = f"import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, {modules!r})))"
    try:
        return subprocess.run([python, "-c", look], capture_output=True, timeout=120).returncode == 0
    except OSError:
        return False


def mypy(python, *options):
    return subprocess.run([python, "-m", "mypy", "--cache-dir", CACHE, *options], cwd=os.path.join(ROOT, "python")).returncode


candidates = [p for p in (os.environ.get("P2PML_PYTHON"), sys.executable, "/usr/bin/python3") if p]
python = next((p for p in candidates if has(p, "mypy")), None)
if python is None:
    print("skipped: no Python with mypy; P2PML_PYTHON names one (pip install mypy)")
    sys.exit(77)
status = mypy(python)
if has(python, *INTEGRATIONS):
    status |= mypy(python, "--config-file", os.devnull, "--strict", "p2pml")
else:
    print(f"{python}: without all of {', '.join(INTEGRATIONS)}, so their types are not checked")
sys.exit(status)
