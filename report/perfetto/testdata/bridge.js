// Runs Perfetto's trace processor, which is compiled for browsers, in Node.js:
//
//	node bridge.js DIRECTORY <REQUESTS >REPLIES
//
// DIRECTORY has engine_bundle.js and trace_processor.wasm. Requests and replies are messages
// TraceProcessorRpcStream (protos/perfetto/trace_processor of Perfetto).
"use strict";
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const directory = process.argv[2];
const node = process;

// What the engine expects of a worker in a browser.
const local = (url) => fs.readFileSync(path.join(directory, path.basename(String(url))));
globalThis.self = globalThis;
globalThis.WorkerGlobalScope = function () {};
globalThis.location = { href: "file://" + directory + "/" };
globalThis.fetch = async (url) => new Response(local(url), { headers: { "Content-Type": "application/wasm" } });
globalThis.XMLHttpRequest = class {
  open(_, url) { this.url = url; }
  send() { this.response = new Uint8Array(local(this.url)).buffer; }
};
console.log = console.warn = (...words) => node.stderr.write(words.join(" ") + "\n");
globalThis.process = undefined; // or the engine refuses to run

vm.runInThisContext(fs.readFileSync(path.join(directory, "engine_bundle.js"), "utf8"));
globalThis.process = node;

const port = { postMessage: (reply) => fs.writeSync(1, reply) };
globalThis.onmessage({ data: port });
const requests = new Uint8Array(fs.readFileSync(0));
const send = setInterval(() => {
  try {
    port.onmessage({ data: requests });
    clearInterval(send);
  } catch (e) {
    if (!(e instanceof TypeError)) { // else the engine is not compiled yet
      throw e;
    }
  }
}, 10);
