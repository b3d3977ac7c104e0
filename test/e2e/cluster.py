"""Real p2pml-node processes for the tests: start them, wait for a line of their log, look at the files that they wrote.

Every wait is for an event (a line, a file, an exit, an answer) and has a bound that only a failure reaches."""

import functools
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

from ports import free_block, free_ports

PROGRAM = os.environ["P2PML_E2E_NODE"]
PATIENCE = 300.0
SLOWER = int(os.environ.get("P2PML_E2E_SLOWER", "1"))  # with sanitizers a step takes about that many times as long

# A small job: about a second on one core.
SMALL = {
    "data.train_count": 800, "data.test_count": 200, "model.hidden": 32, "train.steps": 400, "train.batch": 16,
    "train.eval_rounds": 25, "average.local_steps": 4, "topology.kind": "butterfly", "node.linger": "20s",
    "node.start_timeout": "60s", "checkpoint.every": 0,
    "train.alone": "go-on",  # each takes all steps, whichever is the last on a busy machine
}


def wait_until(condition, what, patience=PATIENCE):
    deadline = time.monotonic() + patience
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {patience} s: {what}")
        time.sleep(0.02)


def json_lines(path):
    """The complete lines of a file that a node may be writing."""
    try:
        with open(path, "rb") as f:
            return [json.loads(line) for line in f.read().split(b"\n")[:-1]]
    except FileNotFoundError:
        return []


@functools.lru_cache(None)
def python_with(*modules):
    """A Python that can import them all, or None."""
    for program in (sys.executable, os.environ.get("P2PML_TEST_PYTHON"), "/usr/bin/python3"):
        if program and shutil.which(program) and subprocess.run(
                [program, "-c", "import " + ", ".join(modules)], capture_output=True).returncode == 0:
            return program
    return None


def go_on_with(module, package):
    """Goes on as a Python that can import ``module``, or ends as skipped. ``package``: of Debian."""
    python = python_with(module)
    if not python:
        print(f"skipped: no Python with the package '{module}' (Debian: {package})")
        sys.exit(77)
    if python != sys.executable:
        os.execv(python, [python, *sys.argv])


def failure(reason, evidence):
    """An error with its reason at both ends of the message."""
    return AssertionError(f"{reason}\n{evidence}\n{str(reason).splitlines()[0]}")


def tail(text, lines=15, width=400):
    return "\n".join(line[:width] for line in text.splitlines()[-lines:])


class Node:
    def __init__(self, directory, name, settings, arguments=(), environment=None):
        self.name, self.directory = name, os.path.join(directory, name)
        self.log_path = os.path.join(directory, f"{name}.log")
        self.command = [PROGRAM, "--set", f"node.name={name}", "--set", f"node.dir={self.directory}"]
        for key, value in settings.items():
            self.command += ["--set", f"{key}={value}"]
        self.command += list(arguments)
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("P2PML_")}
        self.environment.update(environment or {})
        self.process = None

    def start(self, *more, before=None):
        with open(self.log_path, "ab") as log:
            self.log_from = log.tell()
            self.process = subprocess.Popen(self.command + list(more), stdout=log, stderr=log, env=self.environment,
                                            preexec_fn=before)
        return self

    def log(self):
        with open(self.log_path, "rb") as f:
            f.seek(self.log_from)
            return f.read().decode(errors="replace")

    def last_words(self):
        """The end of the log, long enough for the report of a sanitizer."""
        return tail(self.log(), 40)

    def wait_log(self, pattern):
        def found():
            match = re.search(pattern, self.log())
            if not match and self.process.poll() is not None:
                match = re.search(pattern, self.log())
                if not match:
                    raise failure(f"{self.name} ended with {self.process.returncode} before /{pattern}/:", self.last_words())
            return match
        try:
            return wait_until(found, f"/{pattern}/ in the log of {self.name}")
        except AssertionError as error:
            raise failure(error, self.last_words()) from None

    def wait_exit(self, status=0):
        try:
            got = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise failure(f"{self.name} does not end:", self.last_words()) from None
        if got != status:
            raise failure(f"{self.name} ended with {got}, expected {status}:", self.last_words())
        return self.log()

    def signal(self, number):
        self.process.send_signal(number)

    def end(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def rows(self):
        return json_lines(os.path.join(self.directory, "metrics.jsonl"))

    def wait_rows(self, count):
        wait_until(lambda: len(self.rows()) >= count, f"{count} rows of metrics of {self.name}")

    def checkpoints(self):
        return sorted(n for n in os.listdir(self.directory) if re.fullmatch(r"checkpoint-\d+\.safetensors", n))


class ClusterTest(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="p2pml-e2e-")
        self.nodes = []

    def tearDown(self):
        for node in self.nodes:
            node.end()
        shutil.rmtree(self.directory, ignore_errors=True)

    def node(self, name, port, http=None, arguments=(), environment=None, **settings):
        merged = {"node.listen": f"127.0.0.1:{port}", "node.http": f"127.0.0.1:{http}" if http else "", **SMALL}
        merged.update({key.replace("__", "."): value for key, value in settings.items()})
        node = Node(self.directory, name, merged, arguments, environment)
        self.nodes.append(node)
        return node

    def cluster(self, count, http=False, **settings):
        """`count` nodes that share one peer list, which includes themselves."""
        ports = free_ports(2 * count)
        peers = ",".join(f"127.0.0.1:{p}" for p in ports[:count])
        return [self.node(f"node-{i}", ports[i], ports[count + i] if http else None, peers=peers, data__shard=i,
                          data__shards=count, **settings) for i in range(count)]

    def get(self, node, path):
        address = next(c.split("=", 1)[1] for c in node.command if c.startswith("node.http="))
        with urllib.request.urlopen(f"http://{address}{path}", timeout=20) as answer:
            return answer.read().decode()

    def status(self, node):
        return json.loads(self.get(node, "/status"))


__all__ = ["ClusterTest", "Node", "PROGRAM", "SMALL", "failure", "free_block", "free_ports", "signal", "tail", "unittest", "wait_until"]
