"""Trainings of real nodes of which most stand behind routers, and which edges of their plan are live."""

import math
import statistics
import time

import chaos
import trial

JOB = {"model__hidden": 64, "data__train_count": 3200, "data__test_count": 1000, "train__steps": 3200, "train__batch": 16, "train__rate": 0.1,
       "average__local_steps": 4, "average__ratio": "1/32"}
TIMES = ("average.deadline_floor", "average.deadline_ceiling", "average.forget_after", "node.linger", "node.start_timeout")
RATE = 2  # Mbit/s
LOOK_S = 0.5
PATH = 1280  # bytes of the largest packet that a bad path lets through
WHOLE_MOST = 5.0  # seconds after a fault


def use_default_times():
    """Those of p2pml-node, not those of the other trials."""
    for key in TIMES:
        trial.JOB.pop(key, None)
        chaos.MODEL.pop(key, None)


def behind(kinds, count):
    """Which router each host has. The kinds repeat; without `open` among them host 0 is open. A number: in the home of that host."""
    kinds = [int(kind) if kind.isdigit() else kind for kind in kinds]
    order = [] if "open" in kinds else ["open"]
    while len(order) < count:
        order += kinds
    return dict(enumerate(order[:count]))


class Homes(trial.Trial):
    """Keeps the last status in which each node trained."""

    def __init__(self, count, kinds, mode="async", rate=RATE, **settings):
        super().__init__(count, rate, mode, behind=behind(kinds, count), **{**JOB, **settings})
        self.last, self.looked = {}, 0.0
        self.struck = None
        self.faults = {"forget": self.network.forget, "move": self.network.move, "swallow": lambda home: self.network.swallow(home, PATH)}

    def strike(self, fault, i):
        """Hits the router of host i, or its path."""
        self.faults[fault](self.network.home[i])
        self.struck = self.hosts[i].name, time.time()

    def turn(self, moments):
        over = super().turn(moments)
        if not over and time.time() >= self.looked + LOOK_S:
            self.looked = time.time()
            self.look()
        return over

    def look(self):
        for host in self.running():
            status = host.status()
            if status and status["state"] == "training":
                self.last[host.name] = status


def standstill(life, moment):
    """The longest time, from that moment to its end, in which a node met a neighbour that it had met before not once."""
    met, rounds = {}, [row for row in life.rows if "met" in row]  # the line after a merge has none
    for row in rounds:
        for neighbour in row["met"]:
            met.setdefault(neighbour, []).append(row["time"])
    longest = 0.0
    for times in (t for t in met.values() if t[0] < moment):
        after = [moment, *(t for t in times if t > moment), rounds[-1]["time"]]
        longest = max(longest, *(b - a for a, b in zip(after, after[1:])))
    return longest


class Edges:
    """Of the plan: pairs that one of the two holds for neighbours. Live: both hold them for live, and have met. By the status of each."""

    def __init__(self, last):
        self.plan = {frozenset((name, m["name"])) for name, s in last.items() for m in s["members"] if m["neighbour"]}
        met = {(name, e["name"]) for name, s in last.items() for e in s["edges"] if e["state"] == "live" and e["exchanges"]}
        self.live = {pair for pair in self.plan if all(way in met for way in (tuple(pair), tuple(pair)[::-1]))}
        self.relayed = {frozenset((name, m["name"])): m["via"] for name, s in last.items() for m in s["members"] if m["neighbour"] and m.get("via")}

    def line(self):
        over = ", ".join(f"{'-'.join(sorted(pair))} over {via}" for pair, via in sorted(self.relayed.items(), key=lambda p: sorted(p[0])))
        return f"edges live {len(self.live)} of {len(self.plan)}, relayed {len(self.relayed)}{': ' * bool(over)}{over}"

    def wrong(self):
        return [f"the edge {'-'.join(pair)} of the plan is not live" for pair in sorted(sorted(p) for p in self.plan - self.live)]


class Outcome:
    """What a run of Homes came to. `problems`: one line for each thing that is not as it should be."""

    def __init__(self, run, result):
        self.seconds, self.last, self.edges = result.seconds, run.last, Edges(run.last)
        self.struck = run.struck
        self.still = standstill(result.lives[run.struck[0]], run.struck[1]) if run.struck else 0.0
        self.resyncs = sum(e["resyncs"] for s in run.last.values() for e in s["edges"])
        self.nodes = [(h.name, h.process.returncode, result.accuracy(h)) for h in run.hosts]
        measured = [accuracy for _, _, accuracy in self.nodes if accuracy is not None]
        self.mean, self.worst = (statistics.fmean(measured), min(measured)) if measured else (0.0, 0.0)
        self.problems = list(self.wrong())

    def wrong(self):
        for name, status, accuracy in self.nodes:
            if status != 0:
                yield f"{name} ended with {status}"
            if accuracy is None:
                yield f"{name} has measured no accuracy"
            if name not in self.last:
                yield f"{name} was never seen training"
            elif self.last[name]["members_here"] != len(self.nodes):
                yield f"{name} saw {self.last[name]['members_here']} of {len(self.nodes)} members at its end"
        yield from self.edges.wrong()
        if self.still > WHOLE_MOST:
            yield f"{self.struck[0]} had no exchange with a neighbour for {self.still:.1f} s; {WHOLE_MOST:g} s is the most"

    def line(self):
        hit = f"{self.struck[0]} stood still for {self.still:.1f} s; " if self.struck else ""
        return (f"{self.edges.line()}; mean {self.mean:.2f}, worst {self.worst:.2f}; {hit}{self.resyncs} RESYNC; "
                f"statuses {' '.join(str(status) for _, status, _ in self.nodes)}; {self.seconds:.0f} s")


def run(count, kinds, mode="async", most=math.inf, name="homes", fault=None, **settings):
    """fault: (name, host), after 30% of the rounds."""
    with Homes(count, kinds, mode, **settings) as one:
        if fault:
            one.at(trial.part(one, 0.3), lambda: one.strike(*fault))
        return Outcome(one, one.run(most, name))
