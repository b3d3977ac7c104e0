"""Clusters of real p2pml-node processes under faults, and the conditions that must hold meanwhile and afterwards.

Times are those that the nodes wrote themselves (events.jsonl, metrics.jsonl), because this process may be late, too."""

import array
import contextlib
import ctypes
import json
import os
import re
import shutil
import signal
import socket
import struct
import tempfile
import threading
import time
import unittest

import netns
from cluster import Node, failure, free_ports, tail, wait_until

DEADLINE_CEILING = 2.0  # seconds; average.deadline_ceiling below
ROUND = 4.0             # seconds; the longest computation of a round on an overloaded host
LOSS_MAX = 4.0
MODEL = {
    "model.kind": "softmax", "data.train_count": 640, "data.test_count": 50, "train.steps": 10 ** 11, "train.batch": 16,
    "train.rate": 0.02, "train.schedule": "[]", "train.eval_rounds": 0, "average.local_steps": 60, "average.ratio": 0.25,
    "average.deadline_floor": "200ms", "average.deadline_ceiling": f"{DEADLINE_CEILING:g}s", "average.forget_after": "20s",
    "node.start_timeout": "120s", "checkpoint.every": "2s",
}
FORBIDDEN = re.compile(r"(?im)^.*(assert|out of memory|no memory|sanitizer| error ).*$")


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)


class Lines:
    """The JSON lines of a file that grows."""

    def __init__(self, path):
        self.path, self.offset, self.rows = path, 0, []

    def read(self):
        try:
            with open(self.path, "rb") as f:
                f.seek(self.offset)
                new = f.read()
        except FileNotFoundError:
            return self.rows
        whole = new[:new.rfind(b"\n") + 1]
        self.offset += len(whole)
        self.rows += [json.loads(line) for line in whole.splitlines()]
        return self.rows


