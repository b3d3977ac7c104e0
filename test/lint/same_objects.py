#!/usr/bin/env python3
"""The rules of a node exist once: the daemon and the simulator link the same objects.

    same_objects.py ROOM=SOURCES MAP...

MAP are link maps (-Wl,-Map) of programs. Each program must link every object of the room, SOURCES (comma-separated names
of C files), from the library of the room, and that library must be the same file for all.
"""

import re
import sys
from pathlib import Path


def objects(path):
    """(library, object) of everything that was linked into the program of a map."""
    text = Path(path).read_text(errors="replace")
    return set(re.findall(r"(\S*lib\w+\.a)\(([\w.]+\.o)\)", text))


def main(arguments):
    room, sources = arguments[0].split("=")
    names = [source + ".o" for source in sources.split(",")]
    library_name = "libp2pml_" + room.replace("/", "_") + ".a"
    taken, wrong = {}, []
    for program in arguments[1:]:
        linked = objects(program)
        for name in names:
            libraries = sorted({Path(library).resolve() for library, item in linked if item == name
                                and Path(library).name == library_name})
            if len(libraries) != 1:
                wrong.append(f"{program}: {room}/{name} is not linked from {library_name}")
            taken.setdefault(name, set()).update(libraries)
    wrong += [f"{room}/{name} comes from {len(paths)} libraries: {paths}" for name, paths in taken.items() if len(paths) > 1]
    for line in wrong:
        print(line)
    return 1 if wrong or not arguments[1:] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
