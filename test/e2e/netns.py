"""Hosts in a separate network: one network namespace per node, and a router between them that can lose packets and
be slow. In `Homes` some hosts stand behind a router of their own.

The namespaces have no names. They exist as long as the descriptors of this process and the processes inside: nothing
is left over, however a test ends. Needs root, iproute2 and nftables."""

import contextlib
import ctypes
import os
import shutil
import socket
import struct
import subprocess
import sys
import threading

NEWNET = 0x40000000
NETFILTER, CONNTRACK_DELETE, REQUEST, ACKNOWLEDGE = 12, 0x102, 1, 4  # of netlink
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

    def way_out(self, i):
        """The two ends of the line of a host: the device in the router, and (namespace, device) at the other end."""
        return f"host{i}", self.spaces[i], "net"

    def limit_one(self, i, mbit, queue_ms=200):
        burst = max(4000, int(mbit * 1e6 / 8 * 0.01))  # the bytes of 10 ms, at least two packets
        shape = ("root", "tbf", "rate", f"{mbit:g}mbit", "burst", f"{burst}b", "latency", f"{queue_ms}ms")
        near, space, far = self.way_out(i)
        self.router.run("tc", "qdisc", "replace", "dev", near, *shape)
        space.run("tc", "qdisc", "replace", "dev", far, *shape)

    def address(self, i):
        """The address that the host itself has."""
        return f"10.7.{i}.2"

    def outside(self, i):
        """The address of its packets in the router."""
        return self.address(i)

    def apply(self):
        rules = "".join(f"add rule ip chaos way {rule} counter drop\n" for rules in self.rules.values() for rule in rules)
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
        sets = ["{ " + ", ".join(self.outside(i) for i in side) + " }" for side in sides]
        self.set("partition", *(f"ip saddr {a} ip daddr {b}" for a in sets for b in sets if a != b))

    def lose(self, percent, of="meta l4proto udp"):
        self.set("loss", f"{of} numgen random mod 100 < {percent}")

    def block_udp(self):
        self.set("udp", "meta l4proto udp")

    def swallow(self, i, mtu):
        """Larger packets from and to this host vanish, and nobody is told; None: no longer."""
        self.set(f"swallow{i}", *(f"ip {end} {self.outside(i)} ip length > {mtu}" for end in ("saddr", "daddr") if mtu))

    def silence(self, *hosts):
        """As if the cable of these hosts had been pulled: nothing comes back, not even a refusal."""
        if hosts:
            names = "{ " + ", ".join(self.outside(i) for i in hosts) + " }"
            self.set("silence", f"ip saddr {names}", f"ip daddr {names}")
        else:
            self.set("silence")

    def deafen(self, *hosts):
        """Nothing reaches these hosts; what they send goes out."""
        self.set("deaf", *(f"ip daddr {self.outside(i)}" for i in hosts))

    def mute(self, *hosts):
        """Nothing that these hosts send arrives; they receive everything."""
        self.set("mute", *(f"ip saddr {self.outside(i)}" for i in hosts))

    def close(self):
        for space in (self.router, *self.spaces):
            space.close()


PORT = 7400  # the port on which hosts listen, for full-cone
ONE_EACH = "gso_max_segs", "1"  # what a host sends at once is a packet of the wire, not many in one: a path compares lengths

FILTER = """
table ip home {
  chain way {
    type filter hook forward priority 0; policy drop;
    ct state established,related accept
    ct state invalid drop
    iifname "lan" accept
  }
  chain itself {
    type filter hook input priority 0; policy drop;
    iifname "lan" accept
    ct state established,related accept
  }
}
"""
OUT = "type nat hook postrouting priority 100;"
PORT_RESTRICTED = FILTER + f"add chain ip home out {{ {OUT} }}\nadd rule ip home out oifname wan masquerade\n"
SYMMETRIC = FILTER + f"add chain ip home out {{ {OUT} }}\nadd rule ip home out oifname wan masquerade fully-random\n"


def full_cone(hosts):
    """Host k has the outside port PORT + k for its port PORT. Once it has sent from there, anybody may come in, by the same protocol."""
    out, come = "", ""
    for k, host in enumerate(hosts):
        for protocol in "tcp", "udp":
            out += (f"add rule ip home out oifname wan ip saddr {host} {protocol} sport {PORT} update @sent {{ meta l4proto . ip saddr }} "
                    f"masquerade to :{PORT + k}\n")
            come += f"add rule ip home in iifname wan {protocol} dport {PORT + k} dnat to {host}:{PORT}\n"
    return FILTER + f"""
add set ip home sent {{ type inet_proto . ipv4_addr; flags dynamic; size 1024; }}
add chain ip home out {{ {OUT} }}
{out}add rule ip home out oifname wan masquerade
add chain ip home in {{ type nat hook prerouting priority -100; }}
{come}add rule ip home way ct status dnat meta l4proto . ip daddr @sent accept
"""


