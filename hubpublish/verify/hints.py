"""What to do about a verification that did not pass, by kind."""

from __future__ import annotations

from collections.abc import Mapping

from hubpublish.verify.result import FailureKind

HINTS: Mapping[FailureKind, str] = {
    "different": "do not publish this; if the passes are meant to be approximate, set a tolerance",
    "different_default_level": "if that is expected, as of Sum to Add, set the gate to exact_unoptimized",
    "original_crashed": "nothing is wrong with the rewrite, but it cannot be proved on this runtime; "
    "try another version of onnxruntime",
    "original_does_not_load": "check the source file; the runtime may lack an operator or an opset of it",
    "original_fails": "give inputs that the model accepts with verify.inputs (values, shapes, images)",
    "original_not_deterministic": "seed the model's random operators, so that its outputs repeat",
    "output_independent_of_input": "give other inputs with verify.inputs (values, ranges, images), "
    "or check that the model is the one you mean",
    "rewritten_crashed": "do not publish this; find the pass by leaving passes out one by one",
    "rewritten_does_not_load": "do not publish this; find the pass by leaving passes out one by one",
    "rewritten_fails": "do not publish this; find the pass by leaving passes out one by one",
    "rewritten_succeeds_where_original_fails": "do not publish this; the rewrite has lost a check",
    "timeout": "use a faster machine, or smaller inputs with verify.inputs.shapes",
    "out_of_memory": "use a machine with more memory, or close other programs",
}
