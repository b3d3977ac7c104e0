"""Builds libp2pml and the programs with CMake and puts them into the package. P2PML_BUILD names a build folder, relative to the folder of
the sources; what is missing there is built. An sdist holds the C sources in `source`."""

import os
import shutil
import subprocess
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

try:
    from wheel.bdist_wheel import bdist_wheel
except ImportError:
    from setuptools.command.bdist_wheel import bdist_wheel

HERE = Path(__file__).resolve().parent
PACKED = HERE / "source"
SOURCE = PACKED if PACKED.is_dir() else HERE.parent
FILES = {"lib/libp2pml.so": "libp2pml.so", "bin/p2pml-node": "p2pml-node", "bin/p2pml": "p2pml"}
PARTS = ("CMakeLists.txt", "LICENSE", "README.md", "base", "cmake", "compress", "configs", "daemon", "deploy", "gossip", "kernels", "lab",
         "lib", "node", "topology", "train")  # what the C build reads


def configure(folder):
    subprocess.run(["cmake", "-S", str(SOURCE), "-B", str(folder), "-DCMAKE_BUILD_TYPE=Release", "-DBUILD_TESTING=OFF",
                    "-DP2PML_CUDA=off"], check=True)


def build():
    given = os.environ.get("P2PML_BUILD")
    folder = SOURCE / (given or "build/python")
    if given and not (folder / "CMakeCache.txt").exists():
        raise SystemExit(f"P2PML_BUILD: found no build in {folder}, expected a folder that cmake has configured, such as build/release")
    if not given:
        configure(folder)
    if not given or not all((folder / name).exists() for name in FILES):
        subprocess.run(["cmake", "--build", str(folder), "--parallel", str(os.cpu_count() or 1), "--target", "p2pml_shared", "p2pml-node",
                        "p2pml"], check=True)
    return folder


class BuildWithLibrary(build_py):
    def run(self):
        super().run()
        into = Path(self.build_lib) / "p2pml" / "_bin"
        into.mkdir(parents=True, exist_ok=True)
        folder = build()
        for name, to in FILES.items():
            shutil.copy2((folder / name).resolve(), into / to)
            subprocess.run([os.environ.get("STRIP", "strip"), "--strip-unneeded", str(into / to)], check=False)
        shutil.copy2(SOURCE / "configs" / "demo.yaml", into)


class WithSources(sdist):
    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        for part in PARTS:
            to = Path(base_dir) / "source" / part
            if (SOURCE / part).is_dir():
                shutil.copytree(SOURCE / part, to)
            else:
                to.parent.mkdir(exist_ok=True)
                shutil.copy2(SOURCE / part, to)


class AnyPython(bdist_wheel):
    """The library is loaded with ctypes: one wheel for all versions of Python, one for each kind of processor."""

    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        return ("py3", "none", super().get_tag()[2])


class Binary(Distribution):
    def has_ext_modules(self):
        return True


setup(cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": AnyPython, "sdist": WithSources}, distclass=Binary)
