"""Messages between the driver and its workers: JSON with arrays beside it, no pickle.

A message is a mapping of plain values in which arrays may stand anywhere. On the wire: the two
lengths, the JSON (an array is `{"__array__": [dtype, shape]}`), then the arrays' bytes in order.
"""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

import numpy as np

_LENGTHS = struct.Struct("<QQ")
_MARK = "__array__"
_KINDS = "biuf"


class Closed(Exception):
    """The other side is gone."""


def encode(message: dict[str, Any]) -> bytes:
    """Write a message as bytes."""
    buffers: list[bytes] = []

    def plain(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            if value.dtype.kind not in _KINDS:
                raise TypeError(f"an array of {value.dtype} cannot be sent")
            little = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<"))
            buffers.append(little.tobytes())
            return {_MARK: [little.dtype.str, list(value.shape)]}
        if isinstance(value, np.generic):
            return value.item()
        raise TypeError(f"{type(value).__name__} cannot be sent")

    text = json.dumps(message, default=plain).encode()
    body = b"".join(buffers)
    return _LENGTHS.pack(len(text), len(body)) + text + body


class Decoder:
    """Put a stream of bytes together into messages."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        """Add bytes; return the messages that are complete."""
        self._data += data
        found = []
        while len(self._data) >= _LENGTHS.size:
            text_length, body_length = _LENGTHS.unpack_from(self._data)
            start = _LENGTHS.size + text_length
            if len(self._data) < start + body_length:
                break
            text = bytes(self._data[_LENGTHS.size : start])
            body = bytes(self._data[start : start + body_length])
            del self._data[: start + body_length]
            found.append(_decode(text, body))
        return found


def _decode(text: bytes, body: bytes) -> dict[str, Any]:
    offset = 0

    def restore(value: dict[str, Any]) -> Any:
        nonlocal offset
        if set(value) != {_MARK}:
            return value
        kind, shape = value[_MARK]
        dtype = np.dtype(kind)
        count = int(np.prod(shape, dtype=np.int64))
        array = np.frombuffer(body, dtype, count, offset).reshape(shape).copy()
        offset += count * dtype.itemsize
        return array

    message: dict[str, Any] = json.loads(text, object_hook=restore)
    return message


def send(connection: socket.socket, message: dict[str, Any]) -> None:
    """Send a message; raise `Closed` if nobody listens."""
    try:
        connection.sendall(encode(message))
    except (BrokenPipeError, ConnectionResetError):
        raise Closed from None


def receive(connection: socket.socket, decoder: Decoder) -> list[dict[str, Any]]:
    """Wait for bytes; return the messages they complete; raise `Closed` at the end."""
    try:
        data = connection.recv(1 << 20)
    except ConnectionResetError:
        data = b""
    if not data:
        raise Closed
    return decoder.feed(data)
