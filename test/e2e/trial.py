"""Trainings of real nodes to their last step on slow links, with events at certain rounds, and the conditions that must hold.

    with Trial(6, rate=1, mode="sync") as trial:
        trial.at(100, lambda: trial.kill(2))
        trial.at(150, lambda: trial.back(2))
        result = trial.run()

Events happen at rounds, not at times: a busy machine is slow, and events must happen in the same part of the training.
The round of the cluster is the median of those of the running nodes. All hosts share one clock, so their metrics.jsonl
and events.jsonl can be compared."""

import bisect
import json
import math
import os
import shutil
import statistics
import time

from chaos import Cluster, signal
from cluster import PATIENCE, failure

LATE = 0.3  # seconds by which a row may be written late on an overloaded machine
LEAD_GOAL = {"sync": 1}
LEAD_MAX = {"sync": 20}  # while a new edge compares states; a node that trains alone would be hundreds ahead

JOB = {
    "model.kind": "mlp", "model.hidden": 32, "data.train_count": 8000, "data.test_count": 2000,
    "data.partition": "dirichlet", "data.alpha": 0.1, "train.steps": 4800, "train.batch": 32, "train.rate": 0.1,
    "train.schedule": "[0.6:0.3, 0.85:0.1]", "train.eval_rounds": 0, "average.local_steps": 4, "average.ratio": "1/16",
    "average.deadline_floor": "1s", "average.deadline_ceiling": "10s", "average.forget_after": "60s",
    "topology.kind": "ring", "checkpoint.every": "1s", "node.linger": "60s", "node.start_timeout": "120s",
}


class Life:
    """The records of one node, by time."""

    def __init__(self, host, spans):
        self.name, self.spans = host.name, spans
        rows = host.metrics()
        self.times = [r["time"] for r in rows]
        self.rounds = [r["round"] for r in rows]
        self.rows = rows
        # The end of its latest pause, from each of these times on; inf during a pause.
        self.waits = sorted([(e["time"], math.inf) for e in host.events(0, "paused")] +
                            [(e["time"], e["time"]) for e in host.events(0, "resumed")])
        views = host.events(0, "view")
        self.view_times = [e["time"] for e in views]
        self.neighbours = [e["neighbours"] for e in views]
        self.members = [e["members"] for e in views]

    def span(self, t):
        """(begin, end) of the process that ran at that time; None: none did."""
        return next((s for s in self.spans if s[0] <= t and (s[1] is None or t < s[1])), None)

    def round_at(self, t):
        """Its last round by then; None: it pauses, or has done none since it was started or paused. A paused node ends the
        round that is open, takes no step, and continues at the round of the others."""
        span = self.span(t)
        i = bisect.bisect_right(self.times, t) - 1
        if not span or i < 0:
            return None
        i_wait = bisect.bisect_right(self.waits, (t, math.inf)) - 1
        since = self.waits[i_wait][1] if i_wait >= 0 and self.waits[i_wait][0] >= span[0] else span[0]
        return self.rounds[i] if self.times[i] >= since else None

    def neighbours_at(self, t):
        i = bisect.bisect_right(self.view_times, t) - 1
        return self.neighbours[i] if i >= 0 else []

    def rests_at(self, t):
        """In a ring of an odd number one member rests in each round: between two meetings of two neighbours are up to two rounds, not
        one, so in lock-step a node is up to two rounds ahead."""
        i = bisect.bisect_right(self.view_times, t) - 1
        return i >= 0 and self.members[i] > 1 and self.members[i] % 2 == 1


