"""A handwritten ONNX model: the softmax of an image's average red, green and blue."""


def _field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    data = b""
    while value > 0x7F:
        data += bytes([value & 0x7F | 0x80])
        value >>= 7
    return data + bytes([value])


def _node(kind: str, source: str, target: str, *attributes: bytes) -> bytes:
    words = _field(1, source) + _field(2, target) + _field(3, target) + _field(4, kind)
    return _field(1, words + b"".join(_field(5, attribute) for attribute in attributes))


def _value(name: str, *sizes: int) -> bytes:
    shape = b"".join(_field(1, _field(1, size)) for size in sizes)
    return _field(1, name) + _field(2, _field(1, _field(1, 1) + _field(2, shape)))


def classifier() -> bytes:
    axis = _field(1, "axis") + _field(3, 1) + _field(20, 2)
    nodes = _node("GlobalAveragePool", "x", "a") + _node("Flatten", "a", "b", axis)
    nodes += _node("Softmax", "b", "y", axis)
    graph = nodes + _field(2, "g") + _field(11, _value("x", 1, 3, 224, 224)) + _field(12, _value("y", 1, 3))
    return _field(1, 8) + _field(7, graph) + _field(8, _field(1, "") + _field(2, 13))
