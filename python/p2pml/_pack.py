"""Nested Python values with tensors as bytes, and back, without pickle: bytes of another node never become code.

    "p2pml 1\\n" | length of the JSON (8 bytes, little-endian) | JSON | the tensors, one after another

In the JSON {"\\0": [kind, ...]} stands for what JSON does not have: a tensor, a tuple, a dict whose keys are no text."""

from __future__ import annotations

import collections
import json
from typing import Any, Dict, List

import torch

_MAGIC = b"p2pml 1\n"
_MARK = "\0"
_HEAD = len(_MAGIC) + 8


def is_packed(data: bytes) -> bool:
    return data.startswith(_MAGIC)


def pack(value: Any) -> bytes:
    """TypeError: ``value`` holds something else than numbers, text, None, lists, tuples, dicts and dense tensors."""
    tensors: List[torch.Tensor] = []
    text = json.dumps(_plain(value, tensors)).encode()
    parts = [_MAGIC, len(text).to_bytes(8, "little"), text]
    parts += [t.view(torch.uint8).numpy().tobytes() for t in tensors]
    return b"".join(parts)


def unpack(data: bytes) -> Any:
    """ValueError: these are not the bytes of a packed value."""
    try:
        if not is_packed(data) or len(data) < _HEAD:
            raise ValueError("no header")
        end = _HEAD + int.from_bytes(data[len(_MAGIC):_HEAD], "little")
        reader = _Reader(data, end)
        return reader.value(json.loads(data[_HEAD:end].decode()))
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RuntimeError, RecursionError, OverflowError) as error:
        raise ValueError(f"{len(data)} bytes that are not a packed state: {error}") from None


def _plain(value: Any, tensors: List[torch.Tensor]) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided:
            raise TypeError(f"a tensor of layout {value.layout}")
        tensors.append(value.detach().to("cpu").contiguous().reshape(-1))
        return {_MARK: ["tensor", str(value.dtype).split(".")[1], list(value.shape)]}
    if isinstance(value, list):
        return [_plain(v, tensors) for v in value]
    if isinstance(value, tuple):
        return {_MARK: ["tuple", [_plain(v, tensors) for v in value]]}
    if isinstance(value, collections.Counter):
        return {_MARK: ["counter", [[_plain(k, tensors), v] for k, v in value.items()]]}
    if isinstance(value, dict):
        if all(isinstance(k, str) and k != _MARK for k in value):
            return {k: _plain(v, tensors) for k, v in value.items()}
        return {_MARK: ["dict", [[_plain(k, tensors), _plain(v, tensors)] for k, v in value.items()]]}
    raise TypeError(f"a value of type {type(value).__name__}")


class _Reader:
    def __init__(self, data: bytes, at: int):
        self._data, self._at = data, at

    def value(self, plain: Any) -> Any:
        if isinstance(plain, list):
            return [self.value(v) for v in plain]
        if not isinstance(plain, dict):
            return plain
        if _MARK not in plain:
            return {k: self.value(v) for k, v in plain.items()}
        kind, *rest = plain[_MARK]
        if kind == "tensor":
            return self._tensor(*rest)
        if kind == "tuple":
            return tuple(self.value(v) for v in rest[0])
        pairs: Dict[Any, Any] = {self.value(k): self.value(v) for k, v in rest[0]}
        return collections.Counter(pairs) if kind == "counter" else pairs

    def _tensor(self, name: str, shape: List[int]) -> torch.Tensor:
        dtype = getattr(torch, name)
        if not isinstance(dtype, torch.dtype) or any(not isinstance(n, int) or n < 0 for n in shape):
            raise ValueError(f"a tensor of type {name} and shape {shape}")
        count = 1
        for n in shape:
            count *= n
        size = count * torch.empty(0, dtype=dtype).element_size()
        if size > len(self._data) - self._at:
            raise ValueError("a tensor is cut off")
        piece = bytearray(self._data[self._at:self._at + size])
        self._at += size
        return torch.frombuffer(piece, dtype=dtype).reshape(shape) if size else torch.empty(shape, dtype=dtype)
