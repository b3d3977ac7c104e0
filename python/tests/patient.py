"""Runs a program whose nodes wait for each other as long as a busy machine needs to start them: patient.py PROGRAM ARGUMENTS..."""

import functools
import os
import runpy
import sys

import p2pml

p2pml.join = functools.partial(p2pml.join, node__start_timeout="300s")
sys.argv = sys.argv[1:]
sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
