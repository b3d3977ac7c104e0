#!/usr/bin/env python3
"""Each rule of layers.py fires on a bad sample, names its file and line, and lets valid samples pass."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import circles
import layers

PROJECT = Path(__file__).resolve().parents[2]

GOOD = {
    "base/base.h": "#ifndef BASE_H\n#define BASE_H\n#include <stddef.h>\n#endif\n",
    "base/CMakeLists.txt": "p2pml_folder(base SOURCES base.c)\ntarget_link_libraries(p2pml_base PRIVATE m)\n",
    "kernels/cpu/cpu.c": '#include "base/base.h"\n#include <cblas.h>\n#include <immintrin.h>\n',
    "kernels/cuda/cuda.h": "#ifndef KERNELS_CUDA_H\n#define KERNELS_CUDA_H\n#include <cuda_runtime.h>\n#endif\n",
    "kernels/cuda/device.h": "#if __CUDA_ARCH__ >= 800\n#endif\n",
    "base/checks.c": "void f(int a)\n{\n    BASE_ASSERT(a == 1 && a <= 2 && reads(a)); // take(1)\n    a++;\n}\n",
    "kernels/registry.c": "#ifdef P2PML_HAVE_CUDA\n#endif\n#if USE_BLAS\n#endif\n",
    "kernels/CMakeLists.txt": "p2pml_folder(kernels SOURCES registry.c BELOW base PRIVATE PkgConfig::OPENBLAS m)\n",
    "gossip/session/noise.c": "#include <sodium.h>\n",
    "gossip/wire/message.c": "#include <msgpack.h>\n#include <sys/socket.h>\n",
    "train/idx.c": '#include <zlib.h>\n#include "kernels/kernels.h"\n',
    "node/loop.c": '#include <event2/event.h>\n#include "gossip/id.h"\n#include "node/net/link.h"\n',
    "node/net/link.h": '#include "node/queue/mail.h"\n',
    "node/queue/mail.h": '#include "gossip/life/life.h"\n',
    "node/schema/yaml.c": "#include <yaml.h>\n",
    "node/http/status.c": "#include <jansson.h>\n",
    "node/net/CMakeLists.txt": "p2pml_folder(node/net SOURCES link.c BELOW base gossip/session node/queue)\n",
    "node/CMakeLists.txt": "# links p2pml_lab? no\nadd_executable(p2pml-node main.c)\n"
                           "target_link_libraries(p2pml-node PRIVATE p2pml_node p2pml_gossip PkgConfig::EVENT)\n",
    "lab/summary/text.c": '#include <jansson.h>\n/* #include <zlib.h>\n#include <yaml.h> */ // #include <event.h>\n'
                    'const char *glob = "/*";\n',
    "test/unit/test_base_x.c": '#include "node/config/config.h"\n#include "helper.h"\n#include <cmocka.h>\n',
    "test/unit/test_node_x.c": '#include "test/support/net.h"\n#include <jansson.h>\n',
    "test/support/net.h": "#include <stdint.h>\n",
    "test/unit/helper.h": "#include <math.h>\n" + 499 * "\n",
}

# Name of the rule: file, content, line of the error, part of the message.
BAD = {
    "an upper floor": ("base/bad.c", '\n#include "gossip/id.h"\n', 2, "floor 3"),
    "the same floor, another folder": ("train/bad.c", '#include "gossip/id.h"\n', 1, "floor 3"),
    "an upper room of the folder": ("node/queue/bad.c", '#include "node/net/stream.h"\n', 1, "floor 4.6"),
    "another room on the same floor":
        ("gossip/member/bad.c", '#include "gossip/exchange/exchange.h"\n', 1, "floor 3.3"),
    "a header in no room": ("lab/cli/bad.c", '#include "lab/none.h"\n', 1, "no room"),
    "a lower floor, but not for this part of the folder":
        ("lab/sim/bad.c", '#include "node/config/config.h"\n', 1, "below node/"),
    "the folder around this part of it": ("lab/sim/bad.c", '#include "lab/experiment/experiment.h"\n', 1, "below node/"),
    "an upper floor in angle brackets": ("base/bad.c", "#include <node/config/config.h>\n", 1, "floor 4"),
    "an upper floor behind a string with a comment in it":
        ("base/bad.c", 'char *s = "/*";\n#include "node/config/config.h"\nchar *t = "*/";\n', 2, "floor 4"),
    "an upper floor behind a continued line": ("base/bad.c", '#define A \\\n 1\n#include "node/x.h"\n', 3, "floor 4"),
    "an include that is computed": ("base/bad.c", "#include HEADER\n", 1, "cannot be checked"),
    "a relative include": ("gossip/session/bad.c", '#include "../wire/message.h"\n', 1, "from the root"),
    "an include without its folder": ("gossip/session/bad.c", '#include "noise.h"\n', 1, "from the root"),
    "OpenBLAS outside kernels/cpu": ("kernels/bad.c", "#include <cblas.h>\n", 1, "kernels/cpu/"),
    "CUDA outside kernels/cuda": ("kernels/cpu/bad.c", "#include <cuda_runtime.h>\n", 1, "kernels/cuda/"),
    "cuBLAS outside kernels/cuda": ("train/bad.c", "#include <cublas_v2.h>\n", 1, "kernels/cuda/"),
    "libsodium outside gossip/session": ("gossip/wire/bad.c", "#include <sodium/crypto_box.h>\n", 1, "gossip/session/"),
    "msgpack outside gossip/wire": ("gossip/session/bad.c", "#include <msgpack.h>\n", 1, "gossip/wire/"),
    "zlib outside train": ("node/bad.c", "#include <zlib.h>\n", 1, "train/"),
    "libevent outside node": ("gossip/exchange/bad.c", "#include <event2/event.h>\n", 1, "node/"),
    "libyaml outside node/schema": ("lab/run/bad.c", "#include <yaml.h>\n", 1, "node/schema/"),
    "jansson outside its rooms": ("node/loop_bad.c", '#include "jansson.h"\n', 1, "node/store/ and node/http/ and lab/"),
    "a folder that the image lacks":
        (".dockerignore", "*\n!base\n!kernels\n!topology\n!compress\n!gossip\n!train\n!node\n!lib\n!lab\n", 1, "!daemon"),
    "cmocka outside test": ("base/bad.c", "#include <cmocka.h>\n", 1, "test/"),
    "a library of another folder in a test":
        ("test/unit/test_gossip_bad.c", "#include <jansson.h>\n", 1, "node/http/ and lab/"),
    "a test header that is not there": ("test/unit/test_base_bad.c", '#include "test/none.h"\n', 1, "neither libc"),
    "intrinsics outside kernels/cpu": ("compress/bad.c", "#include <immintrin.h>\n", 1, "kernels/cpu/"),
    "a library of no folder": ("node/bad.c", "#include <archive.h>\n", 1, "neither libc"),
    "a test that is too long": ("test/e2e/test_bad.py", 901 * "\n", 901, "at most 900"),
    "a source that is too long": ("train/bad.c", 901 * "\n", 901, "at most 900"),
    "an effect inside an assertion": ("base/bad.c", "\nvoid f(void)\n{\n    BASE_ASSERT(write(1, \"a=b\", 3)\n        == 3);\n}\n", 4, "write("),
    "an assignment inside an assertion": ("base/bad.c", "int f(int a)\n{\n    BASE_ASSERT(a = 1);\n}\n", 3, "(=)"),
    "a folder without a floor": ("tools/bad.c", "int x;\n", 1, "no floor"),
    "a source in the root": ("bad.c", "int x;\n", 1, "no floor"),
    "a backend switch": ("train/bad.c", "#ifdef P2PML_HAVE_CUDA\n#endif\n", 1, "backend"),
    "a backend switch in an elif": ("kernels/cpu/bad.c", "#if A\n# elif defined(USE_OPENBLAS)\n#endif\n", 2, "backend"),
    "a switch by GPU outside device.h": ("kernels/cuda/bad.h", "#if __CUDA_ARCH__ >= 800\n#endif\n", 1, "backend"),
    "a backend switch in device.h": ("kernels/cuda/device.h", "#if P2PML_HAVE_CUDA >= 800\n#endif\n", 1, "backend"),
    "a backend switch over two lines": ("test/bad.c", "#if A && \\\n CUDA\n#endif\n", 1, "backend"),
    "a switch that looks like a guard": ("train/bad.h", "#ifndef CUDA\n#define OTHER\n#endif\n", 1, "backend"),
    "BELOW an upper floor": ("kernels/CMakeLists.txt", "p2pml_folder(kernels\n BELOW base gossip)\n", 1, "floor 3"),
    "BELOW the same floor": ("train/CMakeLists.txt", "\np2pml_folder(train BELOW gossip)\n", 2, "floor 3"),
    "BELOW an upper room":
        ("node/queue/CMakeLists.txt", "p2pml_folder(node/queue SOURCES a.c\n BELOW base node/net)\n", 1, "floor 4.0"),
    "a direct link to an upper room":
        ("node/queue/CMakeLists.txt", "target_link_libraries(p2pml_node_queue PRIVATE p2pml_node_net)\n", 1, "floor 4.6"),
    "a direct link to an upper floor":
        ("base/CMakeLists.txt", "target_link_libraries(p2pml_base PUBLIC p2pml_node)\n", 1, "floor 4"),
    "a folder that links itself": ("base/CMakeLists.txt", "p2pml_folder(base BELOW base)\n", 1, "itself"),
    "a library of another folder":
        ("train/CMakeLists.txt", "p2pml_folder(train BELOW base PRIVATE PkgConfig::SODIUM)\n", 1, "gossip/session/"),
    "a library by its file name":
        ("lab/CMakeLists.txt", "target_link_libraries(p2pml_lab PRIVATE z)\n", 1, "train/"),
    "a folder of another name": ("lab/run/CMakeLists.txt", "p2pml_folder(lab/cli SOURCES x.c)\n", 1, "p2pml_folder(lab/run)"),
}


class Sample:
    """A small project in a temporary directory."""

    def __init__(self, files):
        self.holder = tempfile.TemporaryDirectory()
        self.root = Path(self.holder.name)
        for name, content in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        (self.root / "cmake").mkdir(exist_ok=True)
        shutil.copy(PROJECT / "cmake/p2pml_folder.cmake", self.root / "cmake")

    def __enter__(self):
        return self.root

    def __exit__(self, *error):
        self.holder.cleanup()


class Layers(unittest.TestCase):
    def test_floors_are_those_of_the_build(self):
        floors = layers.read_floors(PROJECT)
        self.assertEqual(floors.folders["base"], 0)
        self.assertLess(floors.folders["gossip"], floors.folders["node"])
        self.assertTrue(floors.is_below("node/queue", "node/net"))
        self.assertFalse(floors.is_below("train", "gossip/life"))

    def test_good_samples_pass(self):
        with Sample(GOOD) as root:
            self.assertEqual(layers.check_layers(root), [])

    def test_every_rule_fires(self):
        for rule, (name, content, line, said) in BAD.items():
            with self.subTest(rule), Sample({**GOOD, name: content}) as root:
                problems = layers.check_layers(root)
                self.assertEqual(len(problems), 1, problems)
                self.assertTrue(problems[0].startswith(f"{name}:{line}: "), problems[0])
                self.assertIn(said, problems[0])

    def test_nothing_to_check_is_an_error(self):
        with Sample({}) as root:
            self.assertEqual(len(layers.check_layers(root)), 1)

    def test_exit_status(self):
        script = str(Path(layers.__file__).resolve())
        with Sample(GOOD) as root:
            self.assertEqual(subprocess.call([sys.executable, script, root], stdout=subprocess.DEVNULL), 0)
            (root / "base/bad.c").write_text("#include <zlib.h>\n")
            self.assertEqual(subprocess.call([sys.executable, script, root], stdout=subprocess.DEVNULL), 1)


class Formatting(unittest.TestCase):
    def test_a_difference_is_named(self):
        tool, reason = layers.find_clang_format()
        if not tool:
            self.skipTest(reason)
        with Sample({"base/good.c": "int f(void);\n", "base/bad.c": "int a;\nint  f( void );\n"}) as root:
            shutil.copy(PROJECT / ".clang-format", root)
            problems = layers.check_format(root, tool)
            self.assertEqual(len(problems), 1, problems)
            self.assertTrue(problems[0].startswith("base/bad.c:2: not formatted"), problems)
            (root / "base/bad.c").unlink()
            self.assertEqual(layers.check_format(root, tool), [])


class Build(unittest.TestCase):
    """CMake itself refuses a link that does not go to a lower floor."""

    def configure(self, below):
        with Sample({}) as root:
            (root / "CMakeLists.txt").write_text(
                "cmake_minimum_required(VERSION 3.22)\nproject(sample LANGUAGES C)\n"
                "include(cmake/p2pml_folder.cmake)\n"
                "p2pml_folder(base SOURCES a.c)\np2pml_folder(gossip SOURCES a.c BELOW base)\n"
                f"p2pml_folder(train SOURCES a.c BELOW {below})\n")
            (root / "a.c").write_text("int a;\n")
            cmake = os.environ.get("CMAKE_COMMAND", "cmake")
            return subprocess.run([cmake, "-G", "Ninja", "-S", root, "-B", root / "build"], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True)

    def test_a_link_to_a_lower_floor_is_allowed(self):
        run = self.configure("base")
        self.assertEqual(run.returncode, 0, run.stdout)

    def test_a_link_on_the_same_floor_is_refused(self):
        run = self.configure("base gossip")
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("may not link gossip/", " ".join(run.stdout.split()))


class Circles(unittest.TestCase):
    """lint.circles finds files that need each other from their symbols."""

    OBJECTS = {"a.c": ({"a"}, {"b", "malloc"}), "b.c": ({"b"}, {"c"}), "c.c": ({"c"}, {"a"}), "d.c": ({"d"}, {"a", "d"})}

    def test_a_circle_has_only_the_files_that_need_each_other(self):
        found = circles.circles(circles.needs(self.OBJECTS))
        self.assertEqual(found, [["a.c", "b.c", "c.c"]])
        self.assertEqual(len(circles.check({"room": found}, {})), 1)

    def test_an_allowed_circle_passes_until_it_no_longer_exists(self):
        allowed = {"room": [("c.c a.c b.c", "why")]}
        self.assertEqual(circles.check({"room": [["a.c", "b.c", "c.c"]]}, allowed), [])
        self.assertEqual(len(circles.check({"room": []}, allowed)), 1)
        self.assertEqual(len(circles.check({"room": [["a.c", "b.c"]]}, allowed)), 2)

    def test_calls_in_one_direction_are_no_circle(self):
        objects = dict(self.OBJECTS, **{"c.c": ({"c"}, set())})
        self.assertEqual(circles.circles(circles.needs(objects)), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
