"""Hugging Face, Lightning, torchrun and JAX: each is skipped where it is not installed. P2PML_LIBRARY names libp2pml.so."""

import collections
import importlib.util
import os
import re
import shutil
import tempfile
import threading
import unittest
import unittest.mock
import warnings

from processes import Processes, free_ports, patience

import p2pml

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(os.path.dirname(HERE), "examples")


def needs(*packages):
    missing = [p for p in packages if not importlib.util.find_spec(p)]
    return unittest.skipIf(missing, f"no {' and no '.join(missing)} in this Python")


lightning = "lightning" if importlib.util.find_spec("lightning") else "pytorch_lightning"


class Together(Processes):
    def learn(self, *program):
        """Both processes learn the classes that only the other one has seen."""
        ports = free_ports(2)
        both = [self.start_program(program[0], i, *program[1:], self.folder, i, 300, *ports) for i in range(2)]
        for i, process in enumerate(both):
            self.assertGreater(self.result(process, i), 0.75)  # alone: half

    @needs("torch", "transformers", "accelerate")
    def test_hugging_face_s_trainer(self):
        self.learn(os.path.join(EXAMPLES, "trainer_hf.py"))

    @needs("torch", lightning)
    def test_lightning_s_trainer(self):
        self.learn(os.path.join(HERE, "run_lightning.py"), os.path.join(EXAMPLES, "fit_lightning.py"))

    @needs("jax")
    def test_jax(self):
        self.learn(os.path.join(EXAMPLES, "mlp_jax.py"))

    @needs("torch")
    def test_two_hosts_of_two_processes(self):
        ports, inside = free_ports(2), free_ports(2)
        hosts = []
        for i in range(4):  # as torchrun starts them
            host, rank = divmod(i, 2)
            environment = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2",
                           "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": inside[host]}
            hosts.append(self.start_program(os.path.join(EXAMPLES, "ddp_torchrun.py"), i, self.folder, host, 300, *ports,
                                            environment=environment))
        for i, process in enumerate(hosts):
            self.assertGreater(self.result(process, i), 0.75)
        sums = [re.findall(r"sum (\S+)", self.read(i))[0] for i in range(4)]
        self.assertEqual(sums[0], sums[1])  # one host is one model, to the last bit
        self.assertEqual(sums[2], sums[3])
        self.assertFalse(os.path.exists(os.path.join(self.folder, "2")))  # no other process made a node

    @needs("torch")
    def test_an_error_of_the_first_process_is_all_s(self):
        port = free_ports(1)[0]
        both = [self.start_program(os.path.join(HERE, "host_worker.py"), i, self.folder,
                                   environment={"RANK": str(i), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port})
                for i in range(2)]
        for i, process in enumerate(both):
            self.assertEqual(self.result(process, i, "same"), 1, self.read(i))
            self.assertIn("ConfigurationError settings: found the unknown key", self.read(i))
            self.assertIn("state of the same step", self.read(i))
            self.assertIn("interrupted and together again", self.read(i))
            self.assertIn("interrupted after the broadcast, and together", self.read(i))
            self.assertIn("the group is gone", self.read(i))
            self.assertIn("taken back", self.read(i))
            self.assertIn("continues alone", self.read(i))
        self.assertIn("status in rank 0\n", self.read(0))
        self.assertIn("no status in rank 1 the node of this host is in its first process", self.read(1))

    def test_three_lines_are_the_user_s(self):
        for name in ("trainer_hf.py", "fit_lightning.py", "ddp_torchrun.py"):
            with open(os.path.join(EXAMPLES, name), encoding="utf-8") as f:
                used = [line for line in f if re.search(r"import p2pml$|node = p2pml\.join|p2pml\.[a-z]*\.?(attach|Callback)\(", line)]
            self.assertEqual(len(used), 3, name)
        with open(os.path.join(EXAMPLES, "mlp_jax.py"), encoding="utf-8") as f:
            self.assertEqual(len(re.findall(r"import p2pml\n|p2pml\.jax\.attach|together\.step", f.read())), 3)


