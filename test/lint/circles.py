#!/usr/bin/env python3
"""No two files of a room need each other: the calls between the C files of a room go in one direction.

    circles.py [--table] ROOT BUILD

Reads the symbols of the objects of BUILD (compile_commands.json, nm): a file needs another one of its room where it
refers to a symbol that the other defines. Files that need each other, directly or through others, are a circle. Prints a
line for each circle that is not in ALLOWED, and for each entry there that is no longer a circle; exits 1 if there is one, and
77 if an object of a room is not built. --table prints a row for each room instead: files, circles, files in circles.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from layers import read_floors

# Room: circles that are allowed, each with its files and the reason.
KINDS = "a table names its kinds, and the kinds call what stands beside it"
ALLOWED = {
    "kernels": [("cpu/cpu.c cpu/gemm_avx2.c cpu/gemm_avx512.c cpu/loops_avx2.c cpu/loops_avx512.c cpu/loops_scalar.c "
                 "cpu/sequence_avx2.c cpu/sequence_avx512.c cpu/sequence_scalar.c", KINDS)],
    "lab/sim": [("sim_average.c sim_call.c sim_known.c sim_life.c sim_link.c sim_member.c sim_node.c sim_receive.c "
                 "sim_train.c", "the parts of a node act on each other at one moment")],
    "train": [("layers/block.c layers/conv.c layers/embedding.c layers/linear.c layers/norm.c layers/residual.c "
               "layers/rows.c layers/tied_head.c models.c models/cnn.c models/gpt2.c models/logistic.c models/mlp.c plan.c",
               KINDS)],
}

DEFINED = set("TDBRCWVGSui")  # in the output of nm: global symbols that an object defines


def symbols(files, nm):
    """File -> (defined, used) global symbols; files: file -> object. One call of nm for all."""
    found = {str(path): (set(), set()) for path in files.values()}
    run = subprocess.run([nm, "-A", "-P", "-g", *found], stdout=subprocess.PIPE, text=True, check=True)
    for line in run.stdout.splitlines():
        path, rest = line.split(": ", 1)
        name, kind = rest.split()[:2]
        found[path][kind not in DEFINED].add(name)
    return {name: found[str(path)] for name, path in files.items()}


def needs(objects):
    """File -> files of the same room that it needs; objects: file -> (defined, used)."""
    definer = {symbol: name for name, (defined, _) in objects.items() for symbol in defined}
    return {name: {definer[s] for s in used if s in definer} - {name} for name, (_, used) in objects.items()}


def reachable(graph, start):
    seen, todo = set(), list(graph[start])
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo += graph[name]
    return seen


def circles(graph):
    """Sorted lists of files that all reach each other."""
    reach = {name: reachable(graph, name) for name in graph}
    found = {tuple(sorted(other for other in reach[name] if name in reach[other])) for name in graph}
    return sorted(list(circle) for circle in found if circle)


def rooms(root, build):
    """Room -> {file: object}, of the C files in it that the build compiles."""
    floors, found = read_floors(root), {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        source = Path(entry["file"])
        if source.suffix != ".c" or root not in source.parents:
            continue
        name = source.relative_to(root)
        words = entry["command"].split()
        output = build / words[words.index("-o") + 1]
        room = floors.room(name.parent.as_posix())
        if room and name.parts[0] != "test":
            found.setdefault(room, {}).setdefault(name.relative_to(room).as_posix(), output)
    return found


def check(found, allowed):
    """Problems; found: room -> circles."""
    problems = []
    for room, lists in sorted(found.items()):
        known = [sorted(files.split()) for files, _ in allowed.get(room, [])]
        problems += [f"{room}: {', '.join(files)} need each other; expected calls in one direction, what two of them share "
                     "in a file below both" for files in lists if files not in known]
        problems += [f"{room}: {', '.join(files)} are no longer a circle; remove them from ALLOWED in test/lint/circles.py"
                     for files in known if files not in lists]
    return problems


def main(arguments):
    root, build = [Path(a).resolve() for a in arguments if a != "--table"]
    by_room = rooms(root, build)
    missing = [str(path) for files in by_room.values() for path in files.values() if not path.is_file()]
    if missing or not by_room:
        print(f"skipped: {len(missing)} objects are not built, {missing[0] if missing else 'or no room is known'}")
        return 77
    nm = os.environ.get("NM") or shutil.which("nm")
    graphs = {room: needs(symbols(files, nm)) for room, files in by_room.items()}
    found = {room: circles(graph) for room, graph in graphs.items()}
    if "--table" in arguments:
        print("| room | files | circles | files in them |\n|---|---|---|---|")
        for room, lists in sorted(found.items()):
            print(f"| {room} | {len(graphs[room])} | {len(lists)} | {'; '.join(', '.join(files) for files in lists)} |")
        return 0
    problems = check(found, ALLOWED)
    print("\n".join(problems) if problems else "no circle between files of a room except those that ALLOWED names")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
