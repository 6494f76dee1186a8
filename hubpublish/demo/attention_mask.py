"""The mask of shifted-window attention, as the exporter traces ``mask[:, h, w, :] = count``.

Nothing here depends on the image: a runtime folds all of it.
"""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, numpy_helper

from hubpublish.demo.graph import GraphBuilder

#: What is added to the score of two tokens that are no neighbours in the image.
MASKED = -100.0


def attention_mask(g: GraphBuilder, side: int, window: int) -> str:
    """Mask out pairs of tokens that only the cyclic shift brought into one window.

    Args:
        g: The graph to extend.
        side: Height and width of the stage in tokens, before padding to whole windows.
        window: Side of a window; the shift is half of it.

    Returns:
        [windows, window**2, window**2], 0 or MASKED.
    """
    padded = -(-side // window) * window
    shift = window // 2
    bounds = ((0, padded - window), (padded - window, padded - shift), (padded - shift, padded))
    regions = g.const(np.zeros((1, padded, padded, 1), dtype=np.float32))
    for count, (rows, columns) in enumerate((r, c) for r in bounds for c in bounds):
        regions = _assign(g, regions, rows, columns, count)
    windows = window_partition(g, regions, window, (1, g.size(regions, 1), g.size(regions, 2), 1))
    windows = g.view(windows, -1, window**2)
    difference = g.op("Sub", g.unsqueeze(windows, 1), g.unsqueeze(windows, 2))
    apart = g.op("Not", g.op("Equal", difference, g.number(0.0)))
    mask = _masked_fill(g, difference, apart, MASKED)
    mask = _masked_fill(g, mask, g.op("Equal", difference, g.number(0.0)), 0.0)
    return g.op("Cast", mask, to=g.float_type)


def window_partition(
    g: GraphBuilder, x: str, window: int, dims: tuple[int | str, str, str, int | str]
) -> str:
    """[B, H, W, C] -> [B * windows, window, window, C]; ``dims`` are B, H, W, C."""
    batch, height, width, channels = dims
    rows = g.floor_div(height, window)
    columns = g.floor_div(width, window)
    x = g.view(x, batch, rows, window, columns, window, channels)
    return g.view(g.transpose(x, 0, 1, 3, 2, 4, 5), -1, window, window, channels)


def _assign(g: GraphBuilder, image: str, rows: tuple[int, int], columns: tuple[int, int], value: int) -> str:
    """``image[:, rows, columns, :] = value``: a ScatterND over four expanded index tensors."""
    shape = (1, rows[1] - rows[0], columns[1] - columns[0], 1)
    ranges = (np.arange(1), np.arange(*rows), np.arange(*columns), np.arange(1))
    indices = []
    for axis, values in enumerate(ranges):
        index = g.const(values.astype(np.int64).reshape(-1, *[1] * (3 - axis)))
        indices.append(_expand(g, index, shape))
    part = g.slice(g.slice(image, 1, *rows), 2, *columns)
    values_name = g.op("Expand", g.number(value), g.op("Shape", part))
    values_name = g.op("Reshape", values_name, g.op("Shape", indices[0]))
    index_name = g.op("Concat", *(g.unsqueeze(index, -1) for index in indices), axis=-1)
    return g.op("ScatterND", image, index_name, values_name)


def _expand(g: GraphBuilder, x: str, shape: tuple[int, ...]) -> str:
    """``x.expand(shape)``, where the exporter guards against a size of -1."""
    size = g.ints(*shape)
    one = np.ones(1, dtype=np.int64)
    ones = g.op("ConstantOfShape", g.ints(len(shape)), value=numpy_helper.from_array(one))
    unchanged = g.op("Equal", size, g.op("Mul", ones, g.integer(-1)))
    return g.op("Expand", x, g.op("Where", unchanged, ones, size))


def _masked_fill(g: GraphBuilder, x: str, mask: str, value: float) -> str:
    return g.op("Where", g.op("Cast", mask, to=TensorProto.BOOL), g.number(value), x)
