"""attach with processes and in one process. Run with a Python that has torch; P2PML_LIBRARY names libp2pml.so."""

import glob
import os
import resource
import signal
import sys
import threading
import unittest
import unittest.mock
import warnings

import torch

import p2pml
from loops import Loop, small
from processes import Processes, free_ports, patience

HERE = os.path.dirname(os.path.abspath(__file__))


class Together(Processes):
    def start(self, index, steps, ports, seed=0):
        return self.start_program(os.path.join(HERE, "worker.py"), index, self.folder, index, steps, seed, *ports)

    def test_two_learn_what_neither_has_seen(self):
        ports = free_ports(2)
        nodes = [self.start(i, "all4000", ports) for i in range(2)]
        for i, node in enumerate(nodes):
            self.assertGreater(self.result(node, i), 0.9)  # alone: half

    def test_two_with_first_weights_of_their_own_take_one_model(self):
        ports = free_ports(2)
        nodes = [self.start(i, "all8000", ports, seed=i) for i in range(2)]
        for i, node in enumerate(nodes):
            self.assertGreater(self.result(node, i), 0.9)
        self.assertEqual(sum(" fetched " in self.read(i) for i in range(2)), 1)

    def test_four_of_which_one_is_killed_and_comes_back(self):
        ports = free_ports(4)
        nodes = [self.start(i, 10 ** 9, ports) for i in range(4)]
        for i in range(4):
            self.wait_for(i, "begun at")
        nodes[3].send_signal(signal.SIGKILL)
        nodes[3].wait()
        for i in range(3):
            self.wait_for(i, " dead ")
        for checkpoint in glob.glob(os.path.join(self.folder, "3", "checkpoint-*")):
            os.remove(checkpoint)  # of its first round: it has nothing to come back from
        back = self.start(3, 500, ports)
        self.assertGreater(self.result(back, 3), 0.9)
        self.assertIn(" fetched ", self.read(3))  # the others' model
        for i in range(3):
            self.assertIsNone(nodes[i].poll(), self.read(i)[-2000:])

    def test_ctrl_c_ends_a_program_that_waits(self):
        ports = free_ports(2)
        lonely = self.start(0, 10, ports)  # waits for the other one
        self.wait_for(0, "listening")
        lonely.send_signal(signal.SIGINT)
        self.assertNotEqual(lonely.wait(patience()), 0)
        self.assertIn("KeyboardInterrupt", self.read(0))