class Trial(Cluster):
    def __init__(self, count, rate=None, mode="sync", network=True, disk=False, behind=None, **settings):
        job = {**JOB, "average.mode": mode, **{k.replace("__", "."): v for k, v in settings.items()}}
        super().__init__(count, network, disk, behind, **{k.replace(".", "__"): v for k, v in job.items()})
        self.mode, self.settings = mode, job
        self.rounds = int(job["train.steps"]) // int(job["average.local_steps"])
        self.spans = {h: [] for h in self.hosts}
        self.moments, self.timers, self.apart, self.known, self.returned = [], [], [], [], []
        if rate:
            self.network.limit(rate)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # -- events

    def at(self, round_, action):
        self.moments.append((round_, action))

    def after(self, seconds, action):
        self.timers.append((time.time() + seconds, action))

    def begin(self, host, *more):
        self.spans[host].append([time.time(), None])
        host.start(*more)

    def kill(self, *numbers):
        """kill -9."""
        for host in (self.hosts[i] for i in numbers):
            self.spans[host][-1][1] = host.kill()
            self.known.append(("killed", host, self.spans[host][-1][1]))

    def back(self, *numbers):
        for host in (self.hosts[i] for i in numbers):
            self.begin(host, "--resume")

    def fault(self, name, *numbers):
        """deaf, mute or cut, until heal()."""
        network = self.network
        {"deaf": network.deafen, "mute": network.mute, "cut": network.silence}[name](*numbers)
        now = time.time()
        self.apart.append([now, None, {self.hosts[i].name for i in numbers}])
        self.known += [(name, self.hosts[i], now) for i in numbers]

    def heal(self):
        self.network.heal()
        now = time.time()
        for part in self.apart:
            part[1] = part[1] or now
            self.returned += [(now, self.host(n)) for n in part[2]]

    def host(self, name):
        return next(h for h in self.hosts if h.name == name)

    # -- a run

    def cluster_round(self):
        return statistics.median_low([h.round() for h in self.running()] or [0])

    def ended(self):
        """The nodes that ended by themselves."""
        for host in self.running():
            if host.process.poll() is not None:
                self.spans[host][-1][1] = time.time()
                host.running = False
        return not self.running()

    def turn(self, moments):
        if self.ended():
            return True
        while moments and self.cluster_round() >= moments[0][0]:
            moments.pop(0)[1]()
        for timer in [t for t in self.timers if t[0] <= time.time()]:
            self.timers.remove(timer)
            timer[1]()
        time.sleep(0.1)
        return False

    def run(self, most=math.inf, name="run"):
        """Fails after `most` seconds, or PATIENCE seconds in which no node does a round."""
        moments = sorted(self.moments, key=lambda m: m[0])
        begun = moved = time.time()
        for host in self.hosts:
            self.begin(host)
        rounds = 0
        while not self.turn(moments):
            rounds, before = sum(h.round() for h in self.hosts), rounds
            if rounds != before:
                moved = time.time()
            if time.time() > moved + PATIENCE:
                raise failure(f"no node does a round for {PATIENCE:g} s", self.tell())
            if time.time() > begun + most:
                raise failure(f"not at its end within {most:g} s", self.tell())
        if moments or self.timers:
            raise failure("the training ended before all its events had happened", self.tell())
        self.keep(name)
        return Result(self, time.time() - begun)

    def keep(self, name):
        """Copies logs, events and metrics of a run to a folder of P2PML_E2E_KEEP, for the cause of a figure."""
        kept = os.environ.get("P2PML_E2E_KEEP")
        if kept:
            directory = os.path.join(kept, f"{name}-{len(self.hosts)}-{self.mode}-{os.path.basename(self.directory)}")
            shutil.copytree(self.directory, directory, ignore=shutil.ignore_patterns("*.safetensors", "secret", "identity"))
            with open(os.path.join(directory, "trial.json"), "w", encoding="utf-8") as f:
                json.dump({"spans": {h.name: s for h, s in self.spans.items()},
                           "apart": [[a, b, sorted(names)] for a, b, names in self.apart],
                           "known": [[name, h.name, t] for name, h, t in self.known]}, f)

    def tell(self):
        for host in self.hosts:
            host.running = host.process is not None and host.process.poll() is None
        return super().tell()