class Homes(Network):
    """`behind`: the kind of the router before a host, or the number of another host, in whose home it stands. Others are `open`.

    | kind | incoming | outside port |
    |---|---|---|
    | `full-cone` | from anybody to PORT, once the host has sent from there | PORT (+ 1, + 2 for further hosts) |
    | `port-restricted` | answers, by address and port | the same |
    | `symmetric` | answers | another one for each destination |
    | `firewall` | answers; no NAT | the same |
    | `double` | two port-restricted ones in a row | the same |

    No router takes up a connection whose beginning it has not seen. What is sent to a private address vanishes in the router in the
    middle, and hosts of two homes may have the same one. Hosts of a home are on one wire; rate and queue are those of the line of the home."""

    KINDS = ("open", "full-cone", "port-restricted", "symmetric", "firewall", "double")
    NETS = ("192.168.0", "192.168.1", "192.168.178")

    def __init__(self, count, behind):
        self.home = {i: kind if isinstance(kind, int) else i for i, kind in behind.items() if kind != "open"}
        self.kind = {i: behind[home] for i, home in self.home.items()}
        self.hosts = {home: [i for i in self.home if self.home[i] == home] for home in self.home.values()}
        self.routers, self.moves = {}, {}
        strange = set(self.kind.values()) - set(self.KINDS)
        if strange:
            raise ValueError(f"no router is {', '.join(map(str, strange))}; there are {', '.join(self.KINDS)}")
        super().__init__(count)
        self.router.run("ip", "-batch", "-", said="route add blackhole 192.168.0.0/16\nroute add blackhole 100.64.0.0/16\n")

    def connect(self, i, space):
        if i not in self.home:
            super().connect(i, space)
            space.run("ip", "link", "set", "net", *ONE_EACH)
        elif self.home[i] == i:
            self.build(i)

    def build(self, home):
        """The routers of a home, the outermost one first, and its hosts."""
        kind, hosts = self.kind[home], [self.address(i) for i in self.hosts[home]]
        rules = {"full-cone": full_cone(hosts), "port-restricted": PORT_RESTRICTED, "symmetric": SYMMETRIC, "firewall": FILTER,
                 "double": PORT_RESTRICTED}[kind]
        self.routers[home] = [Space() for _ in range(2 if kind == "double" else 1)]
        self.line(self.router, f"host{home}", f"10.7.{home}.1", self.routers[home][0], f"10.7.{home}.2")
        if kind == "double":
            self.line(self.routers[home][0], "lan", f"100.64.{home}.1", self.routers[home][1], f"100.64.{home}.2")
        for space in self.routers[home]:
            space.run("sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward; echo 0 >/proc/sys/net/netfilter/nf_conntrack_tcp_loose")
            space.run("nft", "-f", "-", said=rules)
        if kind == "firewall":
            self.router.run("ip", "route", "add", f"{self.net(home)}.0/24", "via", f"10.7.{home}.2")
        self.wire(home)

    @staticmethod
    def line(above, device, near, below, far):
        above.run("ip", "-batch", "-", said=f"link add {device} type veth peer name wan netns {below.path}\n"
                  f"addr add {near}/30 dev {device}\nlink set {device} up\n")
        below.run("ip", "-batch", "-", said=f"link set lo up\naddr add {far}/30 dev wan\nlink set wan up\n"
                  f"route add default via {near}\n")

    def wire(self, home):
        """A bridge with all hosts of the home; its address is that of the innermost router."""
        inner, net = self.routers[home][-1], self.net(home)
        inner.run("ip", "-batch", "-", said=f"link add lan type bridge\naddr add {net}.1/24 dev lan\nlink set lan up\n")
        for i in self.hosts[home]:
            space = self.spaces[i]
            inner.run("ip", "-batch", "-", said=f"link add host{i} type veth peer name net netns {space.path}\n"
                      f"link set host{i} master lan up\n")
            space.run("ip", "-batch", "-", said=f"link set lo up\naddr add {self.address(i)}/24 dev net\nlink set net up {' '.join(ONE_EACH)}\n"
                      f"route add default via {net}.1\n")

    def net(self, home):
        return f"10.8.{home}" if self.kind[home] == "firewall" else self.NETS[home % len(self.NETS)]

    def address(self, i):
        if i not in self.home:
            return super().address(i)
        return f"{self.net(self.home[i])}.{2 + self.hosts[self.home[i]].index(i)}"

    def outside(self, i):
        if self.kind.get(i, "firewall") == "firewall":
            return self.address(i)
        return f"10.{7 + 2 * self.moves.get(self.home[i], 0)}.{self.home[i]}.2"

    def way_out(self, i):
        return (f"host{self.home[i]}", self.routers[self.home[i]][0], "wan") if i in self.home else super().way_out(i)

    def forget(self, home):
        """As if the routers of this home had been restarted: they know no connection any more."""
        for space in self.routers[home]:
            if self.kind[home] == "full-cone":
                space.run("nft", "flush", "set", "ip", "home", "sent")
            self.end_connections(space)

    @staticmethod
    def end_connections(space):
        with space.inside():
            netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETFILTER)
        with netlink:
            # No attribute: all connections. Header: length, type, flags, number, port; then family, version, resource.
            netlink.send(struct.pack("=IHHIIBBH", 20, CONNTRACK_DELETE, REQUEST | ACKNOWLEDGE, 1, 0, socket.AF_INET, 0, 0))
            error, = struct.unpack_from("=i", netlink.recv(4096), 16)
        check(error)

    def move(self, home):
        """The provider gives the home another address. What went over the old one ends."""
        if self.kind[home] == "firewall":
            raise ValueError("the hosts behind a firewall have addresses of their own")
        self.moves[home] = self.moves.get(home, 0) + 1
        far = self.outside(home)
        near = far[:-1] + "1"
        self.router.run("ip", "-batch", "-", said=f"addr flush dev host{home}\naddr add {near}/30 dev host{home}\n")
        self.routers[home][0].run("ip", "-batch", "-", said=f"addr flush dev wan\naddr add {far}/30 dev wan\n"
                                  f"route add default via {near}\n")
        self.end_connections(self.routers[home][0])  # the kernel does it too, but later on a busy machine

    def close(self):
        super().close()
        for spaces in self.routers.values():
            for space in spaces:
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


def skip_if_missing():
    reason = missing()
    if reason:
        print(f"skipped: {reason}")
        sys.exit(77)