class InOneProcess(Loop):
    def test_alone_it_is_the_same_as_without(self):
        for kind in (torch.optim.SGD, torch.optim.AdamW, torch.optim.RMSprop):
            torch.manual_seed(1)
            plain, _ = small()
            torch.manual_seed(1)
            shared, _ = small()
            ours, theirs = kind(shared.parameters(), lr=0.01), kind(plain.parameters(), lr=0.01)
            attachment = p2pml.attach(self.join(kind.__name__), shared, ours, every=3)
            self.step(shared, ours, 10)
            self.step(plain, theirs, 10)
            attachment.close()
            for a, b in zip(shared.parameters(), plain.parameters()):
                self.assertTrue(torch.equal(a, b), kind)

    def test_parameters_outlive_the_node(self):
        model, optimizer = small()
        attachment = p2pml.attach(self.join(), model, optimizer, every=1)
        self.step(model, optimizer, 3)
        before = [p.detach().clone() for p in model.parameters()]
        attachment.close()
        del attachment
        for p, q in zip(model.parameters(), before):
            self.assertTrue(torch.equal(p, q))
        self.step(model, optimizer, 3)  # an ordinary loop again

    def test_a_loop_in_numpy_writes_to_the_vector(self):
        node = self.join().open([("w", (2, 3))])
        node.model = 1
        node.start()
        node.model += 0.5 * node.correction + 1
        self.assertEqual(node.model.tolist(), [2.0] * 6)

    def test_ctrl_c_at_any_line_of_a_step(self):
        model, optimizer = small()
        attachment = p2pml.attach(self.join(), model, optimizer, every=1)
        source, at, left = os.path.dirname(p2pml.__file__) + os.sep, 0, 0
        while left <= 0:  # one line further each time, until there is none left
            at += 1
            left = at

            def trace(frame, event, _):
                nonlocal left
                left -= event == "line"
                if event == "line" and left == 0:
                    raise KeyboardInterrupt
                return trace
            sys.settrace(lambda frame, event, _: trace if frame.f_code.co_filename.startswith(source) else None)
            try:
                self.step(model, optimizer)
            except KeyboardInterrupt:
                pass
            finally:
                sys.settrace(None)
            before, correct = attachment._round.steps_done, attachment._flat.correct
            with unittest.mock.patch.object(attachment._flat, "correct", lambda rate: (self.assertFalse(attachment.node.lent, at), correct(rate))):
                self.step(model, optimizer, 2)  # which write to the vectors only when they are this side's
            self.assertFalse(attachment.node.lent or attachment._exchanging, at)
            self.assertGreater(attachment._round.steps_done, before, at)
            self.assertTrue(attachment._flat.lie_in_vector(), at)
            self.assertTrue(all(bool(torch.isfinite(p).all()) for p in model.parameters()), at)
        self.assertGreater(at, 30)  # lines there are

    def weigh(self, by_closure):
        found = {}

        def program(i):
            model = torch.nn.Linear(2, 1, bias=False)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            yield model, optimizer
            attachment = optimizer._p2pml
            for _ in range(30):
                def closure():
                    optimizer.zero_grad()
                    loss = (model(torch.ones(1, 2)) * (1 if i else -1)).sum()
                    loss.backward()  # a gradient of 1 for each
                    return loss
                if not by_closure:
                    closure()
                weight = attachment._round.weight
                optimizer.step(*[closure] * by_closure)
                found[i] = weight, model.weight.grad.abs().tolist()
        self.together([program] * 2, every=1, arguments=[{"examples": 30}, {"examples": 10}])
        self.assertEqual(found, {0: (1.5, [[1.5, 1.5]]), 1: (0.5, [[0.5, 0.5]])})

    def test_gradients_count_by_examples(self):
        self.weigh(by_closure=False)

    def test_gradients_of_a_closure_count_by_examples(self):
        self.weigh(by_closure=True)  # as Lightning calls step

    def test_half_precision_has_a_master(self):
        model = torch.nn.Linear(3, 2).to(torch.bfloat16)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        attachment = p2pml.attach(self.join(), model, optimizer, every=1)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(4, 3, dtype=torch.bfloat16)).float().pow(2).sum().backward()
            optimizer.step()
        self.assertEqual(model.weight.dtype, torch.bfloat16)
        attachment.close()

    def test_a_round_tells_the_sum_of_its_mean_rates(self):
        model, _ = small()
        few, many = [model[0].bias], [p for p in model.parameters() if p is not model[0].bias]
        optimizer = torch.optim.SGD([{"params": few, "lr": 0.4}, {"params": many, "lr": 0.01}])
        sizes = [sum(p.numel() for p in group) for group in (few, many)]
        mean = (0.4 * sizes[0] + 0.01 * sizes[1]) / sum(sizes)
        with p2pml.attach(self.join(), model, optimizer, every=4) as attachment:
            told, exchange = [], attachment.node.exchange
            with unittest.mock.patch.object(attachment.node, "exchange", lambda *round: (told.append(round[:2]), exchange(*round))[1]):
                self.step(model, optimizer, 12)
        self.assertGreater(max(steps for steps, _ in told), 1)
        for steps, scale in told:
            self.assertAlmostEqual(scale, steps * mean, places=9)

    def test_a_resumed_node_has_its_model(self):
        model, optimizer = small()
        with p2pml.attach(self.join(), model, optimizer, every=1):
            self.step(model, optimizer, 5)
        again, its = small()
        with p2pml.attach(self.join(), again, its, every=1):
            for p, q in zip(model.parameters(), again.parameters()):
                self.assertTrue(torch.equal(p, q))

    def test_what_is_not_finite_is_taken_back(self):
        model, optimizer = small()
        p2pml.attach(self.join(), model, optimizer, every=1)
        self.step(model, optimizer)
        before = model[0].weight.detach().clone()
        with torch.no_grad():
            model[0].weight[0, 0] = float("nan")
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            self.step(model, optimizer)
        self.assertTrue(any("NaN" in str(w.message) for w in told))
        self.assertTrue(torch.equal(model[0].weight, before))

    def test_errors_have_words(self):
        model, optimizer = small()
        node = self.join()
        attachment = p2pml.attach(node, model, optimizer, every=1)
        with self.assertRaisesRegex(p2pml.OrderError, "attached to a node already"):
            p2pml.attach(self.join("other"), model, optimizer)
        with self.assertRaisesRegex(p2pml.OrderError, "has a model already"):
            p2pml.attach(node, *small())
        with self.assertRaisesRegex(p2pml.OrderError, "p2pml_round_begin"):
            node.end()
        model[0].weight.data = torch.zeros(9, 3)
        with self.assertRaisesRegex(p2pml.MismatchError, r"\(9, 3\) now, it was \(5, 3\)"):
            attachment.exchange()
        model[0].weight.data = torch.zeros(5, 3)
        attachment.close()
        with self.assertRaisesRegex(p2pml.OrderError, "closed"):
            node.status()
        with self.assertRaisesRegex(p2pml.ConfigurationError, "average.ratio"):
            p2pml.attach(self.join("third", average__ration=1), *small())
        with self.assertRaisesRegex(p2pml.ConfigurationError, "not in the model"):
            p2pml.attach(self.join("fourth"), small()[0], optimizer)
        with self.assertRaisesRegex(p2pml.ConfigurationError, "secret"):
            p2pml.attach(self.join("fifth", secret="/nowhere"), *small())
        with self.assertRaises(TypeError):
            p2pml.attach("a.example:7400", model, optimizer)

    def test_another_model_than_the_cluster_s_is_told(self):
        ports, told = free_ports(2), {}

        def other(i):
            model = torch.nn.Linear(3, 2 + i)
            node = self.join(str(i), peers=f"127.0.0.1:{ports[1 - i]}", listen=f"127.0.0.1:{ports[i]}", node__start_timeout="3s")
            try:
                p2pml.attach(node, model, torch.optim.SGD(model.parameters(), lr=0.1), timeout=patience())
            except p2pml.Ended as why:
                told[i] = str(why)
        threads = [threading.Thread(target=other, args=(i,)) for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(patience())
        for i in range(2):
            self.assertRegex(told.get(i, ""), r"it trains another model: .* 8 parameters .*listed peer")

    def test_the_blob_comes_back_with_the_model(self):
        node = self.join()
        with p2pml.attach(node, *small()):
            self.assertEqual(node.blob, b"")
            with self.assertRaisesRegex(TypeError, "found int, expected bytes"):
                node.blob = 7  # bytes(7) would be seven zeros
            node.blob = b"step 7\0of the schedule"
            with self.assertRaisesRegex(p2pml.ConfigurationError, "65536"):
                node.blob = bytes(65537)
        again = self.join()
        with p2pml.attach(again, *small()):
            self.assertEqual(again.blob, b"step 7\0of the schedule")

    def test_a_state_goes_on_where_it_was_taken(self):
        model, optimizer = small()
        state_file = os.path.join(self.folder, "mine.pt")
        with p2pml.attach(self.join(), model, optimizer, every=3) as attachment:
            self.step(model, optimizer, 4)
            torch.save({"model": model.state_dict(), "node": attachment.state_dict()}, state_file)
            then = model[0].weight.detach().clone()
            self.step(model, optimizer, 30)  # and a later checkpoint in the node's directory
        saved = torch.load(state_file)
        self.assertTrue(torch.equal(saved["model"]["0.weight"], then))
        for name in ("node", "elsewhere"):
            again, its = small()
            with p2pml.attach(self.join(name), again, its, state=saved["node"]) as attachment:
                self.assertTrue(torch.equal(again[0].weight, then))
                self.assertEqual(attachment.node.status()["step"], 4)
        other = torch.nn.Linear(3, 5)
        with self.assertRaisesRegex(p2pml.MismatchError, "of another model: '0.weight'"):
            p2pml.attach(self.join("other"), other, torch.optim.SGD(other.parameters(), lr=0.1), state=saved["node"])

    def test_second_moments_lie_in_the_vector_whoever_replaces_them(self):
        model = torch.nn.Linear(3, 2)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        attachment = p2pml.attach(self.join(), model, optimizer, every=2)

        def held():
            return torch.cat([optimizer.state[p]["exp_avg_sq"].flatten() for p in model.parameters()])
        vector = torch.frombuffer(attachment.node.buffer(1), dtype=torch.float32)
        self.step(model, optimizer, 4)
        self.assertTrue(torch.equal(vector, held()))
        optimizer.load_state_dict(optimizer.state_dict())
        self.step(model, optimizer, 4)
        self.assertTrue(torch.equal(vector, held()) and bool(vector.any()))
        for p in model.parameters():
            optimizer.state[p]["exp_avg_sq"] = torch.full_like(p, 0.5)
        attachment.exchange()
        self.assertTrue(torch.equal(vector, torch.full_like(vector, 0.5)))
        self.step(model, optimizer)
        self.assertTrue(torch.equal(vector, held()))
        del vector

    def test_a_state_that_cannot_be_written_is_no_older_one(self):
        model, optimizer = small()
        with p2pml.attach(self.join(), model, optimizer, every=3) as attachment:
            self.step(model, optimizer, 4)
            older = attachment.state_dict()["step"]
            self.step(model, optimizer, 4)
            limits = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))  # as on a full disk
            try:
                with self.assertRaisesRegex(p2pml.EnvironmentFailed, "no checkpoint"):
                    attachment.state_dict()
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            self.assertGreater(attachment.state_dict()["step"], older)

    def test_a_restored_state_is_on_the_disk(self):
        node, order = self.join(), []
        fsync, replace = os.fsync, os.replace
        with unittest.mock.patch("os.fsync", lambda f: (order.append("sync"), fsync(f))), \
             unittest.mock.patch("os.replace", lambda a, b: (order.append("replace"), replace(a, b))):
            node.restore(7, b"anything")
        self.assertEqual(order, ["sync", "replace", "sync"])

    def test_an_interrupted_exchange_ends_before_the_vector_is_written(self):
        model = torch.nn.Linear(3, 2).to(torch.bfloat16)  # a master that is copied
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with p2pml.attach(self.join(), model, optimizer, every=100) as attachment:
            with unittest.mock.patch.object(p2pml.Node, "end", side_effect=KeyboardInterrupt):
                with self.assertRaises(KeyboardInterrupt):
                    attachment.exchange()
            self.assertTrue(attachment.node.lent)
            copy, lent = attachment._flat.to_vector, []
            with unittest.mock.patch.object(attachment._flat, "to_vector", lambda: (lent.append(attachment.node.lent), copy())):
                attachment.exchange()
                attachment.exchange()
            self.assertEqual(lent, [False])

    def test_the_result_of_an_interrupted_exchange_is_taken(self):
        model = torch.nn.Linear(3, 2).to(torch.bfloat16)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with p2pml.attach(self.join(), model, optimizer, every=100) as attachment:
            with unittest.mock.patch.object(attachment._flat, "from_vector", side_effect=KeyboardInterrupt):
                with self.assertRaises(KeyboardInterrupt):
                    attachment.exchange()
            self.assertFalse(attachment.node.lent)
            attachment.node.model[:] = 2.0  # as if that had come from others
            attachment.exchange()
            self.assertTrue(all(bool((p == 2.0).all()) for p in model.parameters()))

    def test_a_state_that_cannot_be_restored_supersedes_nothing(self):
        model, optimizer = small()
        with p2pml.attach(self.join(), model, optimizer, every=2) as attachment:
            self.step(model, optimizer, 4)
            attachment.state_dict()
        folder = os.path.join(self.folder, "node")
        before = sorted(os.listdir(folder))
        node, limits = self.join(), resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))  # as on a full disk
        try:
            with self.assertRaises(OSError):
                node.restore(1, bytes(1000))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        self.assertEqual(sorted(os.listdir(folder)), before)

    def test_a_state_has_the_edges(self):
        ports = free_ports(2)
        nodes, models = [], []
        for i in range(2):
            torch.manual_seed(1)  # with other weights the second one waits for the first exchange of the first
            model, optimizer = small()
            nodes.append(self.join(str(i), peers=f"127.0.0.1:{ports[1 - i]}", listen=f"127.0.0.1:{ports[i]}"))
            models.append((model, optimizer))
        threads = [threading.Thread(target=p2pml.attach, args=(nodes[i], *models[i]), kwargs={"every": 2}) for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(patience())
        self.step(*models[0], times=20)
        self.assertIn(b"edge.", models[0][1]._p2pml.state_dict()["checkpoint"].numpy().tobytes())

    def test_a_parameter_that_comes_later_is_told(self):
        model, optimizer = small()
        attachment = p2pml.attach(self.join(), model, optimizer, every=1)
        optimizer.add_param_group({"params": [torch.nn.Parameter(torch.zeros(7))]})
        with self.assertRaisesRegex(p2pml.MismatchError, r"group 1 .* shape \(7,\)"):
            attachment.exchange()
        optimizer.param_groups.pop()
        self.step(model, optimizer)
        optimizer.add_param_group({"params": [torch.nn.Parameter(torch.zeros(7))]})
        attachment.close()  # whatever came later, the node leaves
        self.assertTrue(attachment.closed)

    def test_a_parameter_that_was_frozen_is_told(self):
        model = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Linear(5, 2))
        model[0].requires_grad_(False)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        attachment = p2pml.attach(self.join(), model, optimizer, every=1)
        attachment.exchange()
        model[0].requires_grad_(True)
        with self.assertRaisesRegex(p2pml.MismatchError, r"group 0 .* shape \(5, 3\)"):
            attachment.exchange()
        optimizer.param_groups[0]["params"][0] = torch.nn.Parameter(torch.zeros(5, 3))  # as many as before
        model[0].requires_grad_(False)
        with self.assertRaisesRegex(p2pml.MismatchError, r"group 0 .* shape \(5, 3\)"):
            attachment.exchange()
        attachment.close()

    def test_a_child_leaves_the_node_alone(self):
        model, optimizer = small()
        node = self.join()
        p2pml.attach(node, model, optimizer, every=1)
        child = os.fork()
        if child == 0:
            signal.alarm(60)  # of one that hangs
            try:
                node.status()
            except p2pml.ForkError:
                node.close()
                os._exit(0)
            os._exit(1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.step(model, optimizer, 3)

    def test_an_interrupted_exchange_goes_on(self):
        model, optimizer = small()
        node = self.join()
        p2pml.attach(node, model, optimizer, every=1)
        def interrupt(*_):
            raise KeyboardInterrupt
        self.addCleanup(signal.signal, signal.SIGALRM, signal.signal(signal.SIGALRM, interrupt))
        seen = 0
        for i in range(300):  # Ctrl-C at any line
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0002 + 0.000013 * i)
                self.step(model, optimizer, 1000)
            except KeyboardInterrupt:
                seen += 1
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
                torch.set_grad_enabled(True)  # torch's own, where its no_grad was interrupted
        self.assertEqual(seen, 300)
        self.step(model, optimizer, 5)
        self.assertEqual(node.status()["state"], "training")


if __name__ == "__main__":
    unittest.main(verbosity=2)
