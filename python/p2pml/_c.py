"""The functions of libp2pml (lib/p2pml.h), through ctypes."""

import ctypes
import ctypes.util
import os
from ctypes import POINTER, c_char_p, c_double, c_float, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any, Optional

OK, AGAIN, ENDED = 0, 1, 2
ENOMEM, EINVAL, EFORMAT, ELIMIT, EIO, EAUTH, EMISMATCH, ENOTFOUND, EORDER, EFORK = -1, -2, -3, -4, -5, -6, -7, -8, -9, -20
MODEL, SECOND_MOMENT, CORRECTION, HELD = 0, 1, 2, 3
TAKEN, RESTORED = 1, 2  # Round.another
BLOB_MOST = 65536


class Tensor(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("shape", POINTER(c_size_t)), ("dims", c_size_t)]


LOSSES = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(c_float), POINTER(c_double), c_int)


class Options(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("config_file", c_char_p), ("config_text", c_char_p), ("settings", POINTER(c_char_p)),
                ("tensors", POINTER(Tensor)), ("n_tensors", c_size_t), ("resume", c_int), ("changes", c_int),
                ("examples", c_uint64), ("judge", LOSSES), ("judge_context", c_void_p)]


class Round(ctypes.Structure):
    _fields_ = [("steps", c_uint64), ("steps_done", c_uint64), ("pace", c_double), ("weight", c_double), ("another", c_int),
                ("rolled_back", c_int), ("saves", c_int), ("dense", c_int), ("changed", c_size_t), ("index", POINTER(c_uint32)), ("model", POINTER(c_float)),
                ("correction", POINTER(c_float))]


FUNCTIONS = {
    "open": (c_void_p, [POINTER(Options), c_char_p, c_size_t]),
    "vector": (c_void_p, [c_void_p, c_int, POINTER(c_size_t)]),
    "start": (c_int, [c_void_p, c_int, POINTER(Round)]),
    "round_begin": (c_int, [c_void_p, c_uint64, c_double, c_double]),
    "round_end": (c_int, [c_void_p, c_int, POINTER(Round)]),
    "fd": (c_int, [c_void_p]),
    "status": (c_void_p, [c_void_p]),
    "save": (c_int, [c_void_p]),
    "blob": (c_int, [c_void_p, c_char_p, c_size_t, POINTER(c_void_p), POINTER(c_size_t)]),
    "state": (c_int, [c_void_p, c_char_p, c_size_t, POINTER(c_void_p), POINTER(c_size_t)]),
    "accuracy": (c_int, [c_void_p, c_double]),
    "leave": (c_int, [c_void_p, c_int]),
    "close": (None, [c_void_p]),
    "reason": (c_char_p, [c_void_p]),
}


def folder() -> str:
    """The folder of the library and the programs in the wheel."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "_bin")


def _path() -> str:
    given = os.environ.get("P2PML_LIBRARY")
    if given:
        return given
    own = os.path.join(folder(), "libp2pml.so")
    if os.path.exists(own):
        return own
    found = ctypes.util.find_library("p2pml")
    if found:
        return found
    raise ImportError(f"libp2pml is neither in {folder()} nor installed; set P2PML_LIBRARY to the path of libp2pml.so")


class _Library:
    def __init__(self) -> None:
        library = ctypes.CDLL(_path())
        for name, (result, arguments) in FUNCTIONS.items():
            function = getattr(library, "p2pml_" + name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)
        # The callback of a weak reference: Python passes that reference as a second argument, which the C function ignores.
        self.close_behind = ctypes.CFUNCTYPE(None, c_void_p, ctypes.py_object)(("p2pml_close", library))
        self.free = ctypes.CDLL(None).free
        self.free.restype, self.free.argtypes = None, [c_void_p]


_library: Optional[_Library] = None


def library() -> Any:
    """Loads the library on first use."""
    global _library
    if _library is None:
        _library = _Library()
    return _library
