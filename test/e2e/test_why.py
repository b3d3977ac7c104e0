"""p2pml why: the rounds of real nodes in sentences; one is killed. Every sentence is compared with the node's files."""

import os
import re
import subprocess
import urllib.error
import urllib.request

from cluster import PROGRAM, ClusterTest, free_ports, json_lines, signal, unittest

TOOL = os.path.join(os.path.dirname(PROGRAM), "p2pml")


def why(*arguments, status=0):
    done = subprocess.run([TOOL, "why", *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != status:
        raise AssertionError(f"{arguments} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout if status == 0 else done.stderr


class WhyTest(ClusterTest):
    def test_a_node_is_killed_and_the_others_say_so(self):
        ports = free_ports(6)
        nodes = [self.node(f"node-{i}", ports[2 * i], ports[2 * i + 1], peers=f"127.0.0.1:{ports[0]}" if i else "", train__steps=100000000,
                           topology__kind="ring", node__start_members=3, data__shards=3, data__shard=i, average__mode="sync", average__local_steps=200,  # 1,024 rounds, which a page has, take a minute
                           log__level="debug" if i == 0 else "info") for i in range(3)]
        for node in nodes:
            node.start()
        for node in nodes:
            node.wait_rows(20)
        nodes[2].signal(signal.SIGKILL)
        nodes[2].process.wait()
        nodes[0].wait_log(r"node-2 is dead")
        nodes[0].wait_rows(len(nodes[0].rows()) + 10)
        page = f"127.0.0.1:{ports[1]}"
        self.assertRegex(why(page), r"^node-0: round \d+ \(step \d+\) ended at ")
        died = next(e for e in self.events(nodes[0]) if e["event"] == "dead")["time"]
        round_of_death = next(row["round"] for row in nodes[0].rows() if row["time"] >= died)
        asked = {number: why(page, number) for number in [row["round"] for row in nodes[0].rows()[1:12]] + [round_of_death]}
        self.assertIn("node-2 is dead", asked[round_of_death])
        self.assertRegex(why(page, 99999999, status=1), r"no line of round 99999999: its lines are of rounds 1 to \d+")
        for wrong in ("/rounds/", "/rounds/0", "/rounds/x", "/rounds/1x", "/rounds/-1", "/rounds/99999999999999999999", "/roundsx"):
            with self.assertRaises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(f"http://{page}{wrong}", timeout=20)
            self.assertEqual(refused.exception.code, 404, wrong)
            refused.exception.close()
        for node in nodes[:2]:
            node.signal(signal.SIGTERM)
        for node in nodes[:2]:
            node.wait_exit(0)

        for number, told in asked.items():  # page and directory tell the same
            self.assertEqual(why(nodes[0].directory, number), told)
        rows = [row for row in nodes[0].rows() if "met_count" in row]
        named = {"node-1", "node-2"}
        met = {row["round"]: len(row["met"]) for row in rows}
        for row in rows[:10]:  # every exchange of the first rounds is told with its name
            text = why(nodes[0].directory, row["round"])
            told = re.search(r"^It met (.*)$", text, re.M)
            self.assertEqual(len(re.findall(r"node-[12]", told[1] if told else "")), met[row["round"]], text)
            self.assertEqual(set(re.findall(r"node-\d", text)) - named, {"node-0"})
        self.assertGreater(sum(met.values()), 0)
        self.assertIn("it was stopped", why(nodes[0].directory))
        self.assertIn("has no line of round 99999999", why(nodes[0].directory, 99999999, status=1))

        log = nodes[0].log()  # debug: both ends of an exchange, edges, waits
        self.assertRegex(log, r"debug .*exchange +to [0-9a-f]{16}: xchg, round \d+, epoch \d+, seq \d+, delta of \d+ bytes")
        self.assertRegex(log, r"from [0-9a-f]{16}: (xack|xchg), round \d+.*; edge live, epoch \d+, seq \d+, at round \d+")
        self.assertRegex(log, r"[0-9a-f]{16}: live -> edge live, epoch \d+, seq \d+; exchange made")
        self.assertRegex(log, r"round \d+ waits for \w+")
        self.assertNotIn(" debug ", nodes[1].log())

    def events(self, node):
        return json_lines(os.path.join(node.directory, "events.jsonl"))


if __name__ == "__main__":
    unittest.main()
