// Verifies a signed card with @a2a-js/sdk: node client_verify.mjs card.json jwks.json
// The verifier gets the JSON of the card. Of a card that the SDK has decoded, it loses the security schemes.
import { readFileSync } from "node:fs";
import { verifyAgentCardSignature } from "@a2a-js/sdk";

const [card, keys] = process.argv.slice(2).map((path) => JSON.parse(readFileSync(path, "utf8")));
await verifyAgentCardSignature(async () => keys.keys[0])(card);
console.log("verified");
