"""The unchanged program is killed, restarted and started late at random: the cluster learns what an undisturbed one learns."""

import importlib.util
import os
import random
import re
import subprocess
import sys
import threading
import time
import unittest

import torch

import p2pml
from loops import Loop
from processes import HERE, Processes, free_ports, patience
from test_defaults import shapes
from uneven import cnn

SEED = os.environ.get("TEST_RESTARTS_SEED", "1")


class Late(Loop):
    """A late joiner with the unchanged loop: its rate would begin at 0.5, that of the others has come down to 0.001."""

    def program(self, i, peers):
        torch.manual_seed(i)
        model = cnn()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(0.002, 1 - step / 600))
        node = self.join(str(i), peers=peers[:i] + peers[i + 1:], listen=peers[i], node__start_members=2, node__start_timeout="300s")
        x, y = self.images[i:3000:3], self.labels[i:3000:3]
        together = p2pml.attach(node, model, optimizer, scheduler=scheduler)
        while not self.over.is_set():
            at = torch.randint(len(y), (32,))
            torch.nn.functional.cross_entropy(model(x[at]), y[at]).backward()
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            if i == 0 and not self.settled.is_set() and together.step >= 700:
                self.accuracies.append(self.accuracy(model))
                self.settled.set()
            if i == 2:
                self.late_steps += 1
                if self.late_steps == 300:
                    self.over.set()
        together.close()
        if i == 0:
            self.accuracies.append(self.accuracy(model))

    def accuracy(self, model):
        with torch.no_grad():
            return 100 * (model(self.images[3000:]).argmax(1) == self.labels[3000:]).float().mean().item()

    def test_the_cluster_stays_within_0_3_points(self):
        torch.set_num_threads(1)
        self.images, self.labels = shapes(5000, torch.Generator().manual_seed(1))
        self.settled, self.over, self.accuracies, self.late_steps = threading.Event(), threading.Event(), [], 0
        peers, failed = [f"127.0.0.1:{port}" for port in free_ports(3)], []

        def run(i):
            try:
                self.program(i, peers)
            except BaseException as error:
                failed.append(error)
                self.settled.set()
                self.over.set()
        threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(3)]
        threads[0].start()
        threads[1].start()
        self.assertTrue(self.settled.wait(patience()))
        threads[2].start()
        for thread in threads:
            thread.join(patience())
        self.assertFalse(failed or any(thread.is_alive() for thread in threads), failed)
        before, after = self.accuracies
        print(f"before a late joiner {before:.2f}, after its 300 steps {after:.2f}", flush=True)
        self.assertGreater(before, 90)
        self.assertGreater(after, before - 0.3)


class Restarts(Processes):
    def begin(self, kind, folder, index, members, steps, ports):
        """A process that has imported all it needs, and waits for a line."""
        path = os.path.join(folder, str(index))
        os.makedirs(folder, exist_ok=True)
        with open(self.log(path), "ab") as log:
            process = subprocess.Popen([sys.executable, os.path.join(HERE, "patient.py"), os.path.join(HERE, "restart_worker.py"), kind, folder,
                                        *map(str, (index, members, steps)), *ports], stdin=subprocess.PIPE, stdout=log, stderr=log, text=True)
        self.addCleanup(process.stdin.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def go(self, process, index, folder, times=1):
        until = time.monotonic() + patience()
        while self.read(os.path.join(folder, str(index))).count("warm") < times:
            self.assertLess(time.monotonic(), until, "no process")
            time.sleep(0.05)
        process.stdin.write("go\n")
        process.stdin.flush()

    def await_step(self, folder, index, step):
        until = time.monotonic() + patience()
        while True:
            told = re.findall(r"^step (\d+)", self.read(os.path.join(folder, str(index))), re.M)
            if told and int(told[-1]) >= step:
                return int(told[-1])
            self.assertLess(time.monotonic(), until, self.read(os.path.join(folder, str(index)))[-2000:])
            time.sleep(0.01)

    def undisturbed(self, kind, steps):
        folder, ports = os.path.join(self.folder, "calm"), free_ports(3)
        nodes = [self.begin(kind, folder, i, 3, steps, ports) for i in range(3)]
        for i, node in enumerate(nodes):
            self.go(node, i, folder)
        return [100 * self.result(node, os.path.join(folder, str(i))) for i, node in enumerate(nodes)]

    def disturbed(self, kind, steps, chance):
        """The second node is killed and restarted, the third one comes late."""
        folder, ports = os.path.join(self.folder, "rough"), free_ports(3)
        nodes = [self.begin(kind, folder, i, 2, steps, ports) for i in range(3)]
        back = self.begin(kind, folder, 1, 2, steps, ports)
        self.go(nodes[0], 0, folder)
        self.go(nodes[1], 1, folder, 2)  # its successor is warm, too
        events = sorted((chance.randint(steps // 10, steps // 2), which) for which in ("kill", "join"))
        for step, which in events:
            now = self.await_step(folder, 0, step)
            if which == "kill":
                nodes[1].kill()
                nodes[1].wait()
                back.stdin.write("go\n")
                back.stdin.flush()
                nodes[1] = back
            else:
                self.go(nodes[2], 2, folder)
            print(f"{kind}: {which} at step {now} of {steps}", flush=True)
        found = [100 * self.result(node, os.path.join(folder, str(i))) for i, node in enumerate(nodes)]
        first = int(re.search(r"^step (\d+)", self.read(os.path.join(folder, "2")), re.M).group(1))
        self.assertGreater(first, steps // 10, "the late one counts in the cluster's steps")
        self.assertLess(first, steps, "the late one came before the end")
        return found

    def check(self, kind, steps, seed=SEED):
        chance = random.Random(kind + seed)
        calm, rough = self.undisturbed(kind, steps), self.disturbed(kind, steps, chance)
        print(f"{kind}: undisturbed {', '.join(f'{one:.2f}' for one in calm)}; killed, restarted, joined {', '.join(f'{one:.2f}' for one in rough)}",
              flush=True)
        self.assertGreater(min(rough), max(calm) - 1)

    def test_a_small_gpt(self):
        self.check("gpt", 600)

    def test_a_resnet_with_batch_norm(self):
        self.check("resnet", 500)

    @unittest.skipIf([p for p in ("transformers", "accelerate") if not importlib.util.find_spec(p)], "no transformers in this Python")
    def test_hugging_face_s_trainer(self):
        self.check("hf", 1200)


if __name__ == "__main__":
    unittest.main(verbosity=2)
