// One run in Node: what to do is the argument, as JSON; what came out is a line of JSON.

import * as transformers from "@huggingface/transformers";
import { segment, useHub } from "./segmentation.mjs";

const { hub, cache, ...what } = JSON.parse(process.argv[2]);
useHub(transformers, hub, cache);
let found;
try {
  found = { ...(await segment(transformers, what)), error: null };
} catch (error) {
  found = { error: String(error?.message ?? error) };
}
// Not process.exit alone: a pipe may not have taken all of it yet.
process.stdout.write(`${JSON.stringify(found)}\n`, () => process.exit(0));
