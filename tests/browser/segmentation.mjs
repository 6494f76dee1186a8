// The one pipeline of these tests, as a user writes it, in a browser and in Node.

export async function segment(transformers, { repo, runsOn, dtype, image }) {
  const segmenter = await transformers.pipeline("image-segmentation", repo, {
    device: runsOn,
    dtype,
    session_options: { logSeverityLevel: 0, logVerbosityLevel: 0 }, // tells where each node was placed
  });
  const prepared = await segmenter.processor([await transformers.RawImage.read(image)]);
  const [{ mask }] = await segmenter(image);
  return {
    size: [mask.height, mask.width, mask.channels],
    mask: Array.from(mask.data),
    pixels: Array.from(prepared.pixel_values.data),
  };
}

// Everything from the Hub at that address, nothing from this machine or from an earlier run.
// In a browser there is no folder to keep files in; in Node they go through one.
export function useHub(transformers, address, cacheDir = null) {
  Object.assign(transformers.env, {
    remoteHost: `${address}/`,
    allowLocalModels: false,
    useBrowserCache: false,
    useFSCache: cacheDir !== null,
    cacheDir,
    useWasmCache: false,
  });
}