@needs("jax")
class Jax(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="p2pml-python-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def attach(self, params, every=2, name="node", **more):
        node = p2pml.join(dir=os.path.join(self.folder, name), log__level="error")
        self.addCleanup(node.close)
        return p2pml.jax.attach(node, params, every=every, **more)

    def test_alone_nothing_changes_and_a_resumed_one_has_its_model(self):
        import jax.numpy as jnp
        params = {"w": jnp.arange(6.0).reshape(2, 3), "b": [jnp.ones(3), jnp.float32(4)]}
        together, mine = self.attach(params)
        for _ in range(5):
            mine = together.step({"w": mine["w"] + 1, "b": mine["b"]}, 0.1)
        self.assertTrue((mine["w"] == params["w"] + 5).all())
        together.close(mine)  # one step behind the last boundary
        again, its = self.attach(params)
        self.assertTrue((its["w"] == params["w"] + 5).all())
        again.close()

    def test_adam_s_second_moment_is_shared(self):
        import jax
        import jax.numpy as jnp
        Adam = collections.namedtuple("Adam", "count mu nu")

        def fresh():
            params = {"w": jnp.ones((2, 3)), "b": jnp.zeros(3, jnp.bfloat16)}
            zeros = jax.tree_util.tree_map(jnp.zeros_like, params)
            return params, ("clip", (Adam(jnp.int32(0), zeros, zeros), None))

        def update(state, add):
            clip, (adam, rest) = state
            return clip, (Adam(adam.count + 1, adam.mu, jax.tree_util.tree_map(lambda v: v + add, adam.nu)), rest)
        params, state = fresh()
        together, params, state = self.attach(params, state=state)
        for i in range(3):
            params, state = together.step(params, 0.1, update(state, 0.25))
        self.assertEqual(together.node.second_moment.tolist(), 9 * [0.5])  # of the last boundary
        self.assertTrue((state[1][0].nu["w"] == 0.75).all())
        with self.assertRaisesRegex(p2pml.OrderError, "missing here"):
            together.step(params, 0.1)
        together.close(params)
        params, state = fresh()
        again, params, state = self.attach(params, state=state)
        self.assertEqual(state[0], "clip")
        self.assertTrue((state[1][0].nu["w"] == 0.5).all() and (state[1][0].nu["b"] == 0.5).all())
        self.assertEqual((int(state[1][0].count), state[1][0].nu["b"].dtype), (3, jnp.bfloat16))  # its bias is gone
        again.close()
        with self.assertRaisesRegex(p2pml.ConfigurationError, "found 0 named tuples"):
            self.attach(params, state=(1, params), name="other")

    def test_gradients_count_by_examples(self):
        import jax.numpy as jnp
        ports, found = free_ports(2), {}

        def run(i):
            node = p2pml.join(f"127.0.0.1:{ports[1 - i]}", listen=f"127.0.0.1:{ports[i]}", dir=os.path.join(self.folder, str(i)),
                              log__level="error", average__mode="sync", node__start_timeout="300s")
            together, w = p2pml.jax.attach(node, jnp.zeros(2), every=1, steps=20, examples=(30, 10)[i])
            while not together.done:
                found[i] = together.weight
                w = together.step(w - 0.1 * together.weight, 0.1)
            together.close(w)
            found[i] = found[i], together.weight  # then alone
        threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(patience())
        self.assertEqual(found, {0: (1.5, 1), 1: (0.5, 1)})
        for i, examples in enumerate((0, 1.5)):
            with self.subTest(examples), self.assertRaisesRegex(p2pml.ConfigurationError, "examples: found"):
                self.attach({"w": jnp.zeros(3)}, name=f"wrong-{i}", examples=examples)

    def test_what_is_held_back_is_in_the_model_s_state(self):
        import jax.numpy as jnp
        ports, both, whole, lacks = free_ports(2), threading.Barrier(2, timeout=120), {}, {}

        def run(i):
            node = p2pml.join(f"127.0.0.1:{ports[1 - i]}", listen=f"127.0.0.1:{ports[i]}", dir=os.path.join(self.folder, str(i)),
                              log__level="error", average__mode="sync", average__hold=0.5, average__ratio="1/4", node__start_timeout="300s")
            together, mine = p2pml.jax.attach(node, {"w": jnp.zeros(8), "b": jnp.ones(8, jnp.bfloat16)}, every=1)
            goal = (-1) ** i * jnp.arange(8.0)
            while together.cluster_step < 6:
                mine = together.step({"w": mine["w"] - 0.1 * (mine["w"] - goal), "b": mine["b"]}, 0.1)
            whole[i] = together.model_state(mine)
            lacks[i] = float(jnp.abs(whole[i]["w"] - mine["w"]).max())
            both.wait()  # neither is in an exchange
            together.close()
            again = p2pml.join(dir=os.path.join(self.folder, str(i)), log__level="error", average__hold=0.5, average__ratio="1/4")
            self.addCleanup(again.close)
            together, resumed[i] = p2pml.jax.attach(again, mine, every=1)
        resumed = {}
        threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(patience())
        for i in range(2):
            self.assertGreater(lacks[i], 1e-3)
            for name, value in whole[i].items():
                self.assertEqual(resumed[i][name].dtype, value.dtype)
                self.assertTrue(jnp.allclose(resumed[i][name].astype(float), value.astype(float), atol=1e-5 if name == "w" else 0.02))

    def test_an_interrupted_exchange_goes_on(self):
        import jax.numpy as jnp
        together, mine = self.attach({"w": jnp.zeros(3)}, every=1)
        for where in (p2pml.Node, "end"), (together, "_from_vector"):
            with unittest.mock.patch.object(*where, side_effect=KeyboardInterrupt):
                with self.assertRaises(KeyboardInterrupt):
                    together.step({"w": mine["w"] + 1}, 0.1)
            back = together.step({"w": jnp.full(3, 99.0)}, 0.1)  # whatever the caller has now, what was exchanged counts
            self.assertTrue((back["w"] == mine["w"] + 1).all(), where)
            mine = together.step(back, 0.1)
        self.assertEqual(together.node.status()["state"], "training")

    def test_half_precision_has_a_master(self):
        import jax.numpy as jnp
        together, mine = self.attach({"w": jnp.ones(4, jnp.bfloat16)}, every=1)
        self.assertEqual(mine["w"].dtype, jnp.bfloat16)
        together.node.model[:] = 1 + 2.0 ** -12  # what bf16 cannot say
        mine = together.step(mine, 0.1)
        self.assertEqual(float(together.node.model[0]), 1 + 2.0 ** -12)
        mine = together.step({"w": mine["w"].at[1].set(2)}, 0.1)
        self.assertEqual(together.node.model.tolist(), [1 + 2.0 ** -12, 2.0, 1 + 2.0 ** -12, 1 + 2.0 ** -12])

    def test_errors_have_words(self):
        import jax
        import jax.numpy as jnp
        with self.assertRaisesRegex(p2pml.ConfigurationError, "int32"):
            self.attach({"w": jnp.zeros(3, jnp.int32)}, name="other")
        together, mine = self.attach({"w": jnp.zeros(3)}, every=1)
        with self.assertRaisesRegex(p2pml.MismatchError, r"\(4,\) now, it was float32 \(3,\)"):
            together.step({"w": jnp.zeros(4)}, 0.1)
        with self.assertRaisesRegex(p2pml.MismatchError, "the parameters are"):
            together.step([jnp.zeros(3)], 0.1)
        for rate in (1e39, "x", float("nan")):
            with self.assertRaisesRegex(p2pml.ConfigurationError, f"rate: found .*{rate}|rate: found 1e\\+39"):
                together.step(mine, rate)
        with self.assertRaisesRegex(p2pml.OrderError, "jax compiles"):
            jax.jit(lambda p: together.step(p, 0.1))(mine)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            back = together.step({"w": jnp.array([1.0, jnp.nan, 0])}, 0.1)
        self.assertTrue(any("NaN" in str(w.message) for w in told))
        self.assertTrue((back["w"] == 0).all())


@needs("torch", "transformers", "accelerate")
class HuggingFace(unittest.TestCase):
    def test_a_restarted_trainer_goes_on_with_step_and_schedule(self):
        import torch
        import transformers
        folder = tempfile.mkdtemp(prefix="p2pml-python-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(3, 2)

            def forward(self, x, labels):
                return {"loss": torch.nn.functional.cross_entropy(self.layer(x), labels)}

        class Stop(transformers.TrainerCallback):
            def __init__(self, at):
                self.at, self.steps, self.rates = at, 0, []

            def on_step_end(self, args, state, control, lr_scheduler=None, **_):
                self.steps += 1
                self.rates.append(lr_scheduler.get_last_lr()[0])
                control.should_training_stop |= state.global_step >= self.at

        def run(at):
            node = p2pml.join(dir=os.path.join(folder, "node"), log__level="error")
            self.addCleanup(node.close)
            arguments = transformers.TrainingArguments(os.path.join(folder, "hf"), max_steps=40, per_device_train_batch_size=4, learning_rate=1e-2,
                                                       save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True, logging_steps=5)
            data = [{"x": torch.ones(3) * i, "labels": torch.tensor(i % 2)} for i in range(400)]
            stop = Stop(at)
            trainer = transformers.Trainer(Model(), arguments, train_dataset=data, callbacks=[p2pml.huggingface.Callback(node, every=5), stop])
            with unittest.mock.patch.object(p2pml.Node, "exchange", autospec=True, side_effect=p2pml.Node.exchange) as exchange:
                trainer.train()
            return stop, exchange.call_args_list
        first, _ = run(20)
        self.assertEqual(first.steps, 20)
        second, exchanges = run(1000)
        self.assertEqual(second.steps, 20)  # max_steps counts the cluster's
        for i, rate in enumerate(first.rates + second.rates):
            self.assertAlmostEqual(rate, 1e-2 * (39 - i) / 40)  # one line down to zero
        self.assertTrue(any(call.args[3] > 0 for call in exchanges))  # its losses are told


@needs("torch", lightning)
class Lightning(unittest.TestCase):
    def test_a_restarted_trainer_goes_on_with_step_and_schedule(self):
        import torch
        module = importlib.import_module("lightning.pytorch" if lightning == "lightning" else lightning)
        folder = tempfile.mkdtemp(prefix="p2pml-python-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)

        class Model(module.LightningModule):
            def __init__(self):
                super().__init__()
                self.layer, self.rates = torch.nn.Linear(3, 2), []

            def training_step(self, batch, number):
                self.rates.append(self.optimizers().param_groups[0]["lr"])
                return torch.nn.functional.cross_entropy(self.layer(batch[0]), batch[1])

            def configure_optimizers(self):
                optimizer = torch.optim.SGD(self.parameters(), lr=1e-2)
                scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / 40)
                return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

        class Stop(module.Callback):
            def on_train_batch_end(self, trainer, *_):
                trainer.should_stop |= trainer.global_step >= 20

        def run(*more):
            node = p2pml.join(dir=os.path.join(folder, "node"), log__level="error")
            self.addCleanup(node.close)
            model = Model()
            loader = torch.utils.data.DataLoader([(torch.ones(3) * i, i % 2) for i in range(400)], batch_size=4)
            trainer = module.Trainer(max_steps=40, accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False,
                                     default_root_dir=folder, enable_checkpointing=False,
                                     callbacks=[p2pml.lightning.Callback(node, every=5), *more])
            with unittest.mock.patch.object(p2pml.Node, "exchange", autospec=True, side_effect=p2pml.Node.exchange) as exchange:
                trainer.fit(model, loader)
            self.assertTrue(any(call.args[3] > 0 for call in exchange.call_args_list))  # its losses are told
            return model.rates
        rates = run(Stop()) + run()
        self.assertEqual(len(rates), 40)  # max_steps counts the cluster's
        for i, rate in enumerate(rates):
            self.assertAlmostEqual(rate, 1e-2 * (40 - i) / 40)

    def test_two_optimisers_are_told(self):
        node = p2pml.join()
        callback = p2pml.lightning.Callback(node)
        self.addCleanup(node.close)
        with self.assertRaisesRegex(p2pml.ConfigurationError, "found 2 optimisers, expected one"):
            callback.on_train_start(unittest.mock.Mock(optimizers=[1, 2]), None)

    def test_its_checkpoints_have_the_node_s(self):
        import torch
        folder = tempfile.mkdtemp(prefix="p2pml-python-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        model = torch.nn.Linear(3, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def callback(name):
            node = p2pml.join(dir=os.path.join(folder, name), log__level="error")
            self.addCleanup(node.close)
            return p2pml.lightning.Callback(node, every=2)

        def trainer(optimizer):
            made = unittest.mock.Mock(optimizers=[optimizer], lr_scheduler_configs=[], max_steps=-1, should_stop=False)
            made.fit_loop.epoch_loop.automatic_optimization.optim_progress.optimizer.step.total.completed = 0
            return made
        first = callback("first")
        first.on_train_start(trainer(optimizer), model)
        saved, then = first.state_dict(), model.weight.detach().clone()
        first.on_train_end(None, model)
        self.assertEqual(first.state_dict(), {})
        again = torch.nn.Linear(3, 2)
        second = callback("second")
        second.load_state_dict(saved)
        second.on_train_start(trainer(torch.optim.SGD(again.parameters(), lr=0.1)), again)
        self.assertTrue(torch.equal(again.weight, then))
        second.on_train_end(None, again)


if __name__ == "__main__":
    unittest.main(verbosity=2)
