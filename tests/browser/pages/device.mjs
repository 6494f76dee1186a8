// What the page's WebGPU device is, and how many storage buffers it grants.

export const device = { adapter: null, storageBuffers: null, submits: 0 };

// The runtime asks for all that the adapter has, which may be more than a user's device grants.
export function grantStorageBuffers(count) {
  if (!globalThis.GPUAdapter) return;
  const { requestDevice } = GPUAdapter.prototype;
  GPUAdapter.prototype.requestDevice = async function (descriptor = {}) {
    const requiredLimits = { ...descriptor.requiredLimits, maxStorageBuffersPerShaderStage: count };
    const granted = await requestDevice.call(this, { ...descriptor, requiredLimits });
    device.adapter = `${this.info.vendor} ${this.info.architecture}`.trim();
    device.storageBuffers = granted.limits.maxStorageBuffersPerShaderStage;
    return granted;
  };
}

// Work that the GPU was given: none where a runtime fell back to the CPU in silence.
export function countSubmits() {
  if (!globalThis.GPUQueue) return;
  const { submit } = GPUQueue.prototype;
  GPUQueue.prototype.submit = function (buffers) {
    device.submits += 1;
    return submit.call(this, buffers);
  };
}
