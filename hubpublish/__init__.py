"""hubpublish: rewrite an ONNX model from the Hub, prove that it computes the same, publish it."""

from importlib.metadata import version

__version__ = version("hubpublish")
