"""Ends a program that is late: by SIGABRT, to which a Python with faulthandler prints the stacks of all its threads."""

import signal
import subprocess
import sys
import time


def status(process, name, until):
    """The exit status of the program, which may run until `until` (of time.monotonic)."""
    try:
        return process.wait(max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        print(f"{name} has not ended; where it waits:", file=sys.stderr, flush=True)
        process.send_signal(signal.SIGABRT)
        return process.wait()
