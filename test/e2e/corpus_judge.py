"""What `p2pml data info` says of a file of the corpus, compared with what is right."""

import os
import re
import subprocess

from corpus import Reading


def shown(value):
    return f"{value:.5g}"


def read_info(text):
    """The Reading that an output of data info shows, with numbers as it prints them."""
    first = re.search(r": (?:a guess from its first lines: )?((?:IDX|LIBSVM|a |NumPy|token|CIFAR).*?), (\d+) examples?", text)
    if not first:
        return None
    found = {"features": {}, "classes": None, "targets": None}
    picture, section = [], None
    for line in text.splitlines():
        title = re.match(r"  (feature|class|target|the first \w+)", line)
        if title and line.split()[-1] in ("deviation", "share") or line.startswith("  the first "):
            section = {"feature": "features", "class": "classes", "target": "targets"}.get(title.group(1), title.group(1))
            if section in ("classes", "targets"):
                found[section] = {}
        elif line.startswith("A configuration"):
            section = None
        elif section in ("features", "targets") and line.strip():
            numbers = line[34:].split()
            found[section][line[2:34].strip()] = tuple(numbers[:2])
        elif section == "classes" and line.strip():
            found[section][line[2:34].strip()] = int(line[34:].split()[0])
        elif section == "the first image" and line.startswith("    "):
            picture.append(line[4:].rstrip())
    return Reading(first.group(1), int(first.group(2)), found["features"], found["classes"], found["targets"], picture or None)


def same(found, right):
    def spelt(columns):
        return columns and {name: tuple(shown(v) for v in span) for name, span in columns.items()}

    if found is None or found.kind != right.kind or right.examples not in (None, found.examples):
        return False
    if right.features is not None and found.features != spelt(right.features):
        return False
    if right.classes is not None and found.classes != right.classes:
        return False
    if (right.targets or None) != (found.targets or None) and spelt(right.targets) != found.targets:
        return False
    return right.picture is None or found.picture == right.picture


def judge(program, case, known=lambda setting: True):
    """None: right. Otherwise (True for a silent misreading, what was said)."""
    settings = [f"--set={s}" for s in case.settings if known(s)]
    done = subprocess.run([program, "data", "info", case.path, *settings], capture_output=True, timeout=60,
                          env={k: v for k, v in os.environ.items() if not k.startswith("P2PML_")})
    out, err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    if isinstance(case.right, Reading):
        fine = done.returncode == 0 and same(read_info(out), case.right) and (not case.warning or case.warning in err)
    else:
        words = (case.right,) if isinstance(case.right, str) else case.right
        fine = done.returncode != 0 and any(word in err for word in words)
    return None if fine else (done.returncode == 0, (err + out).strip())
