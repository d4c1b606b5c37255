// node oidc-provider as a process of its own, for tests. Arguments: the folder of node_modules, the port, the address of
// duetime, and a file with the groups of each account, which is read at each login and each renewal.

import { generateKeyPairSync } from "node:crypto";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [modules, port, duetime, groups] = process.argv.slice(2);
const { default: Provider } = await import(pathToFileURL(createRequire(`${modules}/`).resolve("oidc-provider")).href);

const API = "urn:duetime-api";
const key = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({ format: "jwk" });

const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [
    {
      client_id: "duetime",
      client_secret: "a+secret/with:signs",
      redirect_uris: [`${duetime}/login/sso/node/callback`],
      post_logout_redirect_uris: [`${duetime}/`],
    },
    {
      client_id: "duetime-cli",
      application_type: "native",
      token_endpoint_auth_method: "none",
      redirect_uris: ["http://127.0.0.1/callback"],
      grant_types: ["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"],
    },
    {
      client_id: "billing-service",
      client_secret: "service-secret",
      redirect_uris: [],
      response_types: [],
      grant_types: ["client_credentials"],
    },
  ],
  claims: { openid: ["sub"], email: ["email", "email_verified"], groups: ["groups"] },
  conformIdTokenClaims: false,
  cookies: { keys: ["of this test"] },
  features: {
    clientCredentials: { enabled: true },
    deviceFlow: { enabled: true },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: (ctx, client) => (client.clientId === "billing-service" ? API : undefined),
      getResourceServerInfo: () => ({ scope: "", audience: "duetime-api", accessTokenFormat: "jwt" }),
    },
  },
  findAccount: (ctx, id) => ({
    accountId: id,
    claims: () => ({
      sub: id,
      email: `${id}@example.com`,
      email_verified: true,
      groups: JSON.parse(readFileSync(groups, "utf8"))[id] ?? [],
    }),
  }),
  issueRefreshToken: (ctx, client) => client.grantTypeAllowed("refresh_token"),
  jwks: { keys: [{ ...key, use: "sig", alg: "RS256", kid: "node" }] },
  pkce: { required: () => true },
  ttl: { AccessToken: 300, ClientCredentials: 300, Grant: 3600, IdToken: 300, Interaction: 600, RefreshToken: 3600, Session: 3600 },
});

provider.listen(Number(port), "127.0.0.1", () => console.log("ready"));