class Host(Node):
    """A node, its network namespace (None: that of this process), and what it has written."""

    def __init__(self, directory, index, space, http, settings):
        super().__init__(directory, f"n{index}", settings)
        self.index, self.space, self.http = index, space, http
        self.written = {name: Lines(os.path.join(self.directory, f"{name}.jsonl")) for name in ("events", "metrics")}
        self.running = False

    def start(self, *more, before=None):
        def prepare():
            die_with_parent()
            if self.space:
                self.space.enter()
        self.running = True
        return super().start(*more, before=prepare)

    def kill(self):
        self.running = False
        moment = time.time()
        self.process.kill()
        self.process.wait()
        return moment

    def events(self, after=0.0, *kinds):
        return [e for e in self.written["events"].read() if e["time"] >= after and (not kinds or e["event"] in kinds)]

    def metrics(self):
        return self.written["metrics"].read()

    def round(self):
        rows = self.metrics()
        return rows[-1]["round"] if rows else 0

    def status(self):
        """None: no answer (yet)."""
        space = self.space.inside() if self.space else contextlib.nullcontext()
        try:
            with space:
                connection = socket.socket()
            with connection:
                connection.settimeout(2)
                connection.connect(("127.0.0.1", self.http))
                connection.sendall(b"GET /status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                answer = b""
                while chunk := connection.recv(1 << 16):
                    answer += chunk
            return json.loads(answer.split(b"\r\n\r\n", 1)[1])
        except (OSError, IndexError, ValueError):
            return None

    def model(self):
        """The numbers in its newest checkpoint."""
        newest = max(self.checkpoints(), key=lambda name: int(re.search(r"\d+", name)[0]))
        with open(os.path.join(self.directory, newest), "rb") as f:
            content = f.read()
        size, = struct.unpack("<Q", content[:8])
        values = array.array("f")
        for name, tensor in sorted(json.loads(content[8:8 + size]).items()):
            if name.startswith("model."):
                begin, end = tensor["data_offsets"]
                values.frombytes(content[8 + size + begin:8 + size + end])
        return values


def distance(a, b):
    """The distance of two models, relative to the norm of the first."""
    return (sum((x - y) ** 2 for x, y in zip(a, b)) / max(sum(x * x for x in a), 1e-30)) ** 0.5


def quantile(values, part):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


class Stillness(threading.Thread):
    """Records when this whole machine stood still, so that the nodes are not blamed for it."""

    def __init__(self):
        super().__init__(daemon=True)
        self.longest, self.ends = 0.0, False

    def run(self):
        while not self.ends:
            before = time.monotonic()
            time.sleep(0.02)
            self.longest = max(self.longest, time.monotonic() - before - 0.02)


class Cluster:
    """On disk only if a test needs it: on a busy disk all nodes wait for their checkpoints. `behind`: which hosts stand behind routers
    of their own (netns.Homes); the peers of all are three that do not."""

    def __init__(self, count, network=True, disk=False, behind=None, **settings):
        memory = "/dev/shm" if not disk and os.access("/dev/shm", os.W_OK) else None
        self.directory = tempfile.mkdtemp(prefix="p2pml-chaos-", dir=memory)
        self.network = None if not network else netns.Homes(count, behind) if behind else netns.Network(count)
        self.figures = []
        secret = os.path.join(self.directory, "secret")
        with open(secret, "w") as f:
            f.write("no secret at all, only a test\n")
        os.chmod(secret, 0o600)
        self.stillness = Stillness()
        self.stillness.start()
        self.hosts = []
        ports = [7400] * count + [7480] * count if network else free_ports(2 * count)
        address = self.network.address if network else lambda _: "127.0.0.1"
        public = [i for i in range(count) if not behind or i not in self.network.home]
        peers = ",".join(f"{address(i)}:{ports[i]}" for i in public[:3])
        for i in range(count):
            merged = {**MODEL, "node.listen": f"{address(i) if i in public else '0.0.0.0'}:{ports[i]}", "node.http": f"127.0.0.1:{ports[count + i]}",
                      "peers": peers, "cluster.secret_file": secret, "node.start_members": count, "data.shard": i,
                      "data.shards": count}
            merged.update({key.replace("__", "."): value for key, value in settings.items()})
            space = self.network.spaces[i] if network else None
            self.hosts.append(Host(self.directory, i, space, ports[count + i], merged))

    # -- hosts

    def running(self):
        return [h for h in self.hosts if h.running]

    def others(self, *away):
        return [h for h in self.running() if h not in away]

    # -- start and stop

    def start(self):
        for host in self.hosts:
            host.start()
        return self

    def stop(self):
        """All end by themselves, with success."""
        running = self.running()
        for host in running:
            host.signal(signal.SIGTERM)
        for host in running:
            host.wait_exit(0)
            host.running = False

    def close(self):
        self.stillness.ends = True
        self.stillness.join()
        for host in self.hosts:
            if host.process and host.process.poll() is None:
                host.process.kill()
                host.process.wait()
        if self.network:
            self.network.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    # -- waiting

    def wait(self, condition, what, patience=120.0):
        def found():
            self.all_run()
            return condition()
        try:
            return wait_until(found, what, patience)
        except AssertionError as error:
            raise failure(error, self.tell()) from None

    def agree(self, hosts=None, count=None):
        """Whether the view of each of these has exactly these nodes."""
        hosts = hosts if hosts is not None else self.running()
        hashes = set()
        for host in hosts:
            status = host.status()
            members = (status or {}).get("members", [])
            here = [m for m in members if m["state"] in ("alive", "self")]
            suspects = [m for m in members if m["state"] == "suspect"]
            if len(here) != (count or len(hosts)) or suspects or not all(m.get("eligible", True) for m in here):
                return False
            hashes.add(status["membership"]["view_hash"])
        return len(hashes) == 1

    def wait_together(self, hosts=None, patience=120.0):
        """Waits until they agree; returns when (unix time)."""
        self.wait(lambda: self.agree(hosts), "one view of all running nodes", patience)
        return time.time()

    def wait_rounds(self, hosts=None, count=5):
        hosts = hosts if hosts is not None else self.running()
        rounds = {h: h.round() for h in hosts}
        for host in hosts:
            self.wait(lambda h=host: h.round() >= rounds[h] + count, f"{count} more rounds of {host.name}")

    def wait_exchanges(self, count=20):
        """Waits until each has an edge in use, and then until it has made that many exchanges over each of these."""
        def made(host):
            return {e["peer"]: e["exchanges"] for e in (host.status() or {}).get("edges", []) if e["state"] == "live"}

        def enough(host, before):
            now = made(host)
            return now and all(n >= before[peer] + count for peer, n in now.items() if peer in before)

        for host in self.running():
            before = self.wait(lambda h=host: made(h), f"a live edge of {host.name}")
            self.wait(lambda h=host, b=before: enough(h, b), f"{count} more exchanges of {host.name} with each neighbour")

    def wait_told(self, event, of, after, by=None, patience=120.0, **fields):
        """Waits until each of `by` has written the event about each of `of`; returns all times since `after`."""
        by = [h for h in (by if by is not None else self.running()) if h not in of]

        def times():
            found = {}
            for host in by:
                for e in host.events(after, event):
                    if all(e.get(k) == v for k, v in fields.items()):
                        found.setdefault((host.name, e.get("member")), e["time"] - after)
            wanted = [(b.name, o.name) for b in by for o in of if b is not o]
            return [found[w] for w in wanted] if all(w in found for w in wanted) else None
        return self.wait(times, f"'{event}' of {[h.name for h in of]} at all others", patience)

    def wait_view(self, members, after, by=None, patience=120.0):
        """Waits until the graph of each has that many members; returns all times since `after`."""
        by = by if by is not None else self.running()

        def times():
            last = [[e for e in h.events(after, "view")][-1:] for h in by]
            there = all(e and e[0]["members"] == members for e in last)
            return [e[0]["time"] - after for e in last] if there else None
        return self.wait(times, f"a graph of {members}", patience)

    # -- conditions

    def all_run(self):
        for host in self.running():
            if host.process.poll() is not None:
                raise failure(f"{host.name} ended by itself with {host.process.returncode}:", host.last_words())

    def deaths(self, after):
        return [(h.name, e["member"], round(e["time"] - after, 2)) for h in self.hosts for e in h.events(after, "dead")]

    def longest_round(self, host, after):
        """(seconds, begin) of the longest time without a row of metrics since `after`."""
        times = [r["time"] for r in host.metrics()]
        times = [t for t in times if t <= after][-1:] + [t for t in times if t > after]
        return max(((b - a, a - after) for a, b in zip(times, times[1:])), default=(0.0, 0.0))

    def sane_losses(self, name, after):
        """No model was damaged. A model that guesses has a loss of 2.3."""
        for host in self.hosts:
            spoilt = [(r["round"], r["loss"]) for r in host.metrics() if r["time"] >= after and not (r["loss"] or 0) < LOSS_MAX]
            if spoilt:
                raise failure(f"{name}: losses of {host.name} (round, loss): {spoilt[:5]} and {len(spoilt)} in all", self.tell())

    def sane_logs(self):
        for host in self.hosts:
            try:
                with open(host.log_path, encoding="utf-8", errors="replace") as f:
                    found = FORBIDDEN.search(f.read())
            except FileNotFoundError:
                continue
            if found:
                raise AssertionError(f"in the log of {host.name}: {found[0]}")

    @contextlib.contextmanager
    def chaos(self, name, may_die=(), away=None):
        """What happens inside may kill only `may_die`. Afterwards all running nodes have one view and train, and no round of a node
        outside `away` (None: `may_die`) took longer than its deadline."""
        away = may_die if away is None else away
        begun = time.time()
        yield begun
        self.wait_together()
        self.wait_rounds()
        names = {h.name for h in may_die}
        wrong = [d for d in self.deaths(begun) if d[1] not in names]
        if wrong:
            raise failure(f"{name}: declared dead though alive (by, member, after s): {wrong}", self.tell())
        longest = 0.0
        for host in self.others(*away):
            took, at = self.longest_round(host, begun)
            longest = max(longest, took)
            if took > DEADLINE_CEILING + ROUND:
                raise failure(f"{name}: a round of {host.name} took {took:.1f} s, {at:.1f} s in; the deadline is "
                              f"{DEADLINE_CEILING:g} s", self.tell())
        self.sane_losses(name, begun)
        self.all_run()
        self.sane_logs()
        print(f"{name}: fine after {time.time() - begun:.1f} s; the longest round of a survivor took {longest:.2f} s",
              flush=True)

    def figure(self, what, value, unit="s"):
        print(f"    {what}: {value:.2f} {unit}", flush=True)
        self.figures.append((what, value))

    def models_agree(self, most):
        """After stop(): compares the models of all nodes."""
        models = [h.model() for h in self.hosts]
        far = max(distance(models[0], m) for m in models)
        print(f"    models differ by at most {far:.4f} of their size", flush=True)
        if not far <= most:
            self.keep()
            raise AssertionError(f"the models are {far:.3f} apart, expected at most {most}")

    def tell(self):
        """Prints what helps to find the cause of a failure; P2PML_E2E_KEEP keeps all files."""
        lines = [f"this machine stood still for up to {self.stillness.longest:.2f} s; load {os.getloadavg()}"]
        for host in self.hosts:
            status = host.status() if host.running else None
            states = {m["name"]: m["state"] + ("" if m.get("eligible", True) else "-") for m in (status or {}).get("members", [])}
            lines.append(f"{host.name}: round {host.round()}, {'runs' if host.running else 'away'}, "
                         f"{(status or {}).get('state')}, {json.dumps((status or {}).get('membership'))} {states}")
        for host in self.hosts:
            lines.append(f"-- {host.name}, events:")
            lines += [json.dumps(e) for e in host.events()[-8:]]
            lines.append(f"-- {host.name}, log:\n" + (tail(host.log(), 8) if host.process else ""))
        self.keep()
        return "\n".join(lines)

    def keep(self):
        kept = os.environ.get("P2PML_E2E_KEEP")
        if kept:
            shutil.copytree(self.directory, os.path.join(kept, os.path.basename(self.directory)), dirs_exist_ok=True)


__all__ = ["Cluster", "DEADLINE_CEILING", "Host", "MODEL", "distance", "netns", "quantile", "signal", "unittest", "wait_until"]
