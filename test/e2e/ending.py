"""How a program that is late ends: by SIGABRT, which a Python with faulthandler answers with the lines of all its threads."""

import signal
import subprocess
import sys
import time


def status(process, name, until):
    """Its exit status; `until` (of time.monotonic) it may run."""
    try:
        return process.wait(max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        print(f"{name} has not ended; where it waits:", file=sys.stderr, flush=True)
        process.send_signal(signal.SIGABRT)
        return process.wait()
