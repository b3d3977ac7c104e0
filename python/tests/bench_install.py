"""From `pip install` to two processes that have trained together, phase by phase: bench_install.py WHEEL|FOLDER [PACKAGE...]

In a virtual environment of its own. WHEEL: of python/manylinux.sh. FOLDER: of the sources, which are built first (P2PML_BUILD: not). PACKAGE: what is
installed beside it; numpy. Prints elapsed and processor time of each phase; the limit is 120 s from `pip install` on."""

import os
import resource
import subprocess
import sys
import tempfile
import time

from processes import ROOT, free_ports

LIMIT = 120


def processor():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def phase(name, call):
    elapsed, used = time.monotonic(), processor()
    call()
    elapsed = time.monotonic() - elapsed
    print(f"{name:32}{elapsed:8.1f} s elapsed{processor() - used:8.1f} s of processor", flush=True)
    return elapsed


def run(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=CLEAN)


def train(python, folder):
    """Both lack a class, and reach what neither can alone."""
    ports = free_ports(2)
    program = os.path.join(ROOT, "python", "examples", "logistic.py")
    both = [subprocess.Popen([python, program, os.path.join(folder, str(i)), ports[i], ports[1 - i], str(i)], stdout=subprocess.PIPE, text=True, env=CLEAN)
            for i in range(2)]
    for process in both:
        said = process.communicate()[0]
        if process.returncode != 0 or float(said.split()[-1]) < 0.85:
            raise SystemExit(f"the two have not trained together: status {process.returncode}, {said!r}")


CLEAN = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "P2PML_LIBRARY")}


def main():
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    what, packages = os.path.abspath(sys.argv[1]), sys.argv[2:] or ["numpy"]
    with tempfile.TemporaryDirectory(prefix="p2pml-install-") as folder:
        python = os.path.join(folder, "venv", "bin", "python")
        phase("virtual environment", lambda: run(sys.executable, "-m", "venv", os.path.join(folder, "venv")))
        total = phase("pip install p2pml", lambda: run(python, "-m", "pip", "install", "-q", what))
        total += phase(f"pip install {' '.join(packages)}", lambda: run(python, "-m", "pip", "install", "-q", *packages))
        total += phase("first import", lambda: run(python, "-c", f"import p2pml, {', '.join(packages)}; from p2pml import _c; _c.library()"))
        total += phase("two processes, 1,000 steps", lambda: train(python, folder))
    print(f"from pip install: {total:.1f} s, limit {LIMIT}")
    raise SystemExit(total > LIMIT)


if __name__ == "__main__":
    main()
