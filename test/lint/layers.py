#!/usr/bin/env python3
"""The rules of the tree that no compiler checks.

    layers.py [ROOT]            includes, outside headers, CMake links, backend switches, folders of the image, long tests
    layers.py --format [ROOT]   clang-format, in the version that the project has agreed on

Prints a line for each broken rule, file:line: what was found and what is expected, and exits 1. Exits 77
if --format has no clang-format of that version: another version formats the same code differently.
The floors of folders and rooms are those of cmake/p2pml_folder.cmake; the table of outside libraries is below.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

CLANG_FORMAT_VERSION = 14

# Library: the beginnings of its headers and of its CMake targets, and the folders that may use it.
OUTSIDE = {
    "OpenBLAS": (r"(cblas|f77blas|lapack|openblas)", r"(PkgConfig::OPENBLAS|OPENBLAS_|-?l?(open|c)?blas)", ["kernels/cpu"]),
    "CUDA": (r"(cuda|cublas|curand|cusparse|nccl|nvml|nvToolsExt)", r"(CUDA::|CUDA_|-?l?cu(da|blas))", ["kernels/cuda"]),
    "libsodium": (r"sodium", r"(PkgConfig::SODIUM|SODIUM_|-?l?sodium)", ["gossip/session", "lab/fetch"]),
    "OpenSSL": (r"openssl/", r"(PkgConfig::OPENSSL|P2PML_OPENSSL_|-?l?(crypto|ssl)$)", ["gossip/session"]),
    "libminiupnpc": (r"miniupnpc/", r"(P2PML_PORT_MAPPING_|P2PML_MINIUPNPC|-?l?miniupnpc)", ["node/net"]),
    "libnatpmp": (r"natpmp\.h", r"(P2PML_PORT_MAPPING_|P2PML_NATPMP|-?l?natpmp)", ["node/net"]),
    "libcurl": (r"curl/", r"(PkgConfig::CURL|P2PML_CURL_|-?l?curl$)", ["lab/fetch"]),
    "msgpack-c": (r"msgpack", r"(PkgConfig::MSGPACK|MSGPACK_|-?l?msgpack)", ["gossip/wire"]),
    "zlib": (r"(zlib|zconf)\.h", r"(ZLIB::|ZLIB_|-?l?z(lib)?$)", ["train"]),
    "libpng": (r"png(conf|libconf)?\.h", r"(PkgConfig::PNG|PNG_|-?l?png)", ["train"]),
    "libjpeg": (r"j(peglib|error|morecfg|config)\.h", r"(PkgConfig::JPEG|JPEG_|-?l?jpeg)", ["train"]),
    "libevent": (r"(event2/|event\.h|evhttp|evutil|evdns)", r"(PkgConfig::EVENT|EVENT_|-?l?event)", ["node"]),
    "libyaml": (r"(yaml|cyaml)", r"(PkgConfig::YAML|YAML_|-?l?c?yaml)", ["node/schema"]),
    "jansson": (r"jansson", r"(PkgConfig::JANSSON|JANSSON_|-?l?jansson)", ["node/learn", "node/store", "node/http", "lab"]),
    "libp2pml": (r"p2pml\.h", r"p2pml_(shared|static)", ["lib/examples"]),
    "cmocka": (r"cmocka", r"(PkgConfig::CMOCKA|CMOCKA_|-?l?cmocka)", ["test"]),
    "SIMD intrinsics": (r"(immintrin|x86intrin|arm_neon|arm_sve|cpuid)\.h", r"(?!)", ["kernels/cpu"]),
}

# Folders that include only themselves and folders below the named one, although they are inside another folder.
INNER = {"lab/sim": "node"}

# libc, its Linux parts and headers of the compiler: allowed anywhere.
LIBC = re.compile(
    r"(sys|net|netinet|arpa|linux|asm|bits)/[a-z0-9_/.-]+\.h|"
    r"(assert|complex|ctype|errno|fenv|float|inttypes|iso646|limits|locale|math|setjmp|signal|stdalign|stdarg|"
    r"stdatomic|stdbool|stddef|stdint|stdio|stdlib|stdnoreturn|string|tgmath|threads|time|uchar|wchar|wctype|"
    r"dirent|dlfcn|endian|byteswap|err|execinfo|fcntl|fnmatch|ftw|getopt|glob|grp|ifaddrs|langinfo|libgen|malloc|"
    r"netdb|poll|pthread|pwd|regex|sched|semaphore|spawn|strings|sysexits|syslog|termios|ucontext|unistd|utime|"
    r"wordexp)\.h")

REGISTRY = "kernels/registry.c"  # the one place that may ask which backends were built
DEVICE = "kernels/cuda/device.h"  # the one place that may ask for which GPU nvcc compiles
SOURCES = (".c", ".h", ".cu", ".cuh")
LINES = 900  # of one file: an idea a file, however long it is
EFFECT = re.compile(r"\+\+|--|[^=!<>]=(?!=)|\b(pthread_\w+|p?read|p?write|send|recv|put|push|pop|take|open|close|lock|unlock)\(")
COMMENT_OR_STRING = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.S)


def repository_files(root):
    """Files that git tracks or would track; outside of a checkout, all except hidden and built ones."""
    listed = subprocess.run(["git", "-C", root, "ls-files", "-z", "-co", "--exclude-standard"],
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) if (root / ".git").exists() else None
    if listed is not None and listed.returncode == 0:
        names = listed.stdout.decode().split("\0")
        return sorted(Path(n) for n in names if n and (root / n).is_file())
    found = []
    for directory, below, names in os.walk(root):
        below[:] = [b for b in below if not b.startswith(".") and (Path(directory) != root or b not in ("build", "run"))]
        found += [Path(directory, n).relative_to(root) for n in names]
    return sorted(found)


class Floors:
    """Floors of the folders, and of the rooms inside their folder, from cmake/p2pml_folder.cmake."""

    def __init__(self, text):
        self.folders = {name: int(floor) for name, floor in re.findall(r"set\(P2PML_FLOOR_(\w+)\s+(\d+)\)", text)}
        self.rooms = {name: int(floor) for name, floor in re.findall(r"set\(P2PML_ROOM_([\w/]+)\s+(\d+)\)", text)}

    def room(self, path):
        """The room of a file or folder: the nearest one around it, or None."""
        parts = str(path).split("/")
        for count in range(len(parts), 0, -1):
            if "/".join(parts[:count]) in self.rooms:
                return "/".join(parts[:count])
        return None

    def of(self, room):
        folder = room.split("/")[0]
        return self.folders[folder], self.rooms[room]

    def is_below(self, lower, room):
        (lower_folder, lower_floor), (folder, floor) = self.of(lower), self.of(room)
        return lower_floor < floor if lower.split("/")[0] == room.split("/")[0] else lower_folder < folder

    def text(self, room):
        """For messages: "node/net/ (floor 4.6)"; a folder without rooms: "base/ (floor 0)"."""
        folder, floor = self.of(room)
        many = sum(r.split("/")[0] == room.split("/")[0] for r in self.rooms) > 1
        return f"{room}/ (floor {folder}{f'.{floor}' if many else ''})"


def read_floors(root):
    return Floors((root / "cmake/p2pml_folder.cmake").read_text())


def directives(text):
    """(line number, preprocessor directive), without comments, continued lines joined."""
    def blank(match):
        return match[0] if match[0][0] in "\"'" else " " + "\n" * match[0].count("\n")
    lines = COMMENT_OR_STRING.sub(blank, text.replace("\\\n", "\\\v")).replace("\\\v", "  \f").split("\n")
    number = 1
    for line in lines:
        if re.match(r"\s*#", line):
            yield number, line.replace("\f", " ").strip()
        number += 1 + line.count("\f")


def is_inside(path, folders):
    """Whether the file is in one of the folders, or tests one: a test may compare its subject with the library."""
    tested = re.match(r"(?:test|bench|fuzz)_([a-z0-9]+)_", path.name) if path.parts[0] == "test" else None
    return any(path.as_posix().startswith(folder + "/") or (tested and tested[1] == folder.split("/")[0])
               for folder in folders)


def check_inner_include(path, name, floors):
    """A folder inside another may be allowed to include less than that one."""
    for inner, below in INNER.items():
        other = name.split("/")[0]
        if path.as_posix().startswith(inner + "/") and not name.startswith(inner + "/") and \
                floors.folders[other] >= floors.folders[below]:
            return f"{inner}/ includes \"{name}\"; expected only itself and folders below {below}/"
    return None


def check_folder_include(path, name, floors):
    if check_inner_include(path, name, floors):
        return check_inner_include(path, name, floors)
    if path.parts[0] == "test":
        return None
    own, other = floors.room(path.as_posix()), floors.room(name)
    if not other:
        return f"\"{name}\" stands in no room; add its folder to cmake/p2pml_folder.cmake or move it"
    if own == other or floors.is_below(other, own):
        return None
    return (f"{floors.text(own)} includes \"{name}\" of {floors.text(other)}; "
            "expected only its own room and those on lower floors")


def check_outside_include(path, name):
    for library, (headers, _, folders) in OUTSIDE.items():
        if re.match(headers, name):
            if is_inside(path, folders):
                return None
            return f"<{name}> belongs to {library}, which only {' and '.join(f + '/' for f in folders)} may use"
    if LIBC.fullmatch(name):
        return None
    return (f"<{name}> is neither libc nor a library of the project; includes of the project are written "
            "from the root, a new library goes into the table of test/lint/layers.py")


def check_include(root, path, directive, floors):
    match = re.match(r"#\s*include(?:_next)?\s*([<\"])([^>\"]+)[>\"]", directive)
    if not match:
        return f"an include that cannot be checked: {directive}"
    quote, name = match.groups()
    if ".." in name.split("/"):
        return f"\"{name}\" climbs out of its folder; write it from the root"
    if name.split("/")[0] in floors.folders and "/" in name:
        return check_folder_include(path, name, floors)
    if quote == '"' and path.parts[0] == "test":
        beside = (root / path).parent / name
        if beside.is_file() or (name.startswith("test/") and (root / name).is_file()):
            return None
    return check_outside_include(path, name)


def check_source(root, path, floors):
    top = path.parts[0]
    if top != "test" and (len(path.parts) < 2 or not floors.room(path.parent.as_posix())):
        yield 1, f"{path} stands on no floor; add its folder to cmake/p2pml_folder.cmake or move it"
        return
    found = list(directives((root / path).read_text(encoding="utf-8", errors="replace")))
    for i, (line, directive) in enumerate(found):
        if re.match(r"#\s*include", directive):
            problem = check_include(root, path, directive, floors)
            if problem:
                yield line, problem
        switch = re.match(r"#\s*(?:el)?if\w*\b(.*(?:CUDA|BLAS).*)", directive)
        of_gpu = path.as_posix() == DEVICE and re.fullmatch(r"#\s*if\s+__CUDA_ARCH__\s*>=\s*\d+", directive)
        if switch and path.as_posix() != REGISTRY and not of_gpu:
            guard = re.fullmatch(r"#\s*ifndef\s+(\w+)", directive)
            after = found[i + 1][1] if i + 1 < len(found) else ""
            if not (guard and re.fullmatch(r"#\s*define\s+" + guard[1], after)):
                yield line, f"a preprocessor switch for a backend ({switch[1].strip()}); only {REGISTRY} asks that"


def cmake_calls(text):
    """(line number, command, arguments) of each call, without comments."""
    text = re.sub(r"#[^\n]*", "", text)
    for match in re.finditer(r"(\w+)\s*\(([^()]*)\)", text):
        yield text.count("\n", 0, match.start()) + 1, match[1].lower(), match[2].replace('"', " ").split()


def check_links(room, names, floors):
    targets_of = {"p2pml_" + known.replace("/", "_"): known for known in floors.rooms}
    for name in names:
        other = targets_of.get(name, name)
        if other == room:
            continue
        if other in floors.rooms and not floors.is_below(other, room):
            yield f"{floors.text(room)} links {floors.text(other)}; expected only rooms on lower floors"
        for library, (_, targets, folders) in OUTSIDE.items():
            near = any(room == f or room.startswith(f + "/") or f.startswith(room + "/") for f in folders)
            if re.match(r"(\$\{)?" + targets, name) and not near:
                yield f"{room}/ links {name}; {library} is only for {' and '.join(f + '/' for f in folders)}"


def check_cmake(root, path, floors):
    if path.parts[0] not in floors.folders:
        return
    folder = floors.room(path.parent.as_posix()) or path.parts[0]
    if folder not in floors.rooms: # lab/ itself only lists its rooms
        folder = max((r for r in floors.rooms if r.startswith(folder + "/")), key=lambda r: floors.rooms[r])
    for line, command, arguments in cmake_calls((root / path).read_text()):
        problems = []
        if command == "p2pml_folder" and arguments:
            if arguments[0] != folder:
                problems.append(f"p2pml_folder({arguments[0]}) stands in {path.parent}/; expected p2pml_folder({folder})")
            cut = [i for i, a in enumerate(arguments) if a in ("BELOW", "PRIVATE")]
            problems += check_links(folder, [a for a in arguments[min(cut, default=len(arguments)):]], floors)
            below = arguments[arguments.index("BELOW") + 1:] if "BELOW" in arguments else []
            if folder in below:
                problems.append(f"{folder}/ links itself")
        elif command in ("target_link_libraries", "link_libraries", "target_link_options"):
            problems += check_links(folder, arguments[command.startswith("target"):], floors)
        for problem in problems:
            yield line, problem


def check_image(root, floors):
    """The image is built from the files that .dockerignore lets through."""
    path = root / ".dockerignore"
    through = path.read_text().split() if path.exists() else [f"!{folder}" for folder in floors.folders]
    for folder in floors.folders:
        if f"!{folder}" not in through:
            yield 1, f"{folder}/ does not get into the image; expected a line !{folder}"


def check_assertions(root, path):
    """An assertion only looks."""
    text = COMMENT_OR_STRING.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), (root / path).read_text(encoding="utf-8", errors="replace"))
    for match in re.finditer(r"\b(BASE_ASSERT|(?<!_)assert)\((.*?)\);", text, re.S):
        effect = EFFECT.search(match[2])
        if effect:
            yield text.count("\n", 0, match.start()) + 1, f"an effect inside an assertion ({effect[0].strip()}): keep its result first"


def check_length(root, path):
    count = (root / path).read_text(encoding="utf-8", errors="replace").count("\n")
    if count > LINES:
        yield count, f"{count} lines; expected at most {LINES}: split the file by its subjects"


def check_layers(root):
    floors = read_floors(root)
    files = repository_files(root)
    sources = [p for p in files if p.suffix in SOURCES]
    if not floors.folders or not sources:
        return [f"{root}: found {len(floors.folders)} floors and {len(sources)} sources; expected the root of the project"]
    problems = []
    for path in files:
        if path.suffix in (*SOURCES, ".py"):
            problems += [f"{path}:{line}: {text}" for line, text in check_length(root, path)]
        if path.suffix in SOURCES:
            problems += [f"{path}:{line}: {text}" for line, text in check_source(root, path, floors)]
            if path.parts[0] != "test":
                problems += [f"{path}:{line}: {text}" for line, text in check_assertions(root, path)]
        elif path.name == "CMakeLists.txt" or path.suffix == ".cmake":
            problems += [f"{path}:{line}: {text}" for line, text in check_cmake(root, path, floors)]
    problems += [f".dockerignore:{line}: {text}" for line, text in check_image(root, floors)]
    return problems


def find_clang_format():
    """The tool in the agreed version; or None, and the reason."""
    seen = []
    for name in (f"clang-format-{CLANG_FORMAT_VERSION}", "clang-format"):
        tool = shutil.which(name)
        if not tool:
            continue
        version = subprocess.run([tool, "--version"], stdout=subprocess.PIPE, text=True).stdout.strip()
        if re.search(rf"version {CLANG_FORMAT_VERSION}\.", version):
            return tool, ""
        seen.append(version)
    return None, f"clang-format {CLANG_FORMAT_VERSION} is needed, found {', '.join(seen) or 'none'}"


def check_format(root, tool):
    sources = [str(p) for p in repository_files(root) if p.suffix in SOURCES]
    if not sources:
        return [f"{root}: no sources found"]
    run = subprocess.run([tool, "--dry-run", "-Werror", "--ferror-limit=0", *sources], cwd=root,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    first = {}
    for path, line in re.findall(r"^(.+?):(\d+):\d+: error:", run.stdout, re.M):
        first.setdefault(path, line)
    problems = [f"{path}:{line}: not formatted; run clang-format -i {path}" for path, line in first.items()]
    return problems or ([run.stdout] if run.returncode else [])


def main(arguments):
    formatting = "--format" in arguments
    roots = [a for a in arguments if a != "--format"]
    root = Path(roots[0] if roots else Path(__file__).resolve().parents[2])
    if formatting:
        tool, reason = find_clang_format()
        if not tool:
            print(f"skipped: {reason}")
            return 77
        problems = check_format(root, tool)
    else:
        problems = check_layers(root)
    print("\n".join(problems) if problems else "no rule is broken")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
