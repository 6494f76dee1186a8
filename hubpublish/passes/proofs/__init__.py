"""What is certain of a value in a graph, as opposed to what a model only claims.

``facts.py`` has `Proofs`, which is asked for dtype, shape and small integers of a value; ``certain.py``
the answers as data. ``shapes.py`` finds them through onnx's own shape inference, node by node, and
``doubts.py`` says where that cannot be believed. ``bounds.py`` knows which range an index certainly
has, and ``types.py`` follows element types through bodies and functions.
"""
