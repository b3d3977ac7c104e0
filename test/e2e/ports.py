"""Ports for the programs of a test, reserved until it ends. They are below the range of the kernel: a port from that range
may already be the local end of another test's connection when the program binds it."""

import random
import socket

ports_taken = {}  # port -> the claim of this process, a descriptor that stays open until it ends


def claim(port):
    """Claims the name that lab/term/ports.c also uses: one program of a network namespace has it. None: another one has it."""
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
    """A port p such that each p + offset is free and not reserved by another test."""
    while True:
        first = random.SystemRandom().randrange(10240, 32768 - max(offsets))
        claims = {first + offset: claim(first + offset) for offset in offsets}
        if all(claims.values()):
            ports_taken.update((port, name.detach()) for port, name in claims.items())
            return first
        for name in filter(None, claims.values()):
            name.close()
