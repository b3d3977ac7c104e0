"""``python -m p2pml demo``: eight nodes on this host learn together, with the programs in the wheel and without any data."""

import os
import subprocess
import sys

from . import _c, _command

_USAGE = "usage: python -m p2pml demo [--out DIR] [--set KEY=VALUE]... (as of 'p2pml run'); other commands: the program p2pml"


def _demo(arguments: "list[str]") -> int:
    config = os.path.join(_c.folder(), "demo.yaml")
    if not os.path.exists(config):
        sys.exit(f"there is no demonstration in {_c.folder()}: this package was installed without its programs")
    print("eight nodes on a ring, each with other digits; two are killed, one comes back; the result is in run/demo", flush=True)
    return subprocess.run([_command.program(), "run", config, *(arguments or ["--fresh"])], env=_command.environment(), check=False).returncode


def main() -> int:
    if sys.argv[1:2] != ["demo"]:
        print(_USAGE, file=sys.stdout if sys.argv[1:] in (["-h"], ["--help"]) else sys.stderr)
        return 0 if sys.argv[1:] in (["-h"], ["--help"]) else 2
    return _demo(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
