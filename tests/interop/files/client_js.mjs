// The JavaScript SDK sends and gets a file: node client_js.mjs URL KEY, the file on standard input.
import { readFileSync } from "node:fs";
import { Role } from "@a2a-js/sdk";
import { ClientFactory } from "@a2a-js/sdk/client";

const [url, key] = process.argv.slice(2);
const options = { serviceParameters: { "X-API-Key": key } };
const client = await new ClientFactory().createFromUrl(`${url}/`);
const parts = [
  { content: { $case: "text", value: "hi" } },
  { content: { $case: "raw", value: readFileSync(0) }, filename: "sent.png", mediaType: "image/png" },
];
const message = { messageId: crypto.randomUUID(), role: Role.ROLE_USER, parts };

const seen = [];
let id = "";
for await (const { payload } of client.sendMessageStream({ message }, options)) {
  if (payload.$case === "task") id = payload.value.id;
  if (payload.$case === "artifactUpdate") seen.push(...payload.value.artifact.parts);
}
const task = await client.getTask({ id }, options);
const stored = task.artifacts.flatMap((artifact) => artifact.parts);
const text = stored.map(({ content }) => (content.$case === "text" ? content.value : "")).join("");
const files = [...seen, ...stored].filter(({ content }) => content.$case === "url");
console.log(JSON.stringify({
  text,
  files: files.map((part) => [part.filename, part.mediaType, part.content.value]),
  sent: task.history[0].parts[1].content.value,
}));
