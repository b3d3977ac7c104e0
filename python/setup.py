"""Builds libp2pml and the programs with CMake and puts them into the package. P2PML_BUILD names a build folder that has them."""

import os
import shutil
import subprocess
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

try:
    from wheel.bdist_wheel import bdist_wheel
except ImportError:
    from setuptools.command.bdist_wheel import bdist_wheel

HERE = Path(__file__).resolve().parent
FILES = {"lib/libp2pml.so": "libp2pml.so", "bin/p2pml-node": "p2pml-node", "bin/p2pml": "p2pml"}


def build():
    given = os.environ.get("P2PML_BUILD")
    if given:
        return Path(given)
    folder = HERE.parent / "build" / "python"
    subprocess.run(["cmake", "-S", str(HERE.parent), "-B", str(folder), "-DCMAKE_BUILD_TYPE=Release", "-DBUILD_TESTING=OFF",
                    "-DP2PML_CUDA=off"], check=True)
    subprocess.run(["cmake", "--build", str(folder), "--parallel", "--target", "p2pml_shared", "p2pml-node", "p2pml"], check=True)
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


setup(cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": AnyPython}, distclass=Binary)
