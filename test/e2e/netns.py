"""Hosts in a separate network: one network namespace per node, and a router between them that can lose packets and
be slow.

The namespaces have no names. They exist as long as the descriptors of this process and the processes inside: nothing
is left over, however a test ends. Needs root, iproute2 and nftables."""

import contextlib
import ctypes
import os
import shutil
import subprocess
import threading

NEWNET = 0x40000000
PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
libc = ctypes.CDLL(None, use_errno=True)


def check(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


class Space:
    def __init__(self):
        self.home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            check(libc.unshare(NEWNET))
            self.descriptor = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        finally:
            check(libc.setns(self.home, NEWNET))
        self.path = f"/proc/{os.getpid()}/fd/{self.descriptor}"

    def enter(self):
        """Enters the namespace; for a process between fork and exec."""
        check(libc.setns(self.descriptor, NEWNET))

    @contextlib.contextmanager
    def inside(self):
        """The calling thread is in this namespace; a socket that it opens stays there."""
        check(libc.setns(self.descriptor, NEWNET))
        try:
            yield
        finally:
            check(libc.setns(self.home, NEWNET))

    def run(self, *command, said=None):
        done = subprocess.run(command, input=said, text=True, capture_output=True, preexec_fn=self.enter,
                              env={**os.environ, "PATH": PATH}, timeout=60, check=False)
        if done.returncode != 0:
            raise OSError(f"{' '.join(command)} ({said}): {done.stderr.strip()}")
        return done.stdout

    def close(self):
        os.close(self.descriptor)
        os.close(self.home)


class Network:
    """`count` hosts behind one router. Packets are dropped silently in the router."""

    def __init__(self, count):
        self.router = Space()
        self.spaces = [Space() for _ in range(count)]
        self.rules = {}
        self.lock = threading.Lock()
        self.router.run("sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")
        self.router.run("nft", "-f", "-", said="add table ip chaos\nadd chain ip chaos way "
                        "{ type filter hook forward priority 0; policy accept; }\n")
        for i, space in enumerate(self.spaces):
            self.connect(i, space)

    def connect(self, i, space):
        near, far = f"10.7.{i}.1/30", f"{self.address(i)}/30"
        self.router.run("ip", "-batch", "-", said=f"link add host{i} type veth peer name net netns {space.path}\n"
                        f"addr add {near} dev host{i}\nlink set host{i} up\n")
        space.run("ip", "-batch", "-", said=f"link set lo up\naddr add {far} dev net\nlink set net up\n"
                  f"route add default via {near[:-3]}\n")

    def limit(self, mbit, queue_ms=200):
        """That many Mbit/s in each direction for each host, and a queue for each direction that holds the bytes of `queue_ms`."""
        for i in range(len(self.spaces)):
            self.limit_one(i, mbit, queue_ms)

    def limit_one(self, i, mbit, queue_ms=200):
        burst = max(4000, int(mbit * 1e6 / 8 * 0.01))  # the bytes of 10 ms, at least two packets
        shape = ("root", "tbf", "rate", f"{mbit:g}mbit", "burst", f"{burst}b", "latency", f"{queue_ms}ms")
        self.router.run("tc", "qdisc", "replace", "dev", f"host{i}", *shape)
        self.spaces[i].run("tc", "qdisc", "replace", "dev", "net", *shape)

    @staticmethod
    def address(i):
        return f"10.7.{i}.2"

    def apply(self):
        rules = "".join(f"add rule ip chaos way {rule} drop\n" for rules in self.rules.values() for rule in rules)
        self.router.run("nft", "-f", "-", said="flush chain ip chaos way\n" + rules)

    def set(self, name, *rules):
        """Sets all rules of a name at once; no rules remove it."""
        with self.lock:
            self.rules[name] = rules
            self.apply()

    def heal(self):
        with self.lock:
            self.rules = {}
            self.apply()

    def partition(self, *sides):
        """No host reaches one of another side."""
        sets = ["{ " + ", ".join(self.address(i) for i in side) + " }" for side in sides]
        self.set("partition", *(f"ip saddr {a} ip daddr {b}" for a in sets for b in sets if a != b))

    def lose(self, percent, of="meta l4proto udp"):
        self.set("loss", f"{of} numgen random mod 100 < {percent}")

    def block_udp(self):
        self.set("udp", "meta l4proto udp")

    def silence(self, *hosts):
        """As if the cable of these hosts had been pulled: nothing comes back, not even a refusal."""
        if hosts:
            names = "{ " + ", ".join(self.address(i) for i in hosts) + " }"
            self.set("silence", f"ip saddr {names}", f"ip daddr {names}")
        else:
            self.set("silence")

    def deafen(self, *hosts):
        """Nothing reaches these hosts; what they send goes out."""
        self.set("deaf", *(f"ip daddr {self.address(i)}" for i in hosts))

    def mute(self, *hosts):
        """Nothing that these hosts send arrives; they receive everything."""
        self.set("mute", *(f"ip saddr {self.address(i)}" for i in hosts))

    def close(self):
        for space in (self.router, *self.spaces):
            space.close()


def missing():
    """Why such a network cannot be made here; None if it can."""
    if os.geteuid() != 0:
        return "not root: network namespaces can't be made"
    for tool, package in (("ip", "iproute2"), ("tc", "iproute2"), ("nft", "nftables")):
        if not shutil.which(tool, path=PATH):
            return f"{tool} is not here (Debian: {package})"
    try:
        network = Network(2)
        try:
            network.partition([0], [1])
            network.lose(30)
            network.limit(1)
            network.heal()
        finally:
            network.close()
    except OSError as error:
        return f"the kernel makes no such network: {error}"
    return None
