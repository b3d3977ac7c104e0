"""Trainings without an end, in which the path of a host breaks, and how long it takes until all edges exchange again."""

import os
import time

import chaos
import trial

JOB = {"model__hidden": 64, "data__train_count": 3200, "data__test_count": 2000, "train__steps": 10 ** 9, "train__batch": 16, "train__rate": 0.1,
       "train__schedule": "[]", "average__local_steps": 4, "average__ratio": "1/32", "checkpoint__every": 0}
TIMES = ("average.deadline_floor", "average.deadline_ceiling", "average.forget_after", "node.linger", "node.start_timeout")
RATE = 2  # Mbit/s
MTU = 1280
EXCHANGES = 5  # of each end of each edge: some may have been under way, in the queues of the path, when it broke
PATIENCE = 60.0
NEWNS, BIND, PRIVATE = 0x20000, 0x1000, 0x44000  # of unshare and mount; PRIVATE: the whole tree


def use_default_times():
    """Those of p2pml-node, not those of the other trials."""
    for key in TIMES:
        trial.JOB.pop(key, None)
        chaos.MODEL.pop(key, None)


class Named:
    """The namespace of a host that has an /etc/hosts of its own: the file at `path`."""

    def __init__(self, space, path):
        self.space, self.path = space, path
        self.inside = space.inside

    def enter(self):
        libc = chaos.netns.libc
        self.space.enter()
        chaos.netns.check(libc.unshare(NEWNS))
        chaos.netns.check(libc.mount(b"none", b"/", None, PRIVATE, None))
        chaos.netns.check(libc.mount(self.path.encode(), b"/etc/hosts", None, BIND, None))


class Paths(trial.Trial):
    """`kinds`: the router of each host (netns.Homes)."""

    def __init__(self, kinds, mode="async", rate=RATE, **settings):
        use_default_times()
        super().__init__(len(kinds), rate, mode, behind=dict(enumerate(kinds)), **{**JOB, **settings})

    def begin_all(self):
        """Begins them, and waits until all edges exchange."""
        for host in self.hosts:
            self.begin(host)
        self.wait(lambda: all((h.status() or {}).get("state") == "training" for h in self.hosts), "all train", PATIENCE)
        return self.whole_again()

    def edges(self):
        """{(name, neighbour): its row of /status} for all pairs that are neighbours."""
        found = {}
        for host in self.running():
            status = host.status() or {"members": [], "edges": []}
            rows = {e["name"]: e for e in status["edges"]}
            found.update({(host.name, m["name"]): rows.get(m["name"], {}) for m in status["members"] if m["neighbour"]})
        return found

    def whole_again(self):
        """(seconds until each edge has made some exchanges more than now, the edge that was the last)."""
        begun, last = time.monotonic(), None
        wanted = {edge: row.get("exchanges", 0) + EXCHANGES for edge, row in self.edges().items()}

        def all_exchange():
            nonlocal last
            now = self.edges()
            late = {edge: n for edge, n in wanted.items() if now.get(edge, {}).get("exchanges", 0) < n}
            last = next(iter(late), last)
            return not late
        self.wait(all_exchange, f"{EXCHANGES} more exchanges of each edge", PATIENCE)
        return time.monotonic() - begun, last

    def resyncs(self):
        return sum(row.get("resyncs", 0) for row in self.edges().values())

    def swallow_between(self, a, b):
        """Large packets between these two vanish."""
        ends = self.network.outside(a), self.network.outside(b)
        self.network.set("between", *(f"ip saddr {x} ip daddr {y} ip length > {MTU}" for x, y in (ends, ends[::-1])))

    def name(self, i, name):
        """From now on this name is the outside address of host i, for host i itself; it tells it to the others."""
        path = os.path.join(self.directory, "hosts")
        with open(path, "w", encoding="utf-8") as f:
            f.write(f"127.0.0.1 localhost\n{self.network.outside(i)} {name}\n")
        if not isinstance(self.hosts[i].space, Named):
            self.hosts[i].space = Named(self.hosts[i].space, path)
            self.hosts[i].command += ["--set", f"node.advertise={name}:{chaos.netns.PORT}"]
