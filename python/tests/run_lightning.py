"""Runs a program that uses Lightning: run_lightning.py PROGRAM ARGUMENT...

torch 1 cannot import its own sharded tensors under Python 3.11; Lightning's modules ask for them, and nothing here needs them."""

import runpy
import sys

import torch

try:
    from lightning.pytorch import LightningModule
except ImportError:
    from pytorch_lightning import LightningModule

if torch.__version__ < "2" and sys.version_info >= (3, 11):
    LightningModule._register_sharded_tensor_state_dict_hooks_if_available = lambda self: None
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
