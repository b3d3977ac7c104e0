"""Clusters that train to the end: two and four nodes, one that dies, one that is stopped and resumes."""

import contextlib
import json
import os
import re
import resource
import shutil
import subprocess
import time
import urllib.error

from cluster import PROGRAM, SLOWER, ClusterTest, free_ports, signal, unittest, wait_until


class Training(ClusterTest):
    def check_finished(self, node, checkpoints=1):
        log, rows = node.wait_exit(0), node.rows()
        self.assertEqual(rows[-1]["state"], "finished", log)
        self.assertGreater(rows[-1]["exchanges"], 0, log)
        self.assertGreater(rows[-1]["bytes_sent"], 0)
        self.assertEqual(len(node.checkpoints()), checkpoints, node.checkpoints())
        self.assertNotIn(" error ", log)
        return rows

    def test_two_nodes_train_to_the_end(self):
        nodes = self.cluster(2)
        for node in nodes:
            node.start()
        for node in nodes:
            rows = self.check_finished(node)
            self.assertEqual(rows[-1]["step"], 400)
            self.assertEqual([r["round"] for r in rows[:-1]], list(range(1, 101)))
            self.assertGreater(rows[-1]["accuracy"], 0.4)
            self.assertIn("training begins with 1 peer", node.log())
            self.assertEqual(os.stat(node.directory).st_mode & 0o777, 0o700)
            modes = {name: os.stat(os.path.join(node.directory, name)).st_mode & 0o777 for name in os.listdir(node.directory)}
            self.assertIn("model.safetensors", modes)
            self.assertEqual({name: mode for name, mode in modes.items() if mode != 0o600}, {})

    def test_four_nodes_in_sync_mode_meet_every_round(self):
        nodes = self.cluster(4, average__mode="sync", average__deadline_floor="20s", average__deadline_ceiling="60s")
        for node in nodes:
            node.start()
        for node in nodes:
            self.assertEqual(self.check_finished(node)[-1]["exchanges"], 100, node.last_words())

    def vectors_of(self, node):
        memory = self.status(node)["memory_bytes"]
        return memory["exchange"] / memory["vector"]

    def test_references_may_be_in_bf16(self):
        """Two nodes start with them, one is stopped and resumes from its checkpoint, and a late node takes the setting."""
        nodes = self.cluster(3, http=True, train__steps=100000, average__mode="sync", average__ratio="1/100",
                             node__start_members=2)
        for node in nodes[:2]:
            node.start("--set", "average.reference=bf16")
        for node in nodes[:2]:
            node.wait_rows(20)
        for node in nodes[:2]:  # published x, and r and c of the edge in half a vector each, plus packets
            wait_until(lambda node=node: 2 < self.vectors_of(node) < 2.3, "an edge in half the memory")
        nodes[0].signal(signal.SIGTERM)
        nodes[0].wait_exit(0)
        rows = len(nodes[0].rows())
        nodes[0].start("--resume", "--set", "average.reference=bf16")
        nodes[0].wait_rows(rows + 20)
        self.assertNotIn("checkpoint_edge", nodes[0].log())
        nodes[2].start()
        self.assertIn("average.reference=bf16", nodes[2].wait_log(r"takes its settings and starts again: (.*)").group(1))
        nodes[2].wait_rows(5)
        for node in nodes:
            node.signal(signal.SIGTERM)
        for node in nodes:
            self.assertNotIn(" error ", node.wait_exit(0))

    def test_four_nodes_with_adamw_and_outer_momentum(self):
        nodes = self.cluster(4, train__optimizer="adamw", train__rate=0.002, average__outer_momentum=0.3,
                             average__drift_correction="false", topology__kind="ring")
        for node in nodes:
            node.start()
        for node in nodes:
            self.check_finished(node)

    def test_a_killed_node_blocks_no_other(self):
        nodes = self.cluster(4, train__steps=8000, average__deadline_floor="200ms", average__deadline_ceiling="1s",
                             average__forget_after="2s")
        for node in nodes:
            node.start()
        nodes[3].wait_rows(20)
        nodes[3].signal(signal.SIGKILL)
        nodes[3].process.wait()
        for node in nodes[:3]:
            self.check_finished(node)
            self.assertRegex(node.log(), r"link_down .*node-3 at ")
            self.assertEqual(node.rows()[-1]["step"], 8000)

    def test_a_node_that_hangs_blocks_no_other(self):
        nodes = self.cluster(4, average__mode="sync", average__deadline_floor="200ms", average__deadline_ceiling="500ms",
                             node__linger="1s", train__steps=4000)
        for node in nodes:
            node.start()
        nodes[3].wait_rows(20)
        nodes[3].signal(signal.SIGSTOP)  # its connections stay open, and it is silent
        for node in nodes[:3]:
            rows = self.check_finished(node)
            self.assertEqual(rows[-1]["step"], 4000)
        nodes[3].signal(signal.SIGCONT)
        self.assertEqual(self.check_finished(nodes[3])[-1]["step"], 4000)

    def test_a_stopped_node_resumes_where_it_was(self):
        # On any machine, the other node still trains when this one is back: both train until they are stopped.
        nodes = self.cluster(2, train__steps=0, train__schedule="", average__deadline_floor="200ms", average__deadline_ceiling="1s")
        for node in nodes:
            node.start()
        nodes[0].wait_rows(20)
        nodes[0].signal(signal.SIGTERM)
        log = nodes[0].wait_exit(0)
        step = int(re.search(r"checkpoint .*step (\d+)", log).group(1))
        self.assertGreater(step, 0)
        self.assertEqual(nodes[0].rows()[-1]["state"], "stopped")
        rows = len(nodes[0].rows())
        nodes[0].start("--resume")
        self.assertEqual(int(nodes[0].wait_log(r"resume .*from step (\d+), round").group(1)), step)
        nodes[0].wait_log(r"link_up .*node-1 at ")
        nodes[0].wait_rows(rows + 20)
        after = nodes[0].rows()[rows:]
        # Round and step belong to the cluster: missed rounds are not made up for.
        self.assertGreater(after[0]["round"], nodes[0].rows()[rows - 1]["round"])
        self.assertGreater(after[0]["step"], step)
        for node in nodes:
            node.signal(signal.SIGTERM)
        for node in nodes:
            self.assertNotIn(" error ", node.wait_exit(0))
        self.assertEqual(len(nodes[0].checkpoints()), 2)

    def check_alone(self, node, steps):
        """It ended before its last step and reported that; returns after which step."""
        log = node.wait_exit(0)
        said = re.findall(r"alone .*all others have finished; training ends after step (\d+) of (\d+)", log)
        self.assertEqual([int(of) for _, of in said], [steps], log)
        # It ends with the model of the others, or with its own if none of them was left.
        self.assertIn(node.rows()[-1]["step"], range(int(said[0][0]), steps + 1), log)
        self.assertEqual(node.rows()[-1]["state"], "finished", log)
        with open(os.path.join(node.directory, "events.jsonl")) as f:
            self.assertEqual([e["event"] for e in map(json.loads, f)].count("alone"), 1)
        return int(said[0][0])

    def test_a_node_that_is_left_alone_ends_with_the_others(self):
        nodes = self.cluster(3, train__alone="stop", train__steps=4000, topology__kind="ring")
        for node in nodes:
            node.start()
        nodes[2].wait_log("training begins")

        def the_others_have_finished():  # and node 2 has at most a third of their rounds, however the machine shares its time
            part = min(len(node.rows()) for node in nodes[:2]) / 3
            nodes[2].signal(signal.SIGCONT if len(nodes[2].rows()) < part else signal.SIGSTOP)
            return all("the last step is done" in node.log() for node in nodes[:2])
        wait_until(the_others_have_finished, "the others have done their last step")
        nodes[2].signal(signal.SIGCONT)
        if "this node was away" in nodes[2].wait_exit(0):  # stopped for seconds, on a busy machine: it took the round of the others
            self.assertEqual(nodes[2].rows()[-1]["step"], 4000)
        else:
            self.assertLess(self.check_alone(nodes[2], 4000), 4000)
        self.assertEqual(len(nodes[2].checkpoints()), 1)
        steps = [node.rows()[-1]["step"] for node in nodes[:2] if self.check_finished(node)]
        self.assertEqual(steps, [4000, 4000])

    def test_a_node_that_returns_to_finished_nodes_takes_their_model(self):
        nodes = self.finished_nodes_wait()
        nodes[0].start("--resume")
        nodes[0].wait_log("fetched .*the model is complete")
        self.assertRegex(nodes[0].log(), r"the cluster at \d+: fetching a model|all others have finished: fetching the model")
        nodes[3].signal(signal.SIGKILL)
        log = nodes[0].wait_exit(0)
        self.assertEqual(nodes[0].rows()[-1]["step"], 2000, log)
        self.assertNotIn("training ends after step", log)
        for node in nodes[1:3]:
            self.check_finished(node)

    def test_a_node_does_not_wait_for_ever_for_a_model(self):
        nodes = self.finished_nodes_wait()
        for node in nodes[1:3]:  # their ports accept connections, but do not answer
            node.signal(signal.SIGSTOP)
        nodes[0].start("--resume", "--set", "node.start_timeout=2s")
        log = nodes[0].wait_exit(0)
        self.assertIn("training begins without 3 listed peers", log)
        self.assertEqual(nodes[0].rows()[-1]["step"], 2000, log)

    def finished_nodes_wait(self):
        """Node 0 was stopped early; nodes 1 and 2 have finished and wait for node 3, which hangs and is not dead yet."""
        nodes = self.cluster(4, train__alone="stop", train__steps=2000, topology__kind="complete", node__linger="120s",
                             cluster__profile="wan", data__takeover="false")
        # Its steps take much longer, and it would continue alone: it is stopped when the others have finished.
        nodes[3].command += ["--set", "train.batch=200", "--set", "train.micro_batch=1", "--set", "train.alone=go-on"]
        for node in nodes:
            node.start()
        nodes[0].wait_rows(5)
        nodes[0].signal(signal.SIGTERM)
        nodes[0].wait_exit(0)
        for node in nodes[1:3]:
            node.wait_log("finished .*the last step is done")
        nodes[3].signal(signal.SIGSTOP)
        return nodes

    def health(self, node):
        try:
            return 200, self.get(node, "/healthz")
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def test_a_loss_that_is_not_finite_ends_the_node_with_its_last_good_model(self):
        port, http = free_ports(2)
        node = self.node("wild", port, http, train__rate=1000, train__schedule="[]", average__local_steps=400,
                         train__steps=40000, train__weight_decay=10).start()
        wait_until(lambda: self.health(node)[0] == 503 or node.process.poll() is not None, "a complaint of /healthz")
        status, text = self.health(node)
        if status:
            self.assertIn("not_finite: ", text)
        log = node.wait_exit(1)
        self.assertEqual(len(re.findall(r"rollback .*loss or model is not finite", log)), 10, log)
        path = os.path.join(node.directory, node.checkpoints()[-1])
        shown = subprocess.run([os.path.join(os.path.dirname(PROGRAM), "p2pml"), "inspect", path],
                               capture_output=True, text=True, timeout=60)
        self.assertEqual(shown.returncode, 0, shown.stderr)  # inspect refuses a model that is not finite

    def test_a_node_that_diverges_returns_and_ends_with_its_last_good_model(self):
        """The rate is 300 times as high from the middle on: the loss rises, and every return ends in the same way."""
        port, http = free_ports(2)
        node = self.node("steep", port, http, train__rate=0.1, train__schedule="[0.5:300]", train__steps=4000).start()
        wait_until(lambda: self.health(node)[0] == 503 or node.process.poll() is not None, "a complaint of /healthz")
        status, text = self.health(node)
        if status:
            self.assertRegex(text, r"^diverged: The loss.* train\.rate")
        log = node.wait_exit(1)
        self.assertEqual(len(re.findall(r"diverged round \d+: the loss is \S+, far above", log)), 8, log)
        self.assertRegex(log, r"diverged the training diverged 8 times")
        rows = node.rows()
        self.assertEqual([r["returns"] for r in (rows[0], rows[-1])], [0, 8])
        good = max(r["accuracy"] or 0 for r in rows)
        self.assertGreater(rows[-1]["accuracy"], good - 0.05)  # of the last good model, not of what it became
        self.assertGreater(good, 0.5)

    def test_a_stop_is_a_round_boundary_and_a_resume_needs_no_resync(self):
        # On a busy machine long rounds are even longer, and so is the time until others hear of a stop.
        nodes = self.cluster(4, http=True, train__steps=4000000, average__local_steps=2000 // SLOWER, average__mode="sync",
                             average__deadline_floor="20s", average__deadline_ceiling="60s", topology__kind="ring")
        for node in nodes:
            node.start()
        for node in nodes:
            node.wait_rows(6)
        for node in nodes:
            node.signal(signal.SIGTERM)
        rounds = {int(re.search(r"checkpoint step (\d+)", node.wait_exit(0)).group(1)) for node in nodes}
        self.assertEqual(len(rounds), 1, rounds)  # all stopped at the same round
        before = [len(node.rows()) for node in nodes]
        for node in nodes:
            node.start("--resume")
        for node, count in zip(nodes, before):
            node.wait_rows(count + 6)
            for edge in self.status(node)["edges"]:
                self.assertEqual((edge["state"], edge["resyncs"], edge["mismatches"]), ("live", 0, 0),
                                 "\n".join(n.last_words() for n in nodes))
        for node in nodes:
            node.signal(signal.SIGTERM)
        for node in nodes:
            node.wait_exit(0)

    def test_a_full_disk_stops_no_training(self):
        def little_room():  # limits files to 16 KiB: metrics.jsonl in the middle of the run, and every checkpoint
            resource.setrlimit(resource.RLIMIT_FSIZE, (16384, 16384))
        ports = free_ports(2)
        both = {"average__mode": "sync", "average__deadline_floor": "60s", "average__deadline_ceiling": "60s"}
        full = self.node("full", ports[0], peers=f"127.0.0.1:{ports[1]}", checkpoint__every="100ms", **both)
        fine = self.node("fine", ports[1], peers=f"127.0.0.1:{ports[0]}", **both).start()
        full.start(before=little_room)
        fine.wait_exit(0)
        log = full.wait_exit(1)  # the last checkpoint could not be written
        self.assertRegex(log, r"checkpoint_failed .*checkpoint-\d+\.safetensors.*File too large")
        self.assertRegex(log, r"metrics\.jsonl")
        self.assertEqual(full.checkpoints(), [])
        self.assertEqual(fine.rows()[-1]["step"], 400)
        self.assertEqual(fine.rows()[-1]["exchanges"], 100)

    def test_no_log_in_a_file_of_the_node_when_its_stderr_is_closed(self):
        node = self.node("silent", 0, train__steps=20)
        node.command = ["sh", "-c", 'exec "$@" 2>&-', "sh"] + node.command
        self.assertEqual(node.start().wait_exit(0), "")
        for name in os.listdir(node.directory):
            with open(os.path.join(node.directory, name), "rb") as file:
                self.assertNotIn(b" info ", file.read(), name)
        self.assertEqual(os.path.getsize(os.path.join(node.directory, "lock")), 0)

    def test_a_node_can_be_stopped_while_it_waits_for_peers(self):
        node = self.node("alone", 0, peers="127.0.0.1:1")
        node.start()
        node.wait_log("listening")
        node.signal(signal.SIGINT)
        self.assertIn("SIGINT", node.wait_exit(0))
        self.assertEqual(node.checkpoints(), ["checkpoint-0.safetensors"])

    def test_a_removed_directory_is_restored(self):
        node = self.node("alone", 0, train__steps=0, train__eval_rounds=0)
        node.start()
        node.wait_log("training begins")
        with open(os.path.join(node.directory, "identity")) as file:
            identity = file.read()
        gone = node.directory + "-gone"
        os.rename(node.directory, gone)  # at once, as rmtree is not
        shutil.rmtree(gone)
        wait_until(lambda: node.rows() and node.checkpoints(), "lines and a checkpoint in a new directory")
        with open(os.path.join(node.directory, "identity")) as file:
            self.assertEqual(file.read(), identity)
        node.signal(signal.SIGTERM)
        self.assertIn("were removed while this node runs; restored: identity, boot, lock", node.wait_exit(0))
        self.assertTrue({"boot", "lock", "model.safetensors"} <= set(os.listdir(node.directory)))

    def test_a_repeated_sigterm_changes_nothing(self):
        node = self.node("alone", 0, train__steps=0, train__eval_rounds=0)
        node.start()
        node.wait_log("training begins")
        node.signal(signal.SIGSTOP)  # so that all of them are there before any thread continues
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCONT, signal.SIGTERM, signal.SIGTERM):  # as timeout(1) and a shell do
            node.signal(number)
        node.wait_exit(0)
        self.assertEqual(node.rows()[-1]["state"], "stopped")

    def test_a_second_sigint_ends_at_once_after_a_second(self):
        node = self.node("alone", 0, free_ports(1)[0], train__steps=0, average__local_steps=1000000, train__eval_rounds=0)  # a round of minutes
        node.start()
        node.wait_log("training begins")
        wait_until(lambda: self.status(node)["state"] == "training", "its first steps")  # told before they begin: now only their end could stop it
        begun = time.monotonic()
        node.signal(signal.SIGINT)
        node.wait_log("writing the last checkpoint")
        while node.process.poll() is None:  # somebody presses Ctrl-C again and again
            node.signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                node.process.wait(0.1)
        self.assertGreater(time.monotonic() - begun, 0.9)
        self.assertEqual(node.process.returncode, 1)

    def test_training_begins_without_a_missing_peer(self):
        node = self.node("alone", 0, peers="127.0.0.1:1", node__start_timeout="500ms")
        log = node.start().wait_exit(0)
        self.assertIn("training begins without 1 listed peer: 127.0.0.1:1", log)

    def begin_beside_one_that_joins(self, turn):
        """A node that waits no longer, and another one that has just joined and has reported nothing since; None: it came too
        late, had time to count, or was silent for so long that the first node is cut off (6 s)."""
        first, second, http = free_ports(3)
        both = {"node__start_timeout": f"{4 + turn % 2}s", "train__steps": 0, "train__schedule": "", "cluster__profile": "wan"}
        waits = self.node(f"waits-{turn}", first, http, peers=f"127.0.0.1:{second}", **both).start()
        joins = self.node(f"joins-{turn}", second, peers=f"127.0.0.1:{first}", **both).start()
        waits.wait_log(r" join joins-\d at |start training begins")
        joins.signal(signal.SIGSTOP)
        waits.wait_log(r"start training begins")
        before, begins, _ = waits.log().partition(" start_without ")
        if begins and " join joins-" in before and " dead joins-" not in before:
            return waits, joins, f"127.0.0.1:{second}"
        joins.signal(signal.SIGCONT)
        return None

    def test_a_peer_that_has_just_joined_is_not_missing(self):
        # On a busy machine a second attempt may be needed to hit the moment between joining and counting.
        waits, joins, address = next(filter(None, map(self.begin_beside_one_that_joins, range(8))))
        self.assertIn("1 listed peer joined just now and will take part in a moment", waits.log())
        self.assertNotRegex(waits.log(), rf"(without|answered).*{address}")
        status = self.status(waits)
        self.assertEqual([(entry["entry"], entry["state"]) for entry in status["peers"]], [(address, "member")])
        self.assertIn(status["peers"][0]["id"], [member["id"] for member in status["members"] if member["name"] == joins.name])
        joins.signal(signal.SIGCONT)
        joins.wait_rows(2)
        for node in self.nodes:
            node.signal(signal.SIGTERM)
        for node in self.nodes:
            node.wait_exit(0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
