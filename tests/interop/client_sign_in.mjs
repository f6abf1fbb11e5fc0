// @a2a-js/sdk with its own handler for tokens: node client_sign_in.mjs URL TOKEN
// It calls without a token, and signs in when the 401 names the metadata of the resource (RFC 9728).
import { randomUUID } from "node:crypto";
import { ClientFactory, createAuthenticatingFetchWithRetry, JsonRpcTransportFactory } from "@a2a-js/sdk/client";
import { Role } from "@a2a-js/sdk";

const [url, token] = process.argv.slice(2);
let metadata = null;

const handler = {
  headers: async () => ({}),
  async shouldRetryWithHeaders(_, response) {
    if (response.status !== 401) return undefined;
    const place = /resource_metadata="([^"]+)"/.exec(response.headers.get("www-authenticate"))[1];
    metadata = await (await fetch(place)).json();
    return { Authorization: `Bearer ${token}` };
  },
};

const fetchImpl = createAuthenticatingFetchWithRetry(fetch, handler);
const factory = new ClientFactory({ transports: [new JsonRpcTransportFactory({ fetchImpl })] });
const client = await factory.createFromUrl(url);
const message = { messageId: randomUUID(), role: Role.ROLE_USER, parts: [{ content: { $case: "text", value: "hello" } }] };
const answer = await client.sendMessage({ message });
console.log(JSON.stringify({ answer, metadata }));
