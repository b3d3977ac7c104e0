"""What README.md and docs/EMBEDDING.md say of a program's own loop, typed literally except for addresses and folders."""

import itertools
import os
import re
import threading
import unittest

import torch

from loops import Loop
from processes import ROOT, free_ports, patience


def blocks(document, heading):
    with open(os.path.join(ROOT, document), encoding="utf-8") as f:
        section = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", f.read(), re.M | re.S).group(1)
    return [re.sub(r"^  ", "", block, flags=re.M) if block.startswith("  ") else block
            for block in re.findall(r"^ *```python\n(.*?)^ *```", section, re.M | re.S)]


class Typed(Loop):
    def two(self, code, names):
        """Two nodes with README's secret, each of which names the other."""
        secret = os.path.join(self.folder, "cluster.secret")
        with open(os.path.join(ROOT, "docs", "recipes.md"), encoding="utf-8") as f:
            command = re.search(r"^head -c .* > cluster\.secret", f.read(), re.M).group()
        self.assertEqual(os.system(f"cd {self.folder} && umask 077 && {command}"), 0)
        ports, ended, failed = free_ports(2), [{}, {}], []

        def run(i):
            try:
                mine = code.replace("a.example:7400", f"127.0.0.1:{ports[1 - i]}").replace("0.0.0.0:7400", f"127.0.0.1:{ports[i]}")
                mine = mine.replace('"state"', repr(os.path.join(self.folder, str(i)))).replace('"cluster.secret"', repr(secret))
                ended[i].update(names(i))
                exec(compile(mine, "a document", "exec"), ended[i])
            except BaseException as error:
                failed.append(error)
        threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(patience())
        self.assertFalse(failed or any(thread.is_alive() for thread in threads), failed)
        return ended

    def names(self, _):
        model = torch.nn.Linear(3, 2)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        data = [torch.ones(4, 3)] * 50
        return {"model": model, "optimizer": optimizer, "loader": data, "batches": itertools.cycle(data), "loss": lambda out: out.pow(2).sum(),
                "scheduler": torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, 200)}

    def test_readme_s_three_lines(self):
        block, = blocks("README.md", "From Python")
        loop = "for batch in loader:\n    loss(model(batch)).backward(); optimizer.step(); optimizer.zero_grad()\nstatus = node.status()\nnode.close()\n"
        for names in self.two(block + loop, self.names):
            self.assertEqual(len(names["status"]["members"]), 2)

    def test_embedding_s_first_loop(self):
        first, *_ = blocks("docs/EMBEDDING.md", "Python")
        self.two(first + "node.close()\n", self.names)

    def test_embedding_s_loop_that_can_be_restarted(self):
        first, restarted, *_ = blocks("docs/EMBEDDING.md", "Python")
        steps = restarted.replace("steps=20000", "steps=200")
        self.assertNotEqual(steps, restarted)
        for names in self.two(first.split("p2pml.attach")[0] + steps + "step = together.step\ntogether.close()\n", self.names):
            self.assertEqual((names["step"], names["scheduler"].last_epoch), (200, 200))


if __name__ == "__main__":
    unittest.main(verbosity=2)
