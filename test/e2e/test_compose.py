"""The cluster of docker-compose.yml in real containers: its nodes find each other by the name of the service alone,
detect a killed container, take it back with its identity, and accept more containers.

Uses a running engine. If there is none, but dockerd is installed and this is root, it starts a separate one that does
not change address translation, and removes it with its contents. The base image of the Dockerfile is pulled; if no
registry answers, it is made with debootstrap, and a copy is kept beside the programs."""

import contextlib
import ctypes
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

from ports import free_block

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.dirname(os.path.dirname(os.path.abspath(os.environ["P2PML_E2E_NODE"])))
BASE = "debian:bookworm-slim"
SUITE = "bookworm"
PROJECT = f"p2pml-e2e-{os.getpid()}"
NODES = 4
PAGES = 16  # ports, more than are in use at a time
PATIENCE = 300.0
UP = ("up", "--detach", "--no-build", "--no-recreate", "--scale")
BEGIN = time.monotonic()
PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
UNREACHABLE = r"Failed to fetch|failure resolving|Unable to connect|Could not connect|could not be fetched"


expect = unittest.TestCase()


class Skip(Exception):
    """Something that this test needs is missing here."""


def environment(**more):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("P2PML_", "COMPOSE_"))}
    return {**clean, "PATH": PATH, **more}


def call(*command, patience=PATIENCE, check=True, **more):
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=patience,
                          check=False, env=environment(**more), stdin=subprocess.DEVNULL)
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout[-4000:]}")
    return done


def answers(*command):
    try:
        return call(*command, patience=60, check=False).returncode == 0
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return False


def say(what):
    print(f"{time.monotonic() - BEGIN:6.1f} s  {what}", flush=True)


def wait_until(condition, what):
    begin = time.monotonic()
    while not condition():
        if time.monotonic() - begin > PATIENCE:
            raise AssertionError(f"not within {PATIENCE:.0f} s: {what}")
        time.sleep(0.1)
    return time.monotonic() - begin


