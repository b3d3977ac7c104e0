"""What programs may do to an attached model. Each case either trains as it would without p2pml, or raises an error that says what
happened. Also the cost of attach, as counts."""

import copy
import os
import subprocess
import sys
import time
import types
import unittest
import unittest.mock

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import p2pml
import p2pml.pytorch
from loops import Loop, small

LATER = """
import sys, torch
model = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Linear(5, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
saved = torch.load(sys.argv[1])
model.load_state_dict(saved["model"], assign=len(sys.argv) > 3)
if len(sys.argv) > 3:
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
optimizer.load_state_dict(saved["optimizer"])
for _ in range(3):
    optimizer.zero_grad()
    model(torch.ones(4, 3)).pow(2).sum().backward()
    optimizer.step()
torch.save(model.state_dict(), sys.argv[2])
"""


class Rebinds(torch.optim.SGD):
    """Puts other memory under each parameter with each step, as optimisers of research code do."""

    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.data = p.data - group["lr"] * p.grad


class Wraps(torch.optim.Optimizer):
    def __init__(self, inner):
        super().__init__(inner.param_groups, {})
        self.inner = inner

    def step(self, closure=None):
        self.inner.step()


def adam():
    model, _ = small()
    return model, torch.optim.AdamW(model.parameters(), lr=0.01)


def images(layout):
    torch.manual_seed(2)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten(), torch.nn.Linear(16, 2)).to(memory_format=layout)
    return model, torch.optim.AdamW(model.parameters(), lr=0.01)


def see(model, optimizer, times):
    for _ in range(times):
        optimizer.zero_grad()
        model(torch.arange(48.0).view(1, 3, 4, 4)).pow(2).sum().backward()
        optimizer.step()


