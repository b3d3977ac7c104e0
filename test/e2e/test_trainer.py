"""p2pml-node --trainer: daemons whose local steps are taken by a Python program. Either may be killed at any moment."""

import array
import fcntl
import glob
import importlib.util
import json
import math
import os
import random
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from cluster import PATIENCE, PROGRAM, failure, free_ports, wait_until

EXAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "daemon", "examples", "trainer.py")
KILLS = int(os.environ.get("P2PML_KILLS", "8"))
DAEMON_KILLS = int(os.environ.get("P2PML_KILLS", "3"))
ENDLESS = 10 ** 9
ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.startswith("P2PML_")}
TENSORS = [("weight", (50, 10))]


def load_example():
    spec = importlib.util.spec_from_file_location("trainer", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


example = load_example()


class Daemons(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="p2pml-trainer-")
        self.addCleanup(shutil.rmtree, self.directory)
        self.ports = free_ports(2)

    def spawn(self, log, command):
        with open(self.path(log), "ab") as f:
            process = subprocess.Popen(command, stdout=f, stderr=f, env=ENVIRONMENT)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def path(self, name):
        return os.path.join(self.directory, name)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as f:
            return f.read()

    def daemon(self, node, *more, alone=False):
        peers = [] if alone else ["--peers", f"127.0.0.1:{self.ports[1 - node]}"]
        log = f"daemon{node}"
        before = len(self.read(log)) if os.path.exists(self.path(log)) else 0
        process = self.spawn(log, [
            PROGRAM, "--trainer", f"unix:{self.path(f'socket{node}')}", *peers, "--set", f"node.dir={self.path(f'dir{node}')}",
            "--set", f"node.listen=127.0.0.1:{self.ports[node]}", "--set", "node.http=", "--set", "average.local_steps=5", *more])
        wait_until(lambda: process.poll() is not None or self.listens(node), "the socket is there")
        # ThreadSanitizer may lose a signal that arrives during the first call that blocks: that of the first line.
        wait_until(lambda: process.poll() is not None or "waiting for a trainer" in self.read(log)[before:], "it says so")
        self.assertIsNone(process.poll(), self.read(log)[-3000:])
        return process

    def listens(self, node):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            return s.connect_ex(self.path(f"socket{node}")) == 0

    def trainer(self, node, own, rounds=ENDLESS):
        return self.spawn(f"trainer{node}", [sys.executable, EXAMPLE, self.path(f"socket{node}"), str(rounds), str(own)])

    def connect(self, node=0, tensors=None, judge=None):
        """A trainer in this process."""
        trainer = example.Trainer(self.path(f"socket{node}"), tensors or TENSORS, judge)
        trainer.socket.settimeout(PATIENCE)
        self.addCleanup(trainer.socket.close)
        return trainer

    def error(self, node):
        found = re.findall(r"error (\S+)\n", self.read(f"trainer{node}"))
        return float(found[-1]) if found else math.inf

    def await_rounds(self, node, count):
        before = self.read(f"trainer{node}").count("round ")
        wait_until(lambda: self.read(f"trainer{node}").count("round ") >= before + count, f"trainer {node} trains")

    def await_the_mean(self):
        """Alone, a trainer would reach 1."""
        for node in range(2):
            wait_until(lambda node=node: self.error(node) < 0.1, f"trainer {node} learns what no trainer sees alone")

    def ended(self, process, node):
        if process.wait(PATIENCE) != 0:
            raise failure(f"exit status {process.returncode}", self.read(f"daemon{node}")[-3000:])


class Trainers(Daemons):
    def test_two_trainers_meet_in_the_middle(self):
        daemons = [self.daemon(node, "--set", "average.mode=sync") for node in range(2)]
        trainers = [self.trainer(0, 1, 400), self.trainer(1, -1, 400)]
        for node in range(2):
            self.assertEqual(trainers[node].wait(PATIENCE), 0, self.read(f"trainer{node}")[-2000:])
            self.assertLess(self.error(node), 0.3)  # alone: 1
            self.ended(daemons[node], node)  # the trainer asked for it
            self.assertFalse(os.path.exists(self.path(f"socket{node}")))

    def test_a_trainer_is_killed_at_random_moments(self):
        seed = int(os.environ.get("P2PML_SEED") or random.SystemRandom().randrange(10 ** 6))
        print("seed", seed)
        rng = random.Random(seed)
        daemons = [self.daemon(0), self.daemon(1)]
        self.trainer(0, 1)
        victim = self.trainer(1, -1)
        for _ in range(KILLS):
            wait_until(lambda: "round " in self.read("trainer1"), "the victim trains")
            time.sleep(rng.random() * 0.1)  # any moment will do
            victim.kill()
            victim.wait()
            self.assertIsNone(daemons[1].poll(), self.read("daemon1")[-3000:])
            self.await_rounds(0, 3)  # the other node continues
            os.remove(self.path("trainer1"))
            victim = self.trainer(1, -1)
        self.await_the_mean()
        for node, daemon in enumerate(daemons):
            daemon.terminate()
            self.ended(daemon, node)

    def test_a_trainer_finds_a_daemon_that_is_killed_at_random_moments(self):
        seed = int(os.environ.get("P2PML_SEED") or random.SystemRandom().randrange(10 ** 6))
        print("seed", seed)
        rng = random.Random(seed)
        daemons = [self.daemon(0), self.daemon(1)]
        self.trainer(0, 1)
        trainer = self.trainer(1, -1)
        for life in range(DAEMON_KILLS):
            wait_until(lambda life=life: self.read("trainer1").count("joined") > life, "it joins")
            time.sleep(rng.random() * 0.3)  # any moment will do
            daemons[1].kill()
            daemons[1].wait()
            wait_until(lambda life=life: self.read("trainer1").count("gone") > life, "it notices")
            self.await_rounds(1, 3)  # it continues alone
            self.await_rounds(0, 3)
            daemons[1] = self.daemon(1, "--resume")
        wait_until(lambda: self.read("trainer1").count("joined") == DAEMON_KILLS + 1, "it joins again")
        self.await_the_mean()
        self.assertIsNone(trainer.poll())

    def test_the_changes_of_a_dead_trainer_are_undone(self):
        daemon = self.daemon(0, alone=True)
        for _ in range(15):  # more than the allowed number of rounds that are not finite
            first = self.connect()
            first.vectors[example.MODEL][7] = 3.5
            first.start()
            first.round(5, 0.1)
            before = first.vectors[example.MODEL][7]
            first.vectors[example.MODEL][7] = math.nan
            first.socket.close()
        last = self.connect()
        self.assertTrue(last.started)
        self.assertEqual(last.start()[3] & 1, 1)  # not the model that it has
        self.assertEqual(last.vectors[example.MODEL][7], before)
        self.assertIsNone(daemon.poll())
        last.vectors[example.MODEL][7] = math.nan  # for a living trainer: treated as everywhere
        self.assertEqual(last.round(5, 0.1)[3] & 2, 2)
        self.assertEqual(last.vectors[example.MODEL][7], before)

    def test_a_blob_of_an_undone_turn_is_undone(self):
        self.daemon(0, alone=True)
        one = self.connect()
        one.start()
        one.call(example.BLOB, struct.pack("<I", 1) + b"at step 5")
        one.round(5, 0.1)
        one.call(example.BLOB, struct.pack("<I", 1) + b"at step 10")
        one.call(example.BLOB, struct.pack("<I", 1) + b"at step 10, again")
        one.socket.close()
        two = self.connect()
        two.start()
        self.assertEqual(two.call(example.BLOB, struct.pack("<I", 0)), b"at step 5")

    def test_the_example_reports_why_it_is_refused(self):
        self.daemon(0, alone=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as other:
            other.connect(self.path("socket0"))
            self.trainer(0, 1)
            wait_until(lambda: "alone: another trainer is connected" in self.read("trainer0"), "it continues alone")
        self.await_rounds(0, 1)
        wait_until(lambda: "joined" in self.read("trainer0"), "it finds the daemon free")
        self.daemon(1, alone=True)
        one = self.connect(1, [("weight", (500,))])
        one.start()
        one.socket.close()
        refused = self.trainer(1, 1)
        self.assertEqual(refused.wait(PATIENCE), 1)
        self.assertIn("refuses: this node already has a model with other tensors", self.read("trainer1"))
        self.assertNotIn("Traceback", self.read("trainer1"))

    def test_the_blob_the_status_and_the_end_are_reported(self):
        daemon = self.daemon(0, alone=True)
        one = self.connect()
        self.assertEqual(one.call(example.BLOB, struct.pack("<I", 0)), b"")
        one.call(example.BLOB, struct.pack("<I", 1) + b"schedule")
        one.start()
        self.assertIn(b'"state": "training"', one.call(example.STATUS))
        one.call(example.SAVE)
        one.round(5, 0.1)
        self.assertEqual(one.call(example.BLOB, struct.pack("<I", 0)), b"schedule")
        with self.assertRaisesRegex(example.Gone, "left"):
            one.call(example.LEAVE)
        self.ended(daemon, 0)

    def test_requests_while_the_node_leaves_are_refused(self):
        large = [("weight", (10 ** 7,))]  # so that its last checkpoint takes a while
        daemon = self.daemon(0, alone=True)
        one = self.connect(tensors=large)
        one.start()
        daemon.terminate()
        wait_until(lambda: "leaving" in self.read("daemon0"), "it has noticed")
        with self.assertRaises(example.Gone):  # as after leaving, not as a request out of turn
            one.round(5, 0.1)
        self.ended(daemon, 0)
        daemon = self.daemon(1, alone=True)
        two = self.connect(1, large)
        two.start()
        two.send(example.LEAVE)
        daemon.terminate()  # the first signal
        self.ended(daemon, 1)

    def test_a_node_that_was_not_started_leaves(self):
        daemon = self.daemon(0, alone=True)
        one = self.connect()
        with self.assertRaisesRegex(example.Gone, "never started"):
            one.call(example.LEAVE)
        self.ended(daemon, 0)

    def test_an_invalid_address_is_a_usage_error(self):
        for address in ("socket", "unix:", "unix:" + "x" * 108):
            for more in ([], ["--check"]):
                found = subprocess.run([PROGRAM, "--trainer", address, "--set", f"node.dir={self.path('dir')}", *more],
                                       capture_output=True, text=True, timeout=PATIENCE, env=ENVIRONMENT, check=False)
                self.assertEqual(found.returncode, 2, found.stderr)
                self.assertIn("expected unix:PATH", found.stderr)

    def join_late(self, judge):
        """The trainer of a node that is offered the model of a member."""
        self.daemon(0)
        self.trainer(0, 1)
        self.await_rounds(0, 3)
        self.daemon(1)
        return self.connect(1, judge=judge)

    def test_a_trainer_judges_the_model_of_a_member(self):
        asked = []

        def judge(model):
            asked.append(model[1])
            self.assertRaises(TypeError, model.__setitem__, 1, 0.0)
            return [0.1 if len(asked) == 3 else 2.3] * 20
        _, _, _, flags = self.join_late(judge).start()
        self.assertEqual(asked[:2], [0, 0])  # the first weights, and the node's own
        self.assertEqual(len(asked), 3)
        self.assertTrue(flags & example.ANOTHER and asked[2] != 0)
        self.assertIn("its loss is 0.1, that of this node's model 2.3, that of a model that knows nothing 2.3", self.read("daemon1"))

    def test_a_trainer_that_judges_looks_at_its_neighbour(self):
        asked = []

        def judge(model):
            asked.append(model[1])
            return [(model[i] - math.sin(i) - 1) ** 2 for i in range(64)]
        trainer = self.join_late(judge)
        steps, _, _, _ = trainer.start()
        before, deadline, lost = len(asked), time.monotonic() + PATIENCE, None
        while lost is None and time.monotonic() < deadline:
            steps, _, _, _ = trainer.round(steps, 0.1)  # its model is the other one's, which learns
            edges = json.loads(trainer.call(example.STATUS))["edges"]
            lost = edges[0]["lost"] if edges else None
        self.assertIsNotNone(lost)
        self.assertGreaterEqual(len(asked), before + 3)
        self.assertFalse(edges[0]["distrusted"])

    def test_where_a_trainer_dies_over_a_question_the_model_is_taken_as_it_comes(self):
        def judge(model):
            raise BrokenPipeError
        trainer = self.join_late(judge)
        self.assertRaises(BrokenPipeError, trainer.start)
        trainer.socket.close()
        wait_until(lambda: "adopted another node's model, as it came" in self.read("daemon1"), "the node goes on without the trainer")
        trainer = self.connect(1)
        trainer.start()
        trainer.send(example.JUDGE)
        with self.assertRaisesRegex(example.Refused, "has asked for no losses"):
            trainer.check(example.JUDGE, trainer.socket.recv(131072))

    def test_a_wrong_message_is_refused_and_changes_nothing(self):
        daemon = self.daemon(0, alone=True)
        for message, words in [(b"", "its kind is not known"), (struct.pack("<I", 99), "its kind is not known"),
                               (struct.pack("<III", 1, 3, 1), "protocol 3"), (struct.pack("<III", 1, 1, 5), "ends before"),
                               (struct.pack("<II", 2, 0), "does not fit its kind"), (struct.pack("<I", 2), "OPEN comes first")]:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
                s.settimeout(PATIENCE)
                s.connect(self.path("socket0"))
                if not message:
                    continue  # connects and disconnects
                s.send(message)
                self.assertIn(words, s.recv(131072)[8:].decode())
        one = self.connect()
        with self.assertRaisesRegex(ValueError, "not the trainer's turn"):
            one.round(1, 0.1)
        with self.assertRaisesRegex(ValueError, "another trainer"):
            self.connect()
        one.start()
        with self.assertRaisesRegex(ValueError, "already the trainer"):
            one.start()
        with self.assertRaisesRegex(ValueError, "step_scale"):
            one.round(1, -1)
        one.round(5, 0.1)  # it still works
        one.socket.close()
        with self.assertRaisesRegex(ValueError, "other tensors"):
            self.connect(tensors=[("weight", (500,))])
        second = self.spawn("second", [PROGRAM, "--trainer", f"unix:{self.path('socket0')}", "--set",
                                       f"node.dir={self.path('second')}"])
        self.assertEqual(second.wait(PATIENCE), 1)
        self.assertIn("in use", self.read("second"))
        daemon.send_signal(signal.SIGINT)
        self.ended(daemon, 0)


class Care(Daemons):
    """A signal, a trainer that hangs, a service manager, too few descriptors."""

    def boundary(self, node=0, steps=3):
        """A trainer in its turn, and the model that it was given."""
        one = self.connect(node)
        one.vectors[example.MODEL][:] = array.array("f", [0.5] * one.parameters)
        one.start()
        for i in range(steps):
            one.vectors[example.MODEL][i] = i + 1
            one.round(5, 0.1)
        return one, list(one.vectors[example.MODEL])

    def scribble(self, trainer):
        """Writes into the vectors of the trainer until the test has ended."""
        over, wrote = threading.Event(), threading.Event()

        def write():
            while not over.is_set():
                for i in range(trainer.parameters):
                    trainer.vectors[example.MODEL][i] = -7.25
                wrote.set()
        thread = threading.Thread(target=write)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(over.set)
        self.assertTrue(wrote.wait(PATIENCE))

    def saved(self, node):
        """The model of the newest checkpoint."""
        paths = glob.glob(os.path.join(self.path(f"dir{node}"), "checkpoint-*.safetensors"))
        with open(max(paths, key=lambda p: int(re.findall(r"\d+", p)[-1])), "rb") as f:
            header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
            begins, ends = header["model.weight"]["data_offsets"]
            data_at = f.tell()
            f.seek(data_at + begins)
            return list(array.array("f", f.read(ends - begins)))

    def test_a_signal_in_a_turn_leaves_the_last_boundary(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            daemon = self.daemon(0, alone=True)
            one, before = self.boundary()
            self.scribble(one)
            daemon.send_signal(number)
            self.ended(daemon, 0)
            self.assertEqual(self.saved(0), before)
            shutil.rmtree(self.path("dir0"))

    def test_a_trainer_that_hangs_is_dropped(self):
        daemon = self.daemon(0, "--set", "node.trainer_timeout=3s", alone=True)
        hung, before = self.boundary()
        self.scribble(hung)
        wait_until(lambda: "has sent nothing" in self.read("daemon0"), "it is dropped")
        two = self.connect()
        two.start()
        self.assertEqual(list(two.vectors[example.MODEL]), before)
        two.vectors[example.MODEL][3] = 11
        two.round(5, 0.1)
        self.assertEqual(list(two.vectors[example.MODEL])[3], 11)  # whatever the first trainer writes
        self.assertNotIn(-7.25, list(two.vectors[example.MODEL]))
        with self.assertRaises(example.Gone):
            hung.round(5, 0.1)
        daemon.terminate()
        self.ended(daemon, 0)

    def test_sighup_reads_the_allow_list_again(self):
        with open(self.path("allow"), "w", encoding="utf-8") as f:
            f.write("0" * 63 + "1\n")
        daemon = self.daemon(0, "--set", f"cluster.allow_file={self.path('allow')}", alone=True)
        daemon.send_signal(signal.SIGHUP)
        wait_until(lambda: "not started yet" in self.read("daemon0"), "it says so")
        one, _ = self.boundary()
        with open(self.path("allow"), "a", encoding="utf-8") as f:
            f.write("0" * 63 + "2\n")
        daemon.send_signal(signal.SIGHUP)
        wait_until(lambda: "the allow-list has 2 ids now" in self.read("daemon0"), "it is read")
        one.round(5, 0.1)
        daemon.terminate()
        self.ended(daemon, 0)

    def test_a_service_manager_is_notified_before_a_trainer_comes(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(self.path("manager"))
            manager.settimeout(PATIENCE)
            ENVIRONMENT.update(NOTIFY_SOCKET=self.path("manager"), WATCHDOG_USEC="400000")
            self.addCleanup(lambda: [ENVIRONMENT.pop(key, None) for key in ("NOTIFY_SOCKET", "WATCHDOG_USEC")])
            daemon = self.daemon(0, alone=True)

            def await_words(*words):
                heard = b""
                while not all(word in heard for word in words):
                    heard += manager.recv(4096) + b"\n"
            await_words(b"READY=1", b"WATCHDOG=1", b"waiting for a trainer")
            self.boundary()
            await_words(b"WATCHDOG=1", b"STATUS=training")
            daemon.terminate()
            await_words(b"STOPPING=1")
            self.ended(daemon, 0)

    def test_of_two_daemons_at_one_socket_the_second_ends(self):
        with open(self.path("socket0.lock"), "w", encoding="utf-8") as f:
            fcntl.flock(f, fcntl.LOCK_EX)  # of a daemon that has not bound the socket yet
            second = self.spawn("second", [PROGRAM, "--trainer", f"unix:{self.path('socket0')}", "--set",
                                           f"node.dir={self.path('second')}"])
            self.assertEqual(second.wait(PATIENCE), 1)
            self.assertIn("in use", self.read("second"))
        daemon = self.daemon(0, alone=True)
        daemon.terminate()
        self.ended(daemon, 0)
        self.assertEqual([name for name in os.listdir(self.directory) if name.startswith("socket0")], [])

    def test_files_of_others_at_its_paths_stay(self):
        def refused(log, words):
            daemon = self.spawn(log, [PROGRAM, "--trainer", f"unix:{self.path('flake')}", "--set", f"node.dir={self.path('dir0')}"])
            self.assertEqual(daemon.wait(PATIENCE), 1)
            self.assertIn(words, self.read(log))
        with open(self.path("flake.lock"), "w", encoding="utf-8") as f:
            f.write("of another program")
        refused("foreign", "is not the lock of a daemon")
        self.assertEqual(self.read("flake.lock"), "of another program")
        os.remove(self.path("flake.lock"))
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as other, \
             socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as waiting:
            other.bind(self.path("flake"))
            other.listen(0)
            waiting.connect(self.path("flake"))  # its queue is full: another connection would wait
            refused("full", "in use")

    def test_without_a_descriptor_it_waits_for_one(self):
        daemon = self.daemon(0, alone=True)
        used = len(os.listdir(f"/proc/{daemon.pid}/fd"))
        limits = resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)
        wait_until(lambda: self.read("daemon0").count("is gone") > 0, "it has forgotten the watcher")
        began = time.monotonic()
        resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (used - 1, limits[1]))
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            s.connect(self.path("socket0"))
            wait_until(lambda: self.read("daemon0").count("cannot be accepted") >= 2, "it tries again")
            self.assertLessEqual(self.read("daemon0").count("cannot be accepted"), time.monotonic() - began + 1)
        resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, limits)
        self.boundary()
        daemon.terminate()
        self.ended(daemon, 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