class Result:
    """The result of a run. `problems` lists what is wrong, one line each."""

    def __init__(self, trial, seconds):
        self.trial, self.seconds, self.problems = trial, seconds, []
        self.lives = {h.name: Life(h, trial.spans[h]) for h in trial.hosts}
        here = [h for h in trial.hosts if h.process and h.process.poll() == 0]
        for host in trial.hosts:
            if host not in here and host.process.poll() != -signal.SIGKILL:
                self.problems.append(f"{host.name} ended with {host.process.poll()}")
        self.accuracies = {h.name: self.accuracy(h) for h in here}
        measured = [a for a in self.accuracies.values() if a is not None]
        self.worst = min(measured, default=0.0)
        self.mean = statistics.fmean(measured) if measured else 0.0
        self.lead, self.over, self.over_of = self.leads()
        self.made_up = self.rounds_made_up()
        self.dead_after = self.deaths(trial.known)
        self.back_after = [self.whole_after(h, t) for t, h in trial.returned]
        self.bytes, self.exchanged = self.spent("bytes_sent"), self.spent("delta_bytes")

    def spent(self, counter):
        """Of all nodes. A process counts from 0, so a lower value is that of the next one."""
        values = [[row[counter] for row in life.rows] + [0] for life in self.lives.values()]
        return sum(now for own in values for now, later in zip(own, own[1:]) if later < now)

    @staticmethod
    def accuracy(host):
        """In percent, after its last step; None: it was not measured."""
        rows = [r for r in host.metrics() if r["accuracy"] is not None]
        return 100 * rows[-1]["accuracy"] if rows else None

    def parted(self, a, b, t):
        """Whether a fault separates these two at that time, or did a moment before."""
        return any(begin <= t <= (end or t) + 1 and (a in names or b in names)
                   for begin, end, names in self.trial.apart)

    def together(self, life, t):
        """(name, round) of the living neighbours of a node, by its own view, that had made a round by then. A node that comes
        back begins at the round that the others had when it heard of them, so none was ahead of it before."""
        for name in life.neighbours_at(t):
            other = self.lives[name]
            round_ = other.round_at(t + LATE) if other.round_at(t) is not None else None
            if round_ is not None and not self.parted(life.name, name, t):
                yield name, round_

    def leads(self):
        """(lead, over, of): the largest lead of any node over a living neighbour, in rounds; the largest one without the round of rest
        in an odd ring or that of a neighbour at its boundary, and whose it was: (node, neighbour, seconds, lead)."""
        most, over, of = 0, 0, None
        for life in self.lives.values():
            for t, r in zip(life.times, life.rounds):
                # Bounded: the neighbour may have done one round more, and stand at its boundary.
                rest = self.trial.mode == "bounded" or (self.trial.mode == "sync" and life.rests_at(t))
                for name, other in self.together(life, t):
                    most = max(most, r - other)
                    if r - other - rest > over:
                        over, of = r - other - rest, (life.name, name, round(t - life.times[0], 1), r - other)
        return most, over, of

    def rounds_made_up(self):
        """The largest number of rounds that any node did while all its living neighbours were more than 20 rounds further."""
        most = 0
        for life in self.lives.values():
            behind = 0
            for t, r in zip(life.times, life.rounds):
                others = [o for _, o in self.together(life, t - LATE)]
                behind += bool(others) and min(others) > r + 20
            most = max(most, behind)
        return most

    def deaths(self, moments):
        """Seconds until the last of the others considered it dead, one value each; None: not all of them did. The others are
        the nodes that ran from then on until the end and had no fault at that time. A node that was back within 5 s is
        left out."""
        times = []
        for name, host, moment in moments:
            until = min([s[0] for s in self.trial.spans[host] if s[0] > moment] +
                        [p[1] for p in self.trial.apart if p[1] and p[1] > moment and host.name in p[2]], default=moment + 60)
            hit = {h for n, h, t in moments if n == name and abs(t - moment) < 2}
            seen = []
            for other in self.trial.hosts:
                span = self.lives[other.name].span(moment)
                if other in hit or not span or (span[1] and span[1] < until):
                    continue
                told = [e["time"] - moment for e in other.events(moment, "dead") if e["member"] == host.name]
                seen.append(told[0] if told and told[0] < until - moment else None)
            if None not in seen and seen:
                times.append(max(seen))
            elif name != "killed" or until > moment + 5:
                times.append(None)
        return times

    def whole_after(self, host, moment):
        """Seconds until the last of the others had all nodes in its graph again; None: one of them had not. A node that ends
        within 20 s does not count."""
        seen = [0.0]
        for other in self.trial.hosts:
            span = self.lives[other.name].span(moment)
            if other is host or not span:
                continue
            views = [(e["time"], e["members"]) for e in other.events(0, "view")]
            whole = [t for t, members in views if t > moment and members == len(self.trial.hosts)]
            before = [members for t, members in views if t <= moment][-1:]
            if before == [len(self.trial.hosts)] or (not whole and span[1] and span[1] < moment + 20):
                continue
            seen.append(whole[0] - moment if whole else None)
        return None if None in seen else max(seen)

    def check(self, undisturbed=None, lose=1.0, leads=None):
        """Adds the conditions that do not hold to `problems`. `undisturbed`: the same run without events."""
        trial = self.trial
        most = (leads or LEAD_MAX).get(trial.mode)
        if trial.mode == "bounded":
            most = int(trial.settings.get("average.max_delay", 4))
        if most is not None and self.over > most:
            who, whom, when, lead = self.over_of
            self.problems.append(f"{who} was {lead} rounds ahead of its neighbour {whom}, {when} s in; {most + lead - self.over} is the most")
        if undisturbed and self.worst < undisturbed.worst - lose:
            low = min(self.accuracies, key=lambda n: self.accuracies[n] or 0)
            self.problems.append(f"{low} ends at {self.worst:.2f}%, undisturbed {undisturbed.worst:.2f}%")
        return self.problems

    def line(self):
        def times(values):
            return "-" if not values else " ".join("never" if v is None else f"{v:.1f}" for v in values)
        return (f"worst {self.worst:.2f} mean {self.mean:.2f}; lead {self.lead}, made up {self.made_up} rounds; "
                f"dead after {times(self.dead_after)} s, back after {times(self.back_after)} s; "
                f"{self.bytes / 1e6:.1f} MB, {self.exchanged / 1e6:.1f} of them exchanges, {self.seconds:.0f} s")