class Programs(Loop):
    def assertSame(self, model, other):
        for (name, a), b in zip(model.named_parameters(), other.parameters()):
            self.assertTrue(torch.allclose(a, b, rtol=1e-4, atol=1e-6), name)

    def assertShared(self, attachment):
        """The next exchange sends the model, and brings others' changes into it."""
        attachment.exchange()
        vector = torch.frombuffer(attachment.node.buffer(0), dtype=torch.float32)
        for values in vector, vector.mul_(0).add_(0.5):  # the second one: as if others had changed it
            flat = torch.cat([p.detach().flatten() for _, p in attachment._named])
            self.assertTrue(torch.equal(flat, values))

    def pulled(self, attachment, model, optimizer):
        """How far a correction of one moves the parameters in a step without gradients."""
        torch.frombuffer(attachment.node.buffer(2), dtype=torch.float32).fill_(1.0)
        before = [p.detach().clone() for p in model.parameters()]
        for p in model.parameters():
            p.grad = torch.zeros_like(p)
        optimizer.step()
        return [round(float((p.detach() - q).mean()), 5) for p, q in zip(model.parameters(), before)]

    # -- learning rates

    def test_groups_with_rates_far_apart_stay_stable(self):
        truth, models = torch.randn(20, 4, generator=torch.Generator().manual_seed(5)), []

        def program(i):
            model = torch.nn.Sequential(torch.nn.Linear(20, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256), torch.nn.ReLU(),
                                        torch.nn.Linear(256, 4))
            body, head = list(model[:4].parameters()), list(model[4].parameters())
            optimizer = torch.optim.AdamW([{"params": body, "lr": 1e-5}, {"params": head, "lr": 1e-3}])
            random = torch.Generator().manual_seed(100 + i)
            models.append(model)
            yield model, optimizer
            for _ in range(800):
                x = torch.randn(64, 20, generator=random)
                y = (x @ truth).argmax(1)
                mine = y % 2 == i
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(x[mine]), y[mine]).backward()
                optimizer.step()
                yield
        attachments = self.together([program, program], every=5)
        for attachment, model in zip(attachments, models):
            self.assertTrue(attachment.active)  # a model that was not finite ten times ends the node
            self.assertLess(max(float(p.detach().abs().max()) for p in model.parameters()), 1)  # of random ones: 0.22
            attachment.close()

    def test_a_loaded_optimiser_has_its_own_rate(self):
        model, optimizer = small()
        attachment = self.attach(model, optimizer, every=100)
        self.assertEqual(self.pulled(attachment, model, optimizer), [0.01] * 4)
        state = optimizer.state_dict()
        state["param_groups"][0]["lr"] = 0.25
        optimizer.load_state_dict(state)
        self.assertEqual(self.pulled(attachment, model, optimizer), [0.25] * 4)
        optimizer.param_groups[0]["lr"] = torch.tensor(0.5)
        self.assertEqual(self.pulled(attachment, model, optimizer), [0.5] * 4)
        optimizer.param_groups[0]["lr"] = -1e-20  # the last of a schedule
        self.assertEqual(self.pulled(attachment, model, optimizer), [0.0] * 4)
        attachment.exchange()

    def test_no_rate_is_told(self):
        model, optimizer = small()
        attachment = self.attach(model, optimizer, every=100)
        optimizer.param_groups[0]["lr"] = float("nan")
        self.step(model, optimizer)
        with self.assertRaisesRegex(p2pml.ConfigurationError, "step_scale is nan"):
            attachment.exchange()

    # -- memory

    def test_other_memory_under_the_parameters_gets_the_correction(self):
        model, _ = small()
        optimizer = Rebinds(model.parameters(), lr=0.01)
        attachment = self.attach(model, optimizer, every=100)
        for _ in range(3):
            self.assertEqual(self.pulled(attachment, model, optimizer), [0.01] * 4)
        self.assertShared(attachment)

    def test_memory_that_another_process_was_given(self):
        model, optimizer = adam()
        attachment = self.attach(model, optimizer, every=100)
        self.step(model, optimizer, 2)
        attachment.exchange()
        for given in (model, *(state["exp_avg_sq"] for state in optimizer.state.values())):
            given.share_memory() if given is model else given.share_memory_()
        with self.assertWarnsRegex(RuntimeWarning, "shared with another process"):
            self.step(model, optimizer)
        self.assertEqual(self.pulled(attachment, model, optimizer)[0] > 0, True)
        self.assertShared(attachment)
        moments = torch.cat([optimizer.state[p]["exp_avg_sq"].flatten() for p in model.parameters()])
        self.assertTrue(torch.equal(torch.frombuffer(attachment.node.buffer(1), dtype=torch.float32), moments))

    def test_any_layout_of_memory(self):
        for layout in torch.contiguous_format, torch.channels_last:
            (plain, theirs), (shared, ours) = images(layout), images(layout)
            shared[2].weight.data = shared[2].weight.data.t().contiguous().t()
            attachment = self.attach(shared, ours, str(layout), every=2)
            see(plain, theirs, 3)
            see(shared, ours, 3)
            shared.to(memory_format=torch.channels_last)
            see(plain, theirs, 4)
            see(shared, ours, 4)
            self.assertSame(plain, shared)
            self.assertShared(attachment)

    def test_a_model_in_another_format_is_told(self):
        for name, change in (("bf16", torch.nn.Module.bfloat16), ("double", torch.nn.Module.double)):
            model, optimizer = small()
            attachment = self.attach(model, optimizer, name, every=100)
            change(model)
            with self.assertRaisesRegex(p2pml.MismatchError, "parameter '0.weight' is torch.* on cpu now, it was torch.float32 on cpu"):
                attachment.exchange()
            model.float()
            self.step(model, optimizer)
            self.assertShared(attachment)
            change(model)
            with self.assertWarnsRegex(RuntimeWarning, "leaves with the model of the last exchange"):
                attachment.close()

    def test_a_parameter_that_shrank_in_place_is_told(self):
        model, optimizer = small()
        attachment = self.attach(model, optimizer, every=100)
        whole = model[0].weight.data
        model[0].weight.data = whole[:2]  # the same address
        with self.assertRaisesRegex(p2pml.MismatchError, r"\(2, 3\) now, it was \(5, 3\)"):
            attachment.exchange()
        model[0].weight.data = whole

    def test_tied_weights(self):
        def tied():
            torch.manual_seed(3)
            model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
            model[1].weight = model[0].weight
            return model, torch.optim.SGD(model.parameters(), lr=0.01)
        (plain, theirs), (shared, ours) = tied(), tied()
        attachment = self.attach(shared, ours, every=2)
        self.step(plain, theirs, 5)
        self.step(shared, ours, 5)
        self.assertSame(plain, shared)
        self.assertIs(shared[0].weight, shared[1].weight)
        self.assertEqual(attachment.node.parameters, 15)
        self.assertShared(attachment)

    # -- optimisers

    def test_another_optimiser_is_told(self):
        model, optimizer = small()
        attachment = self.attach(model, optimizer, every=2)
        self.step(model, optimizer)
        other = torch.optim.AdamW(model.parameters(), lr=0.01)
        with self.assertRaisesRegex(p2pml.OrderError, r"another optimiser \(AdamW\) trains the model that is attached with a SGD"):
            self.step(model, other, 2)
        attachment.close()
        self.step(model, other, 3)
        self.attach(model, other, "again", every=2)
        self.step(model, other, 3)

    def test_an_optimiser_that_was_forgotten_is_told(self):
        model, optimizer = small()
        self.attach(model, optimizer, every=2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)  # nothing else in the program has the first one
        with self.assertRaisesRegex(p2pml.OrderError, "another optimiser"):
            self.step(model, optimizer, 2)

    def test_new_parameters_in_the_places_of_those_attached_are_told(self):
        model, optimizer = small()
        self.attach(model, optimizer, every=2)
        model.load_state_dict({name: value.clone() for name, value in model.state_dict().items()}, assign=True)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        with self.assertRaisesRegex(p2pml.OrderError, "another optimiser"):
            self.step(model, optimizer, 2)

    def test_an_optimiser_within_another_is_attached_with_it(self):
        for which in "inner", "outer":
            model, inner = small()
            outer = Wraps(inner)
            attachment = self.attach(model, inner if which == "inner" else outer, which, every=100)
            self.step(model, outer, 5)
            self.assertEqual(attachment._steps, 5)
            attachment.close()

    def test_two_models_of_one_process_and_two_parts_of_one(self):
        (first, one), (second, two) = small(), adam()
        attachments = [self.attach(first, one, "one", every=2), self.attach(second, two, "two", every=3)]
        third, _ = small()
        halves = [torch.optim.SGD(layer.parameters(), lr=0.01) for layer in third]
        attachments += [self.attach(third, half, str(i), every=2) for i, half in enumerate(halves)]
        for _ in range(6):
            self.step(first, one)
            self.step(second, two, 2)
            self.step(third, halves[0])
            halves[1].step()
        self.assertEqual([a._steps for a in attachments], [0, 0, 0, 0])
        with self.assertRaisesRegex(p2pml.OrderError, "parameter 'weight' of this model is attached"):
            p2pml.attach(self.join("part"), third[1], torch.optim.SGD(third[1].parameters(), lr=0.01))
        for attachment in attachments:
            self.assertShared(attachment)

    def test_a_layer_that_is_frozen_for_a_while(self):
        model, optimizer = small()
        attachment = self.attach(model, optimizer, every=2)
        self.step(model, optimizer, 3)
        model[0].requires_grad_(False)
        before = model[0].weight.detach().clone()
        self.step(model, optimizer, 4)
        self.assertTrue(torch.equal(model[0].weight, before))
        model[0].requires_grad_(True)
        self.step(model, optimizer, 4)
        self.assertFalse(torch.equal(model[0].weight, before))
        self.assertShared(attachment)

    def test_moments_of_a_layer_that_begin_again_are_corrected(self):
        model, optimizer = adam()
        attachment = self.attach(model, optimizer, every=100)
        self.step(model, optimizer, 40)
        attachment.exchange()
        weight, vector = model[1].weight, torch.frombuffer(attachment.node.buffer(1), dtype=torch.float32)
        optimizer.state.pop(weight)
        self.step(model, optimizer, 1)
        gradient = weight.grad.detach().flatten()
        attachment.exchange()
        self.assertTrue(torch.allclose(vector[20:30], gradient ** 2, rtol=1e-3))  # not a thousandth of it, which others would take as it is
        self.assertEqual(float(optimizer.state[weight]["step"]), 41)
        before = weight.detach().clone()
        self.step(model, optimizer)
        self.assertLess(float((weight - before).detach().abs().max()), 0.02)  # about one learning rate
        self.assertTrue(torch.equal(vector, torch.cat([optimizer.state[p]["exp_avg_sq"].flatten() for p in model.parameters()])))

    def test_a_member_s_second_moment_meets_no_momentum(self):
        model, optimizer = adam()
        attachment = self.attach(model, optimizer, every=100)
        self.step(model, optimizer, 10)
        attachment.exchange()
        vector, before = torch.frombuffer(attachment.node.buffer(1), dtype=torch.float32), model[0].weight.detach().clone()
        vector.fill_(1e-20)  # a member's, which never had gradients here
        attachment._take(attachment._round._replace(another=True))
        self.step(model, optimizer)
        self.assertLess(float((model[0].weight - before).detach().abs().max()), 0.1)  # 3.2 learning rates

    def test_an_exchange_that_takes_a_second_moment_to_zero_makes_no_huge_step(self):
        model, optimizer = adam()
        attachment = self.attach(model, optimizer, every=100)
        self.step(model, optimizer, 2000)
        exchange, before = attachment.node.exchange, [p.detach().clone() for p in model.parameters()]

        def zeroes(*arguments):
            done = exchange(*arguments)
            torch.frombuffer(attachment.node.buffer(1), dtype=torch.float32).zero_()  # what a few bits make of small numbers
            return done
        with unittest.mock.patch.object(attachment.node, "exchange", zeroes):
            for state in optimizer.state.values():
                state["exp_avg"].fill_(0.01)
            attachment.exchange()
        optimizer.zero_grad(set_to_none=False)
        optimizer.step()
        self.assertLess(max(float((p - q).detach().abs().max()) for p, q in zip(model.parameters(), before)), 0.1)  # 7.3 learning rates

    def test_torch_whose_compiler_removes_hooks(self):
        with unittest.mock.patch.object(p2pml.pytorch, "_HOOKS", (99,)):
            model, optimizer = small()
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
            attachment = self.attach(model, optimizer, every=100)
            with unittest.mock.patch.object(torch.optim.SGD, "step", torch.optim.SGD.step.__wrapped__):  # as torch 2.0 to 2.2 do
                self.step(model, optimizer, 5)
            scheduler.step()
            self.assertEqual(attachment._steps, 5)
            attachment.close()
            self.step(model, optimizer)
            self.assertEqual(attachment._steps, 5)

    # -- the program around them

    def test_a_compiled_model_and_a_compiled_step(self):
        model, optimizer = small()
        compiled = torch.compile(model, backend="eager")
        attachment = self.attach(compiled, optimizer, every=100)
        self.assertEqual([name for name, _ in attachment.node.tensors], ["0.weight", "0.bias", "1.weight", "1.bias"])
        self.step(compiled, optimizer, 3)
        step = torch.compile(lambda: optimizer.step(), backend="eager")
        self.step(compiled, types.SimpleNamespace(step=step, zero_grad=optimizer.zero_grad), 4)
        self.assertEqual(attachment._steps, 7)
        self.assertShared(attachment)

    def test_only_steps_that_the_scaler_takes_count(self):
        model, optimizer = small()
        attachment = self.attach(model, optimizer, every=100)
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
        for turn in range(6):
            for _ in range(2):  # gradient accumulation
                loss = model(torch.ones(4, 3)).pow(2).sum() * (float("inf") if turn == 3 else 1.0)
                scaler.scale(loss / 2).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        self.assertEqual(attachment._steps, 5)
        self.assertShared(attachment)

    def test_a_loader_with_processes_of_its_own(self):
        model, optimizer = small()
        attachment = self.attach(model, optimizer, every=3)
        data = torch.utils.data.TensorDataset(torch.ones(40, 3))
        for _ in range(2):
            for (x,) in torch.utils.data.DataLoader(data, batch_size=4, num_workers=2, multiprocessing_context="fork"):
                optimizer.zero_grad()
                model(x).pow(2).sum().backward()
                optimizer.step()
        self.assertEqual(attachment._steps, 2)
        self.assertShared(attachment)

    def test_an_exception_in_the_loop(self):
        model, optimizer = small()
        with self.assertRaisesRegex(ZeroDivisionError, "division"):
            with p2pml.attach(self.join(), model, optimizer, every=2) as attachment:
                self.step(model, optimizer, 3)
                1 / 0
        self.assertTrue(attachment.closed)
        self.step(model, optimizer, 3)
        with p2pml.attach(self.join(), model, optimizer, every=2):  # in the same directory
            self.step(model, optimizer, 3)

    def test_a_checkpoint_of_torch_is_read_by_a_program_without_a_node(self):
        model, optimizer = adam()
        attachment = self.attach(model, optimizer, every=2)
        self.step(model, optimizer, 5)
        before, after = (os.path.join(self.folder, name) for name in ("before.pt", "after.pt"))
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, before)
        copied, still = copy.deepcopy(model), copy.deepcopy(optimizer.state_dict())
        self.step(model, optimizer, 3)
        for more in (), ("assign",):
            subprocess.run([sys.executable, "-c", LATER, before, after, *more], check=True)
            for name, value in torch.load(after).items():
                self.assertTrue(torch.allclose(value, model.state_dict()[name]), name)
        attachment.close()
        model.load_state_dict(copied.state_dict())  # back to where it was copied
        optimizer.load_state_dict(still)
        self.step(model, optimizer, 3)
        self.assertSame(model, self.loaded(after))

    def loaded(self, path):
        model, _ = small()
        model.load_state_dict(torch.load(path))
        return model


