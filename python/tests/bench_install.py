"""From `pip install` to two processes that have trained together, phase by phase: bench_install.py WHEEL|FOLDER [PACKAGE...]

Works in a new virtual environment. WHEEL: made by python/manylinux.sh. FOLDER: the sources, which are built first (with P2PML_BUILD: an existing
build). PACKAGE: further packages to install; default: numpy. If torch is among them the two processes train with `attach`, otherwise in numpy.
Prints elapsed and processor time of each phase; the limit is 120 s from `pip install` on."""

import os
import resource
import subprocess
import sys
import tempfile
import time

import pair

LIMIT = 120
WORKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "worker.py")


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
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=pair.CLEAN)


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
        total += phase("two processes, training", lambda: pair.train(python, WORKER if "torch" in packages else None))
    print(f"from pip install: {total:.1f} s, limit {LIMIT}")
    raise SystemExit(total > LIMIT)


if __name__ == "__main__":
    main()
