"""Ports for the programs of a test, and of no other test until it ends. Below those that the kernel gives to whoever asks for any:
a port that was bound, closed and named to a program may be the near end of another test's connection by then."""

import fcntl
import os
import random
import socket
import tempfile

TAKEN = os.open(os.path.join(tempfile.gettempdir(), f"p2pml-e2e-ports-{os.getuid()}"),
                os.O_WRONLY | os.O_CREAT)  # byte p is locked: port p is taken
ports_taken = set()  # by this process


def is_free(port):
    try:
        fcntl.lockf(TAKEN, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
        with socket.socket() as s:
            s.bind(("127.0.0.1", port))
        return True
    except OSError:
        return False


def free_ports(count):
    return [free_block(0) for _ in range(count)]


def free_block(*offsets):
    """A port p such that p + each of the offsets is free, and not those of a test that runs beside this one."""
    while True:
        first = random.SystemRandom().randrange(10240, 32768 - max(offsets))
        block = [first + offset for offset in offsets]
        if not ports_taken.intersection(block) and all(is_free(port) for port in block):
            ports_taken.update(block)
            return first