class Counts(TorchDispatchMode):
    """Counts the elements that operations of torch read or write: for each operation those of its largest tensor. Views count as none."""
    views = ("detach", "view", "split", "slice", "alias", "as_strided", "t.default", "transpose")

    def __init__(self):
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if not any(name in str(function) for name in self.views):
            lists = [x if isinstance(x, (list, tuple)) else [x] for x in (*args, result)]
            self.elements += max(sum(t.numel() for t in some if isinstance(t, torch.Tensor)) for some in lists)
        return result


class Costs(Loop):
    """In passes over the vector. One add_ is one pass."""

    def passes(self, call, size):
        with Counts() as counts:
            call()
        return counts.elements / size

    def test_passes_of_a_boundary_and_of_a_step(self):
        for kind, moment, boundary, step in ((torch.float32, False, 0, 1), (torch.float32, True, 3, 1), (torch.bfloat16, False, 6, 2)):
            model, _ = small()
            model.to(kind)
            optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
            attachment = self.attach(model, optimizer, f"{kind} {moment}", every=10 ** 6, share_second_moment=moment)
            for p in model.parameters():
                p.grad = torch.ones_like(p)
            for _ in range(3):
                optimizer.step()
                attachment.exchange()
            size = attachment.node.parameters
            self.assertEqual(self.passes(lambda: attachment._flat._vector.add_(1.0), size), 1)
            self.assertLessEqual(round(self.passes(attachment.exchange, size)), boundary, kind)
            self.assertLessEqual(self.passes(lambda: attachment._flat.correct(0.01), size), step, kind)

    def test_the_library_makes_no_pass_in_this_thread(self):
        model = torch.nn.Linear(2048, 2048)  # 16 MB: a pass takes milliseconds, a boundary without one a fraction of that
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        attachment = self.attach(model, optimizer, every=10 ** 6)
        other = torch.zeros(attachment.node.parameters)

        def least(call):
            times = []
            for _ in range(10):
                began = time.thread_time()  # of this thread's processor, whatever else the machine does
                call()
                times.append(time.thread_time() - began)
            return min(times)
        self.assertLess(least(attachment.exchange), least(lambda: attachment._flat._vector.add_(other)))


if __name__ == "__main__":
    unittest.main(verbosity=2)
