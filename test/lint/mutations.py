#!/usr/bin/env python3
"""Every patch of test/mutation still applies: the file contains the lines that it removes, with those around them.

    mutations.py [ROOT]

A change that moves a rule must update its mutation; otherwise it is no longer known whether a test covers the rule.
Prints a line for each patch that does not apply, and exits 1."""

import re
import sys
from pathlib import Path


def hunks(text):
    """(file, lines before, number of the patch's line) of each hunk; lines before: those kept and those removed."""
    file, before, start = None, None, 0
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith(("--- ", "@@", "diff ")) and before is not None:
            yield file, before, start
            before = None
        if line.startswith("--- "):
            file = re.sub(r"^--- (a/)?", "", line).split("\t")[0]
        elif line.startswith("@@"):
            before, start = [], number
        elif before is not None and (line[:1] in (" ", "-") or line == ""):
            before.append(line[1:])
    if before is not None:
        while before and before[-1] == "":
            before.pop()
        yield file, before, start


def stands_in(before, lines):
    count = len(before)
    return any(lines[i:i + count] == before for i in range(len(lines) - count + 1))


def check(root):
    problems, patches = [], sorted((root / "test/mutation").glob("*.patch"))
    for patch in patches:
        name = patch.relative_to(root)
        found = list(hunks(patch.read_text(encoding="utf-8")))
        if not found:
            problems.append(f"{name}:1: no hunk found; expected a unified diff")
        for file, before, line in found:
            if not (root / file).is_file():
                problems.append(f"{name}:{line}: {file} is not there; expected the file whose rule it breaks")
            elif not stands_in(before, (root / file).read_text(encoding="utf-8").split("\n")):
                problems.append(f"{name}:{line}: does not apply to {file}; make the patch again where the rule is now")
    return problems or ([] if patches else [f"{root}/test/mutation: no patches found"])


def main(arguments):
    root = Path(arguments[0] if arguments else Path(__file__).resolve().parents[2])
    problems = check(root)
    print("\n".join(problems) if problems else "every mutation applies")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
