"""Ports for the programs of a test, and of no other test until it ends. Below those that the kernel assigns by itself:
a port that was bound, closed and named to a program may be the near end of another test's connection by then."""

import random
import socket

ports_taken = {}  # port -> the claim of this process, a descriptor that lasts until it ends


def claim(port):
    """The name that lab/term/ports.c takes, too: one program of a network namespace has it. None: another one has the port."""
    name = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        name.bind(f"\0p2pml-port-{port}")
        for kind in socket.SOCK_STREAM, socket.SOCK_DGRAM:
            with socket.socket(socket.AF_INET, kind) as s:
                s.bind(("127.0.0.1", port))
        return name
    except OSError:
        name.close()
        return None


def free_ports(count):
    return [free_block(0) for _ in range(count)]


def free_block(*offsets):
    """A port p such that p + each of the offsets is free, and not those of a test that runs beside this one."""
    while True:
        first = random.SystemRandom().randrange(10240, 32768 - max(offsets))
        claims = {first + offset: claim(first + offset) for offset in offsets}
        if all(claims.values()):
            ports_taken.update((port, name.detach()) for port, name in claims.items())
            return first
        for name in filter(None, claims.values()):
            name.close()
