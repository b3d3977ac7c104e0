"""A figure is about the data that it names: examples that are held out stay held out, labels, units and sizes mean the
same in training, evaluation and use, and each example counts once."""

import os
import random
import re
import subprocess
import tempfile
import unittest

import corpus
from cluster import PROGRAM
from ports import free_ports

P2PML = os.path.join(os.path.dirname(PROGRAM), "p2pml")
ALONE = {"node.name": "a", "node.dir": "n", "node.listen": "127.0.0.1:0", "node.http": "", "node.linger": 0, "node.start_timeout": 0,
         "train.alone": "go-on", "train.eval_rounds": 0, "log.progress": 0, "checkpoint.every": 0}


def sets(settings):
    return [f"--set={key}={value}" for key, value in settings.items()]


class Meaning(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory(prefix="p2pml-meaning-")
        self.addCleanup(place.cleanup)
        self.place, self.chance = place.name, random.Random(5)

    def write(self, name, content):
        path = os.path.join(self.place, name)
        with open(path, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        return path

    def read(self, name):
        with open(os.path.join(self.place, name), "rb") as file:
            return file.read()

    def run_it(self, program, *arguments, status=0, text=None, environment=()):
        kept = {k: v for k, v in os.environ.items() if not k.startswith("P2PML_")}
        done = subprocess.run([program, *arguments], cwd=self.place, input=text, capture_output=True, timeout=240,
                              env={**kept, **dict(environment)})
        out, err = done.stdout.decode(), done.stderr.decode()
        self.assertEqual(done.returncode, status, out + err)
        return out + err

    def node(self, *arguments, status=0, **settings):
        return self.run_it(PROGRAM, *sets({**ALONE, **{k.replace("__", "."): v for k, v in settings.items()}}), *arguments,
                           status=status)

    def accuracy(self, *arguments):
        said = self.run_it(P2PML, "eval", *arguments)
        return float(re.search(r"(?:accuracy|R2) +([-\d.]+)", said).group(1)), said

    def cluster(self, nodes):
        ports = free_ports(len(nodes))
        peers = ",".join(f"127.0.0.1:{p}" for p in ports)
        running = [subprocess.Popen(
            [PROGRAM, "--peers", peers, *sets({**ALONE, "node.dir": f"n{i}", "node.listen": f"127.0.0.1:{port}",
                                               "node.name": f"n{i}", "node.linger": "10s", "node.start_timeout": "60s",
                                               "average.ratio": 1, "average.mode": "sync", "average.deadline_floor": "10s",
                                               **settings})],
            cwd=self.place, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            for i, (port, settings) in enumerate(zip(ports, nodes))]
        logs = [node.communicate(timeout=240)[0] for node in running]
        for node, log in zip(running, logs):
            self.assertEqual(node.returncode, 0, log)
        return logs

    # Labels by coin: whatever is learnt by heart, the examples that are held out say half.
    def coins(self, count):
        rows = random.Random(3)
        return "".join(["a,b,c,y\n"] + [",".join([*(f"{rows.gauss(0, 1):.3f}" for _ in range(3)), rows.choice("pq")]) + "\n"
                                        for _ in range(count)])

    def test_a_row_more_does_not_move_the_examples_that_are_held_out(self):
        data = {"data__kind": "csv", "data__train_file": "d.csv", "model__hidden": "[64]", "train__rate": 0.2}
        self.write("d.csv", self.coins(200))
        self.node(**data, train__steps=4000)
        before, said = self.accuracy("n", "--set=data.train_file=d.csv")
        self.assertNotIn("not the one", said)
        self.write("d.csv", self.coins(200) + "0,0,0,p\n")
        said = self.node("--resume", **data, train__steps=4004)
        self.assertIn("the training file is another one: 201 examples", said)
        after, said = self.accuracy("n", "--set=data.train_file=d.csv")
        self.assertLess(abs(after - before), 12)
        self.assertLess(after, 75)
        self.assertIn("this is the file that the model was trained on",
                      self.run_it(P2PML, "eval", "n", "--set=data.test_file=d.csv"))
        self.write("e.csv", self.coins(200).replace("p\n", "q\n", 1))
        self.assertIn("is not the one that the model was trained on", self.accuracy("n", "--set=data.train_file=e.csv")[1])
        self.assertIn("some of these examples were trained on",
                      self.run_it(P2PML, "eval", "n", "--set=data.train_file=d.csv", "--set=data.seed=9", status=2))
        self.node("--resume", **data, data__seed=9, train__steps=4008, status=1)

    def test_another_training_file_is_told_beside_a_test_file_too(self):
        rows = self.coins(200)
        self.write("t.csv", self.coins(50))
        for shards in (1, 2):
            data = {"data__kind": "csv", "data__train_file": "d.csv", "data__test_file": "t.csv", "data__shards": shards,
                    "node__dir": f"n{shards}"}
            said = []
            for i, text in enumerate((rows, rows, rows.replace("p\n", "q\n", 1), rows + "0,0,0,p\n")):  # a label, a row more
                self.write("d.csv", text)
                said.append(self.node(*["--resume"] * (i > 0), **data, train__steps=(i + 1) * 40))
            another = [re.findall(r"training file is another one \((\d+) examples\) than that of the checkpoint \((\d+)\)", one)
                       for one in said]
            self.assertEqual(another, [[], [], [("200", "200")], [("201", "200")]])
        self.assertIn("this is the file that the model was trained on, all of it",
                      self.run_it(P2PML, "eval", "n1", "--set=data.test_file=d.csv"))
        self.assertNotIn("trained on", self.run_it(P2PML, "eval", "n1", "--set=data.test_file=t.csv"))

    def test_examples_on_both_sides_are_told(self):
        data = {"data__kind": "csv", "data__train_file": "d.csv", "model__hidden": "[64]", "train__rate": 0.2, "train__steps": 20}
        rows = self.coins(200).split("\n", 1)
        self.write("d.csv", "\n".join(rows))
        self.assertNotIn("the same values", self.node(**data))
        self.write("d.csv", "\n".join(rows) + rows[1])
        self.assertRegex(self.node(**data), r" warn .* \d+ of the \d+ examples that are held out have the same values as some to train on")

    def test_a_longer_text_is_no_test_of_a_model_of_the_shorter_one(self):
        text = "the cat sat on the mat and saw the hat " * 30
        data = {"data__kind": "text", "data__train_file": "t.txt", "model__kind": "gpt2", "model__layers": 1, "model__width": 8,
                "model__heads": 1, "model__context": 16, "train__steps": 4}
        self.write("t.txt", text)
        self.node(**data)
        self.write("t.txt", text + text)
        self.assertIn("the text is another one", self.node("--resume", **{**data, "train__steps": 8}, status=1))
        self.assertIn("the text is not the one", self.run_it(P2PML, "eval", "n", "--set=data.train_file=t.txt", status=1))

    def test_labels_mean_the_same_on_all_nodes(self):
        def rows(label, at):
            return "".join(f"{label} 1:{self.chance.gauss(at, 1):.3f} 2:{self.chance.gauss(0, 1):.3f}\n" for _ in range(200))

        self.write("1.svm", rows(1, 0))
        self.write("2.svm", rows(2, 4))
        self.write("both.svm", rows(1, 0) + rows(2, 4))
        data = {"data.kind": "libsvm", "data.features": 2, "data.test_file": "both.svm", "model.kind": "softmax", "train.steps": 400}
        said = self.run_it(PROGRAM, "--check", *sets({**data, "data.classes": 2, "data.train_file": "1.svm"}), status=2)
        self.assertIn("name both in data.labels", said)
        logs = self.cluster([{**data, "data.labels": "1,2", "data.train_file": f"{i}.svm"} for i in (1, 2)])
        for log in logs:
            self.assertGreater(float(re.search(r"result .*accuracy ([\d.]+)%", log).group(1)), 94)

    def test_files_of_different_size_count_by_their_examples(self):
        def rows(count, bound):
            return "x1,x2,y\n" + "".join(f"{x:.3f},{self.chance.gauss(0, 1):.3f},{'yes' if x > bound else 'no'}\n"
                                         for x in (self.chance.gauss(.5, 1.5) for _ in range(count)))

        self.write("a.csv", rows(4000, 0))
        self.write("b.csv", rows(100, 2))
        self.write("test.csv", rows(1000, 0))
        data = {"data.kind": "csv", "data.test_file": "test.csv", "model.kind": "softmax", "train.steps": 1000, "train.rate": 0.1}
        logs = self.cluster([{**data, "data.train_file": f"{name}.csv"} for name in "ab"])
        self.assertIn("has 4000 of the 4100 examples of 2 nodes; its gradient counts 1.95 times", logs[0])
        self.assertIn("has 100 of the 4100 examples of 2 nodes; its gradient counts 0.0488 times", logs[1])
        for log in logs:
            self.assertGreater(float(re.search(r"result .*accuracy ([\d.]+)%", log).group(1)), 95)

    def test_nodes_of_one_name_have_orders_of_their_own_and_a_renamed_one_resumes(self):
        data = {"average__method": "local", "train__steps": 40, "data__train_count": 400, "data__test_count": 50, "model__hidden": "[8]"}
        for directory in "pq":
            self.node(**data, node__dir=directory)
        models = [self.read(f"{directory}/model.safetensors")[-4000:] for directory in "pq"]
        self.assertNotEqual(*models)
        self.assertIn("resume from step 40", self.node("--resume", **{**data, "train__steps": 44}, node__dir="p", node__name="renamed"))

    def test_seconds_since_1970_are_learnt_as_seconds_from_0(self):
        rows = [(1700000000 + i / 5, self.chance.gauss(0, 1), i / 5) for i in range(400)]
        self.write("t.csv", "t,x,y\n" + "".join(f"{t:.1f},{x:.2f},{y:.2f}\n" for t, x, y in rows))
        data = {"data__kind": "csv", "data__train_file": "t.csv", "model__kind": "softmax", "model__loss": "mse", "train__steps": 600}
        self.assertIn("32-bit floats keep", self.node("--check", **data))
        self.node(**data, data__scale="standard")
        self.assertGreater(self.accuracy("n", "--set=data.train_file=t.csv")[0], 0.99)
        answers = self.run_it(P2PML, "predict", "n", text=self.read("t.csv")).split()[1:]
        self.assertLess(max(abs(float(a) - y) for a, (_, _, y) in zip(answers, rows)), 3)
        # ONNX takes such inputs as doubles: the element type 11 of its input, and a Cast behind the shift.
        self.run_it(P2PML, "export", "n", "--format", "onnx", "-o", "n.onnx")
        graph = self.read("n.onnx")
        self.assertIn(b"Cast", graph)
        self.assertRegex(graph, rb"(?s)\x0a\x05input\x12.{2,4}\x08\x0b")

    def test_one_reader_for_training_evaluation_and_use(self):
        files = {c.name: c for c in corpus.cases(self.place)}
        table = files["pandas/plain.csv"].path
        self.node(data__kind="csv", data__train_file=table, train__steps=50)
        lines = self.read(table).decode().split("\n")
        wider = "\n".join([lines[0] + ",new"] + [line + f",w{i}" for i, line in enumerate(lines[1:-1])]) + "\n"
        said = self.run_it(P2PML, "predict", "n", text=wider.encode())
        self.assertIn('the column "new" is left out', said)
        plain = self.run_it(P2PML, "predict", "n", text=self.read(table))
        self.assertEqual(plain, "".join(line + "\n" for line in said.splitlines() if " warn " not in line))
        self.write("wider.csv", wider)
        self.assertIn('the column "new" is left out', self.run_it(P2PML, "eval", "n", "--set=data.test_file=wider.csv"))
        comma = files["excel_de/plain.csv"].path
        self.node(data__kind="csv", data__train_file=comma, data__delimiter=";", data__decimal="comma", train__steps=50, node__dir="de")
        self.assertIn("class,", self.run_it(P2PML, "predict", "de", text=self.read(comma)))
        self.accuracy("de", f"--set=data.train_file={comma}")
        # An array for predict: as rows, and in a file.
        array = files["sklearn/f8.npz"].path
        self.node(data__kind="npy", data__train_file=array, train__steps=50, node__dir="npz")
        answers = self.run_it(P2PML, "predict", "npz", array)
        self.assertEqual(len(answers.split()), 1 + corpus.ROWS)
        # Images of another size.
        pictures = files["images/plain"].path
        self.node(data__kind="images", data__train_file=pictures, data__image_size="12x8", train__steps=10, node__dir="small",
                  train__batch=2)
        self.accuracy("small", f"--set=data.test_file={files['images/turned_6'].path}")

    def test_check_opens_the_first_weights(self):
        data = ["--set=data.train_count=100", "--set=data.test_count=10"]
        self.write("model.safetensors.index.json", '{"weight_map": {"a": "model-00001-of-00002.safetensors"}}')
        self.write("pytorch_model.bin", b"PK\3\4" + bytes(300))
        for name, words in (("model.safetensors.index.json", "an index of shards"), ("pytorch_model.bin", "a file of torch.save")):
            self.assertIn(words, self.run_it(PROGRAM, "--check", f"--set=model.init={name}", *data, status=2))
            self.write("e.yaml", "experiment: {nodes: 2, baselines: []}\n")
            self.assertIn(words, self.run_it(P2PML, "run", "--check", "e.yaml", f"--set=model.init={name}", *data, status=2))

    def test_the_environment_of_a_pod_and_the_words_of_messages(self):
        pod = {"P2PML_SERVICE_HOST": "10.0.0.1", "P2PML_PORT_7400_TCP": "tcp://10.0.0.1:7400", "P2PML_TRAIN_STEP": "3"}
        said = self.run_it(PROGRAM, "--check", "--set=train.optimizer=sgd", "--set=train.beta1=0.8", environment=pod)
        self.assertNotIn("SERVICE_HOST", said)
        self.assertIn('"P2PML_TRAIN_STEP" names no key and is not read, did you mean P2PML_TRAIN_STEPS?', said)
        self.assertIn("used only when train.optimizer is adamw or lion", said)
        self.write("e.yaml", "experiment: {nodes: 2, baselines: []}\nsim: {bandwidth: 10Mbps, links: "
                             "[{between: [[0], [1]], bandwidth: 500 kbit/s}]}\n")
        self.run_it(P2PML, "sim", "--check", "e.yaml")
        said = self.run_it(P2PML, "sim", "--check", "e.yaml", "--set=sim.bandwidth=10MB/s", status=2)
        self.assertIn('found "10MB/s", expected a number of Mbit/s from 0 to 1000000, or one with kbit/s, Mbit/s or Gbit/s', said)


if __name__ == "__main__":
    unittest.main()
