"""Running a model on a real WebGPU device, and what is said of it.

Equality on a CPU says nothing about a GPU: whether a shader compiles, where each node runs, what is copied,
how far the results are from the CPU's. A software adapter is a WebGPU device too, so this needs no GPU.

``system.py`` finds plugin and driver, ``limit.py`` lowers the storage buffers that the adapter grants,
``session.py`` is the part that runs in the child process, ``bench.py`` runs models, ``verifier.py`` judges
them, ``layers.py`` finds the node that differs, ``result.py`` is what was found.
"""

from hubpublish.verify.webgpu.result import WebGpuRun, WebGpuVerification, webgpu_error
from hubpublish.verify.webgpu.verifier import verify_webgpu

__all__ = ["WebGpuRun", "WebGpuVerification", "verify_webgpu", "webgpu_error"]
