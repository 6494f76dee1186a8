"""Grouping n things into a tree whose nodes have at most ``width`` children."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

Tree: TypeAlias = "int | tuple[Tree, ...]"


def grouped(count: int, width: int) -> tuple[Tree, ...]:
    """The children of the root of a tree with the leaves 0 .. count - 1, in order.

    The depth is the least possible, ceil(log_width(count)). Groups fill up from the left and a
    group of one is not wrapped, so no node of the tree has a single child (unless count is 1).
    """
    level: Sequence[Tree] = range(count)
    while len(level) > width:
        groups = [tuple(level[start : start + width]) for start in range(0, len(level), width)]
        level = [group[0] if len(group) == 1 else group for group in groups]
    return tuple(level)


def leaves(tree: Tree) -> list[int]:
    """The leaves below a node of the tree, in order."""
    return [tree] if isinstance(tree, int) else [leaf for child in tree for leaf in leaves(child)]