# -- scenarios: each takes a trial and the random generator, and writes its moments

def part(trial, share):
    return max(1, round(share * trial.rounds))


def undisturbed(trial, chance):
    pass


def kill_one(trial, chance):
    one = chance.randrange(len(trial.hosts))
    trial.at(part(trial, 0.3), lambda: trial.kill(one))
    trial.at(part(trial, 0.45), lambda: trial.back(one))


def ten_kills(trial, chance):
    """One after the other; the first and the last part of the training are undisturbed."""
    for i in range(10):
        one = chance.randrange(len(trial.hosts))
        trial.at(part(trial, 0.1 + 0.07 * i), lambda one=one: trial.kill(one))
        trial.at(part(trial, 0.1 + 0.07 * i + 0.05), lambda one=one: trial.back(one))


def half_die(trial, chance):
    half = chance.sample(range(len(trial.hosts)), len(trial.hosts) // 2)
    trial.at(part(trial, 0.35), lambda: trial.kill(*half))
    trial.at(part(trial, 0.5), lambda: trial.back(*half))


def fault(name, seconds):
    def scenario(trial, chance):
        one = chance.randrange(len(trial.hosts))

        def hit():
            trial.fault(name, one)
            trial.after(seconds, trial.heal)
        trial.at(part(trial, 0.15), hit)
    return scenario


SCENARIOS = {
    "undisturbed": undisturbed, "kill-one": kill_one, "ten-kills": ten_kills, "half-die": half_die,
    "cut-off": fault("cut", 14), "deaf": fault("deaf", 14), "mute": fault("mute", 14),
}


def run(name, count, rate, mode, chance, most=math.inf, **settings):
    """One scenario from its beginning to its end; settings as `--set`, with __ for the dot."""
    with Trial(count, rate, mode, **settings) as trial:
        SCENARIOS[name](trial, chance)
        return trial.run(most, name)
