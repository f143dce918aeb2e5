// A layer asked of an exported model by onnxruntime-web, as a page in a browser would: no part of medn is needed.
//
//     medn export onnx runs/laptop/laptop.medn --kind conv2d --out conv2d.onnx
//     npm install onnxruntime-web
//     node ask.mjs conv2d.onnx '{"in_channels": 64, "out_channels": 128, "cache": "hot", ...}'
//
// Every input has to be given: numbers as float64, strings as strings.
import { readFile } from "node:fs/promises";
import * as ort from "onnxruntime-web";

const [path, written] = process.argv.slice(2);
ort.env.wasm.numThreads = 1;
const session = await ort.InferenceSession.create(await readFile(path), { executionProviders: ["wasm"] });
const columns = {};
for (const [name, value] of Object.entries(JSON.parse(written))) {
  columns[name] =
    typeof value === "string"
      ? new ort.Tensor("string", [value], [1])
      : new ort.Tensor("float64", Float64Array.of(Number(value)), [1]);
}
const found = await session.run(columns);
const told = Object.entries(found).map(([name, tensor]) => [name, tensor.type === "bool" ? Boolean(tensor.data[0]) : tensor.data[0]]);
console.log(JSON.stringify(Object.fromEntries(told)));
