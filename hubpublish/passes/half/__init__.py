"""Where ONNX Runtime rounds to float16 on a CPU, which it decides node by node, and what may change there."""
