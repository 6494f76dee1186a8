"""Patch grids: the image cut into G x G pieces that become channels."""

from __future__ import annotations

from hubpublish.demo.graph import GraphBuilder


def patch_grid(g: GraphBuilder, image: str, grid: int, side: int) -> str:
    """Cut an image into pieces and stack them as channels, column by column.

    One Split makes ``grid`` columns, one Split a column makes its pieces, each piece is Unsqueezed, and a
    single Concat joins all ``grid**2`` of them: piece (column g, row k) comes at g*grid + k.

    Args:
        g: The graph to extend.
        image: [1, 3, grid * side, grid * side].
        grid: Pieces along each axis.
        side: Height and width of a piece.

    Returns:
        [1, 3 * grid**2, side, side].
    """
    sample = g.op("Gather", image, g.integer(0), axis=0)
    pieces = []
    for column in _split(g, sample, grid, side, axis=-1):
        pieces += [g.unsqueeze(piece, 0) for piece in _split(g, column, grid, side, axis=-2)]
    stacked = g.op("Concat", *pieces, axis=1)
    # The source joins the samples of a batch, here of one.
    return g.op("Concat", stacked, axis=0)


def _split(g: GraphBuilder, x: str, parts: int, side: int, axis: int) -> list[str]:
    return g.op_many("Split", x, g.ints(*[side] * parts), outputs=parts, axis=axis)
