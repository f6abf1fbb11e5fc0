// The TypeScript SDK of MCP: node client_mcp.mjs URL KEY
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [url, key] = process.argv.slice(2);
const progress = [];

async function connect(agent) {
  const client = new Client({ name: "test", version: "1" });
  const options = { requestInit: { headers: { Authorization: `Bearer ${key}` } } };
  await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp/${agent}`), options));
  return client;
}

const assistant = await connect("assistant");
const { tools } = await assistant.listTools();
const sum = await assistant.callTool({ name: "ai-calculate", arguments: { num1: 40, num2: 2 } });
const unknown = await assistant.callTool({ name: "nothing", arguments: {} }).catch((error) => error.message);
const asked = (await assistant.callTool({ name: "ai-coach", arguments: {} })).content.at(-1).text;
const [, task] = asked.match(/task='([^']+)'/);
const coach = await assistant.callTool({ name: "ai-coach", arguments: { task, message: "football" } });
await assistant.close();
const probe = await connect("probe");
const pieces = await probe.callTool({ name: "pieces", arguments: { count: 3, every: 0.1 } }, undefined, {
  onprogress: ({ message }) => progress.push(message),
});
const boom = await probe.callTool({ name: "boom", arguments: { message: "x" } });
const leaving = new AbortController();
setTimeout(() => leaving.abort(), 500);
const options = { signal: leaving.signal, onprogress: () => {} };
const left = await probe
  .callTool({ name: "pause", arguments: { seconds: 60 } }, undefined, options)
  .catch(() => leaving.signal.aborted);
await probe.close();
console.log(
  JSON.stringify({
    tools: tools.map(({ name }) => name),
    sum: sum.content[0].text,
    unknown,
    pieces: pieces.content[0].text,
    progress: progress.join(""),
    boom: boom.isError,
    coach: coach.content[0].text,
    left,
  }),
);
