"""A single node, in a Python that has no other package: plain.py FOLDER. Compiles every module, to check its syntax in this version of Python."""

import compileall
import os
import sys

import p2pml

package = os.path.dirname(os.path.abspath(p2pml.__file__))
assert compileall.compile_dir(package, quiet=1, force=True)
with p2pml.join(dir=sys.argv[1], log__level="error") as node:
    node.open([("weights", (3, 2)), ("bias", ())], average__local_steps=5)
    model = node.buffer(0)
    model[:] = [float(i) for i in range(7)]
    assert node.start().steps == 5
    model[6] = 7.5
    done = node.exchange(5, 0.5)
    assert done.steps_done == 5 and not done.rolled_back and list(model) == [0, 1, 2, 3, 4, 5, 7.5]
    assert node.status()["state"] == "training"
    try:
        node.end()
    except p2pml.OrderError:
        pass
    else:
        raise AssertionError("nothing was lent")
print("plain", sys.version.split()[0])
