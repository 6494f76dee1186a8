import * as transformers from "/node_modules/@huggingface/transformers/dist/transformers.min.js";
import { segment, useHub } from "/segmentation.mjs";
import { countSubmits, device, grantStorageBuffers } from "./device.mjs";

const { wasm } = transformers.env.backends.onnx;
wasm.wasmPaths = `${location.origin}/node_modules/onnxruntime-web/dist/`;
wasm.numThreads = 1;

globalThis.run = async ({ hub, storageBuffers, ...what }) => {
  useHub(transformers, hub);
  grantStorageBuffers(storageBuffers);
  countSubmits();
  try {
    return { ...(await segment(transformers, what)), error: null, device };
  } catch (error) {
    return { error: String(error?.message ?? error), device };
  }
};
