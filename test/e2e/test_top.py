"""p2pml top: a table for scripts; and in a pseudo-terminal: nodes found from one, keys, another size, a node that dies."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import unittest

import cluster

PROGRAM = os.path.join(os.path.dirname(cluster.PROGRAM), "p2pml")


def http_of(node):
    return next(c for c in node.command if c.startswith("node.http=")).split("=")[1]


class Terminal:
    """The program on a pseudo-terminal; `screen` is its latest drawing."""

    def __init__(self, *arguments, width=120, height=20, kind="xterm"):
        self.master, slave = pty.openpty()
        self.size(width, height)
        environment = {**os.environ, "TERM": kind}
        self.process = subprocess.Popen([PROGRAM, "top", *arguments], stdin=slave, stdout=slave, stderr=slave, env=environment,
                                        start_new_session=True)
        os.close(slave)
        self.bytes = b""

    def size(self, width, height):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def press(self, keys):
        os.write(self.master, keys.encode())

    def read(self):
        while select.select([self.master], [], [], 0.05)[0]:
            try:
                self.bytes += os.read(self.master, 1 << 16)
            except OSError:  # it has ended
                return

    def screen(self):
        self.read()
        drawings = self.bytes.split(b"\x1b[H")
        whole = [d for d in drawings[1:] if b"\x1b[J" in d]
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", whole[-1].decode()).replace("\r", "") if whole else ""

    def wait(self, pattern):
        try:
            return cluster.wait_until(lambda: re.search(pattern, self.screen(), re.M), f"/{pattern}/ on the screen", patience=60)
        except AssertionError:
            raise AssertionError(f"/{pattern}/ is not on the screen:\n{self.screen()}\n{self.bytes[-500:]!r}") from None

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.master)


class Top(cluster.ClusterTest):
    def three(self):
        nodes = self.cluster(3, http=True, train__steps=100_000_000, topology__kind="ring")
        for node in nodes:
            node.start()
        for node in nodes:
            node.wait_log("training begins")
            node.wait_rows(1)
        return nodes

    def test_the_table_for_scripts_has_every_node(self):
        nodes = self.three()
        done = subprocess.run([PROGRAM, "top", "--once", http_of(nodes[1])], capture_output=True, text=True, timeout=60, check=True)
        lines = done.stdout.splitlines()
        self.assertRegex(lines[0], r"^cluster p2pml: 3 of 3 nodes answer")
        self.assertEqual(lines[1].split(), ["NODE", "STATE", "STEP", "STEPS/S", "LOSS", "ACCURACY", "ROUND", "SENT", "RECEIVED", "NEIGHB", "PATH"])
        self.assertEqual([line.split()[:2] for line in lines[2:]], [[f"node-{i}", "training"] for i in range(3)])
        self.assertNotIn("\x1b", done.stdout)
        nodes[2].end()
        nodes[0].wait_log("node-2 is dead")
        done = subprocess.run([PROGRAM, "top", "--once", http_of(nodes[0])], capture_output=True, text=True, timeout=60, check=True)
        self.assertRegex(done.stdout, r"2 of 3 nodes answer")
        self.assertRegex(done.stdout, r"(?m)^node-2 +dead ")

    def test_an_address_without_a_node_is_reported(self):
        port = cluster.free_ports(1)[0]
        done = subprocess.run([PROGRAM, "top", "--once", f"127.0.0.1:{port}"], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn(f"no p2pml-node answers at 127.0.0.1:{port}; expected", done.stderr)
        for arguments in (["--twice", "a:1"], ["nowhere"], ["a:1", "b:2"]):
            done = subprocess.run([PROGRAM, "top", *arguments], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 2, done.stderr)
        done = subprocess.run([PROGRAM, "top", f"127.0.0.1:{port}"], capture_output=True, text=True, timeout=60, check=False,
                              stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 1)
        self.assertIn("--once", done.stderr)

    def test_a_dumb_terminal_is_told(self):
        dumb = Terminal("127.0.0.1:1", kind="dumb")
        self.addCleanup(dumb.end)
        self.assertEqual(dumb.process.wait(60), 1)
        dumb.read()
        self.assertIn(b"TERM is 'dumb'", dumb.bytes)
        self.assertIn(b"--once", dumb.bytes)

    def test_a_cluster_in_a_terminal(self):
        nodes = self.three()
        top = Terminal(http_of(nodes[0]))
        self.addCleanup(top.end)
        top.wait(r"3 of 3 nodes answer, mean accuracy \d+")
        top.wait(r"^node-2 +training +\d+ .* [1-9]\d*(\.\d)? k?M?B/s .* 2/2( direct)?$")
        step = int(re.search(r"^node-0 +training +(\d+)", top.screen(), re.M)[1])
        cluster.wait_until(lambda: int(re.search(r"^node-0 +training +(\d+)", top.screen(), re.M)[1]) > step, "more steps", patience=60)
        top.wait(r"^vNODE")
        top.press("r")
        top.wait(r"\^NODE(.*\n)+node-2(.*\n)+node-1(.*\n)+node-0")
        top.press("\x1b[C>")
        top.wait(r" vSTEP")
        top.press("<<")
        top.wait(r"^vNODE")
        top.size(40, 4)
        top.wait(r"\A(.{0,40}\n){3}node-0.{0,34}\Z")
        top.press("\x1b[B")
        top.wait(r"^node-1.*\Z")
        top.size(120, 20)
        nodes[1].end()
        top.wait(r"2 of 3 nodes answer")
        top.wait(r"^node-1 +dead ")
        top.press("q")
        self.assertEqual(top.process.wait(60), 0)
        top.read()
        self.assertTrue(top.bytes.rstrip().endswith(b"\x1b[?1049l"), top.bytes[-80:])

    def test_a_node_that_hangs_is_shown(self):
        nodes = self.three()
        top = Terminal(http_of(nodes[0]))
        self.addCleanup(top.end)
        top.wait(r"3 of 3 nodes answer")
        nodes[2].signal(signal.SIGSTOP)
        top.wait(r"^node-2 +(no answer|dead) ")
        nodes[2].signal(signal.SIGCONT)
        top.wait(r"3 of 3 nodes answer")
        top.process.send_signal(signal.SIGTERM)  # the terminal is restored
        self.assertEqual(top.process.wait(60), 0)
        top.read()
        self.assertTrue(top.bytes.rstrip().endswith(b"\x1b[?1049l"), top.bytes[-80:])


if __name__ == "__main__":
    unittest.main()
