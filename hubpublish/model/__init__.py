"""ONNX models as files and as graphs: loading, saving, walking, reading constants, counting.

Everything here works on ``onnx_ir`` objects and knows nothing of passes, devices or the Hub.
"""

from hubpublish.model.constants import constant_of
from hubpublish.model.files import SavedModel, load, save, sha256_of
from hubpublish.model.scopes import FreshNames, Scope, node_label, opset_version, scopes, sort_topologically
from hubpublish.model.statistics import GraphStatistics, graph_statistics

__all__ = [
    "FreshNames",
    "GraphStatistics",
    "SavedModel",
    "Scope",
    "constant_of",
    "graph_statistics",
    "load",
    "node_label",
    "opset_version",
    "save",
    "scopes",
    "sha256_of",
    "sort_topologically",
]