def end_with_parent():
    """Between fork and exec: the child gets SIGTERM when this test dies, however it dies."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def drops_packets():
    """Whether the rules of the host, which an engine that has ended may have left, drop packets between containers."""
    try:
        with open("/proc/sys/net/bridge/bridge-nf-call-iptables", encoding="utf-8") as bridged:
            return bridged.read().strip() == "1" and "-P FORWARD DROP" in call("iptables", "-S", "FORWARD", check=False).stdout
    except FileNotFoundError:
        return False


class Engine:
    """A running engine, or one that this test starts."""

    def __init__(self):
        self.daemon, self.directories = None, []
        if not shutil.which("docker", path=PATH):
            raise Skip("no docker here (Debian and Ubuntu: apt-get install docker.io docker-compose)")
        if not answers("docker", "version"):
            self.start()

    def start(self):
        if os.geteuid() != 0 or not shutil.which("dockerd", path=PATH):
            raise Skip("no engine answers 'docker version', and only root with dockerd installed can start one")
        if drops_packets():
            raise Skip("the host drops packets between containers (iptables -S FORWARD: -P FORWARD DROP): start its engine, or "
                       "remove the rules that it left")
        data = tempfile.mkdtemp(prefix="docker-engine-", dir=BUILD)
        run = tempfile.mkdtemp(prefix="p2pml-e2e-docker-")  # for sockets, whose path must be short
        self.directories = [run, data]
        self.log = os.path.join(data, "dockerd.log")
        host = f"unix://{run}/socket"
        with open(self.log, "wb") as log:
            self.daemon = subprocess.Popen(
                ["dockerd", "--data-root", data, "--exec-root", f"{run}/run", "--pidfile", f"{run}/pid", "--host", host,
                 "--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment(), start_new_session=True,
                preexec_fn=end_with_parent)
        os.environ["DOCKER_HOST"] = host
        try:
            wait_until(lambda: self.daemon.poll() is not None or answers("docker", "version"), "an answer of dockerd")
        except AssertionError:
            pass
        if not answers("docker", "version"):
            with open(self.log, encoding="utf-8", errors="replace") as log:
                last = log.read().strip().splitlines()[-1:]
            self.stop()
            raise Skip(f"dockerd does not start here: {''.join(last)}")

    def stop(self):
        if self.daemon:
            self.daemon.send_signal(signal.SIGTERM)
            self.daemon.wait(120)
        with open("/proc/mounts", encoding="utf-8") as mounts:
            places = [line.split()[1] for line in mounts]
        for place in reversed(places):
            if any(place.startswith(f"{directory}/") for directory in self.directories):
                call("umount", "-l", place, check=False)
        for directory in self.directories:
            shutil.rmtree(directory, ignore_errors=True)


def make_base(archive):
    """A small Debian as a tar file, with the package sources of this host."""
    if os.geteuid() != 0 or not shutil.which("debootstrap", path=PATH):
        raise Skip(f"no registry has {BASE}, and only root with debootstrap installed can make it")
    with tempfile.TemporaryDirectory(prefix="debootstrap-", dir=BUILD) as root:
        done = call("debootstrap", "--variant=minbase", SUITE, root, patience=1200, check=False)
        if done.returncode != 0:
            raise Skip(f"debootstrap found no packages: {done.stdout.strip().splitlines()[-1:]}")
        for spare in ("var/cache/apt/archives/*.deb", "var/lib/apt/lists/*", "usr/share/doc/*", "usr/share/locale/*",
                      "usr/share/man/*"):
            for path in glob.glob(os.path.join(root, spare)):
                shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
        settings = call("apt-config", "dump").stdout.splitlines()
        with open(os.path.join(root, "etc/apt/apt.conf.d/00host"), "w", encoding="utf-8") as f:
            f.writelines(f"{line}\n" for line in settings if re.match(r"Acquire::(http|https|Check-)", line))
        call("tar", "-C", root, "-cf", f"{archive}.new", ".")
    os.rename(f"{archive}.new", archive)


class Image:
    """The base image and that of the project; remembers which it has added."""

    def __init__(self):
        self.tags = [f"{PROJECT}{joint}node" for joint in "_-"]  # the names that docker-compose and docker compose expect
        self.added = []

    def bring_base(self, engine):
        if answers("docker", "image", "inspect", BASE):
            return
        archive = os.path.join(BUILD, "debian-bookworm-slim.tar")
        self.added.append(BASE)
        if engine.daemon and os.path.exists(archive):
            call("docker", "import", archive, BASE)
        elif not answers("docker", "pull", BASE):
            if not os.path.exists(archive):
                make_base(archive)
            call("docker", "import", archive, BASE)

    def build(self):
        self.build_stage("--target=build", f"--tag={PROJECT}-build")  # named, so that it can be removed
        self.build_stage(*(f"--tag={tag}" for tag in self.tags))

    def build_stage(self, *options):
        self.added += [option[6:] for option in options if option.startswith("--tag=")]
        done = call("docker", "build", "--network=host", *options, SOURCE, patience=1500, check=False)
        if done.returncode != 0 and re.search(UNREACHABLE, done.stdout):
            raise Skip(f"no packages can be fetched inside of a build:\n{done.stdout[-1000:]}")
        if done.returncode != 0:
            raise AssertionError(f"docker build: exit status {done.returncode}\n{done.stdout[-4000:]}")

    def remove(self):
        for image in reversed(self.added):
            call("docker", "image", "rm", "--force", image, patience=4 * PATIENCE, check=False)  # files of gigabytes, one at a time


class Container:
    def __init__(self, ident):
        self.id = ident
        self.find_port()

    def find_port(self):
        self.address = call("docker", "port", self.id, "7480/tcp").stdout.split()[0]

    def get(self, path):
        with urllib.request.urlopen(f"http://{self.address}{path}", timeout=20) as answer:
            return answer.read().decode()

    def status(self):
        try:
            return json.loads(self.get("/status"))
        except OSError:  # not listening yet
            return {"name": None, "members": []}

    def states(self):
        return {member["name"]: member["state"] for member in self.status()["members"]}

    def inspect(self, template):
        return call("docker", "inspect", "--format", template, self.id).stdout.strip()


class Cluster:
    """docker-compose.yml in a temporary directory, with a secret made as the file says."""

    def __init__(self, stack):
        self.command = next((c for c in (["docker", "compose"], ["docker-compose"]) if answers(*c, "version")), None)
        if not self.command:
            raise Skip("neither 'docker compose' nor docker-compose here")
        first = free_block(*range(PAGES))
        self.pages = f"{first}-{first + PAGES - 1}"
        self.directory = tempfile.mkdtemp(prefix="p2pml-e2e-compose-")
        stack.callback(shutil.rmtree, self.directory)
        os.makedirs(os.path.join(self.directory, "configs/node"))
        for path in ("docker-compose.yml", "configs/node/docker.yaml"):
            shutil.copyfile(os.path.join(SOURCE, path), os.path.join(self.directory, path))
        with open(os.path.join(self.directory, "docker-compose.yml"), encoding="utf-8") as f:
            make_secret = re.search(r"^#\s+(\(umask .*? > cluster\.secret\))", f.read(), re.MULTILINE).group(1)
        call("sh", "-c", f"cd '{self.directory}' && {make_secret}")
        stack.callback(self.compose, "down", "--volumes", check=False)

    def compose(self, *arguments, check=True):
        return call(*self.command, "--project-name", PROJECT, "--file", os.path.join(self.directory, "docker-compose.yml"),
                    *arguments, check=check, P2PML_NODE_START_MEMBERS=str(NODES), P2PML_TRAIN_STEPS="1000000000",
                    P2PML_PAGES=self.pages)

    def up(self, count):
        self.compose(*UP, f"node={count}")
        containers = [Container(ident) for ident in self.compose("ps", "--quiet").stdout.split()]
        expect.assertEqual(len(containers), count)
        return containers

    def wait_alive(self, containers):
        """Waits until each has all of them in its view, alive."""
        want = {f"node-{i + 1}": "alive" for i in range(len(containers))}
        took = wait_until(lambda: all(c.states() == want for c in containers), f"{want} at all")
        say(f"{len(containers)} members alive at all of them after {took:.1f} s")

    def down(self):
        self.compose("down", "--volumes")
        for kind, options in (("container", ["--all"]), ("volume", []), ("network", [])):
            options = [*options, f"--filter=label=com.docker.compose.project={PROJECT}"]
            expect.assertEqual(call("docker", kind, "ls", "--quiet", *options).stdout, "")


def check_replicas(containers):
    statuses = [c.status() for c in containers]
    expect.assertEqual(len({s["id"] for s in statuses}), NODES)
    expect.assertEqual(sorted(m["shard"] for m in statuses[0]["members"]), list(range(NODES)))
    for c in containers:  # not root, not able to become root, and the only reader of its secret
        process = call("docker", "exec", c.id, "cat", "/proc/1/status").stdout
        expect.assertRegex(process, r"Uid:\t7400\t7400\t7400\t7400\n")
        expect.assertRegex(process, r"CapEff:\t0+\n")
        expect.assertRegex(process, r"NoNewPrivs:\t1\n")
        secret = call("docker", "exec", c.id, "stat", "--format=%a %u", "/run/p2pml/cluster.secret").stdout
        expect.assertEqual(secret, "600 7400\n")


def kill_and_start(cluster, containers):
    victim, others = containers[0], containers[1:]
    before = victim.status()
    name = before["name"]
    call("docker", "kill", victim.id)
    took = wait_until(lambda: all(c.states().get(name) == "dead" for c in others), f"{name} is dead to all others")
    say(f"{name} killed, and dead to the {len(others)} others after {took:.1f} s")
    call("docker", "start", victim.id)
    victim.find_port()
    cluster.wait_alive(containers)
    after = victim.status()
    expect.assertEqual((after["name"], after["id"]), (before["name"], before["id"]))
    boots = [next(m["boot"] for m in s["members"] if m["name"] == name) for s in (before, after)]
    expect.assertEqual(boots[1], boots[0] + 1)


def check_health(containers):
    wait_until(lambda: {c.inspect("{{.State.Health.Status}}") for c in containers} == {"healthy"}, "health of all")
    for c in containers:
        expect.assertEqual(c.get("/healthz").strip(), "ok")


def stop_and_return(cluster, containers, *way_back):
    """All come back, also the added one, with their names, identities and checkpoints. They may get other ports (docs/operations.md)."""
    before = [c.status() for c in containers]
    cluster.compose("stop")
    expect.assertEqual([c.inspect("{{.State.ExitCode}}") for c in containers], ["0"] * len(containers))
    cluster.compose(*way_back)
    for c in containers:
        c.find_port()
    expect.assertEqual(len({c.address for c in containers}), len(containers))
    cluster.wait_alive(containers)
    wait_until(lambda: all(c.status()["step"] > b["step"] for c, b in zip(containers, before)), "steps after the earlier ones")
    expect.assertEqual([(s["name"], s["id"]) for s in (c.status() for c in containers)], [(s["name"], s["id"]) for s in before])
    say(f"{len(containers)} members stopped, and back with what they had: {' '.join(way_back)}")


def check_pages(containers):
    """From this host each node leads to all others, by the links of its page and in p2pml top."""
    for c in containers:
        for member in c.status()["members"]:
            with urllib.request.urlopen(f"http://{member['http']}/status", timeout=20) as answer:
                expect.assertEqual(json.load(answer)["id"], member["id"])
        table = call(os.path.join(os.path.dirname(os.environ["P2PML_E2E_NODE"]), "p2pml"), "top", "--once", c.address).stdout
        rows = {line.split()[0]: line for line in table.splitlines() if line.startswith("node-")}
        expect.assertEqual(sorted(rows), [f"node-{i + 1}" for i in range(len(containers))], table)
        expect.assertNotRegex(table, "no answer|no page")
    say(f"each page and p2pml top lead from any of the {len(containers)} to all")


def check_cluster(cluster):
    containers = cluster.up(NODES)
    cluster.wait_alive(containers)
    wait_until(lambda: all(c.status()["step"] > 0 for c in containers), "the first steps of all")
    check_replicas(containers)
    kill_and_start(cluster, containers)
    containers = cluster.up(NODES + 1)
    cluster.wait_alive(containers)
    check_health(containers)
    stop_and_return(cluster, containers, "start")
    stop_and_return(cluster, containers, *UP, f"node={NODES + 1}")
    check_pages(containers)
    cluster.down()


def run(stack):
    engine = Engine()
    stack.callback(engine.stop)
    say(f"engine {'started by this test' if engine.daemon else 'that was running'}")
    image = Image()
    stack.callback(image.remove)
    image.bring_base(engine)
    say("base image is here")
    image.build()
    say("image built")
    cluster = Cluster(stack)
    try:
        check_cluster(cluster)
    except Exception:
        print(cluster.compose("logs", "--no-color", "--tail", "60", check=False).stdout)
        raise


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that everything is removed in this case, too
    try:
        with contextlib.ExitStack() as stack:
            run(stack)
    except Skip as reason:
        say(f"skipped: {reason}")
        return 77
    return 0


if __name__ == "__main__":
    sys.exit(main())
