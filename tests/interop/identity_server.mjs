// A certified OpenID provider: node identity_server.mjs issuer port clients.json jwks.json
// Its access tokens are JWTs for the resource of the request (RFC 8707, RFC 9068), and opaque ones, about which it is
// asked (RFC 7662) and which are revoked (RFC 7009), for a resource whose name begins with "opaque".
import { readFileSync } from "node:fs";
import Provider from "oidc-provider";

const [issuer, port, clients, jwks] = process.argv.slice(2);
const SCOPE = "agents.call agents.admin";

const provider = new Provider(issuer, {
  clients: JSON.parse(readFileSync(clients, "utf8")),
  jwks: JSON.parse(readFileSync(jwks, "utf8")),
  scopes: ["openid", ...SCOPE.split(" ")],
  pkce: { required: () => true },
  cookies: { keys: ["of-a-test"] },
  ttl: { AccessToken: 600, ClientCredentials: 600, Grant: 600, IdToken: 600, Interaction: 600, Session: 600 },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  features: {
    clientCredentials: { enabled: true },
    devInteractions: { enabled: true },
    introspection: { enabled: true },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo: (_, resource) => ({
        scope: SCOPE,
        audience: resource,
        accessTokenFormat: new URL(resource).host.startsWith("opaque") ? "opaque" : "jwt",
        jwt: { sign: { alg: "RS256" } },
      }),
    },
  },
});
provider.listen(Number(port), "127.0.0.1");
