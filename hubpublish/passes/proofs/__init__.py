"""What is certain of a value in a graph, as opposed to what a model only claims.

``facts.py`` has `Proofs`: dtype, shape and small integers of a value, asked for on demand.
``shapes.py`` says of which operators onnx's own shape inference can be trusted; ``bounds.py`` which
range an index certainly has; ``strings.py`` whether a value may hold strings.
"""
