"""What the passes share that turn GatherND into Gather on rows: the rows, and nodes that are made once."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from hubpublish.model import Scope
from hubpublish.passes.base import NodeMaker
from hubpublish.passes.gather_nd_site import Site

Shared = dict[tuple[object, ...], ir.Value]


class FlatGather:
    """Makes what several nodes of one graph can share, once: the first one's nodes come first."""

    def __init__(self, make: NodeMaker, shared: Shared, scope: Scope) -> None:
        self.make = make
        self._shared = shared
        self._scope = scope

    def rows(self, site: Site) -> ir.Value:
        """The data as one row for each place: [B0*B1*H*W, C...]."""
        shape = [math.prod(site.lengths), *(-1 if length is None else length for length in site.features)]
        return self.once(
            ("rows", site.data), lambda: self.make("Reshape", [site.data, self.constant(shape)])[0]
        )

    def constant(self, values: npt.ArrayLike, dtype: npt.DTypeLike = np.int64) -> ir.Value:
        """A Constant of any shape."""
        array = np.asarray(values, dtype=dtype)
        return self.once(
            ("constant", array.dtype, array.shape, array.tobytes()),
            lambda: self.make("Constant", [], [ir.AttrTensor("value", ir.Tensor(array))])[0],
        )

    def once(self, key: tuple[object, ...], build: Callable[[], ir.Value]) -> ir.Value:
        """What ``build`` makes, or has made before in this graph for the same key."""
        place = (self._scope.graph, *key)
        if place not in self._shared:
            self._shared[place] = build()
        return self._shared[place]


def first_rows(site: Site, rank: int) -> npt.NDArray[np.int64] | None:
    """The number of the first row of each batch, of the given rank; None where there is one batch."""
    *batch, height, width = site.lengths
    if math.prod(batch) == 1:
        return None
    first = np.arange(math.prod(batch), dtype=np.int64) * height * width
    return first.reshape(*batch, *[1] * (rank - len(batch)))
