// Issuers: who signs tokens for the users of the tenant.

import { html } from "../core/view.js";
import { length } from "../core/words.js";
import { Moment } from "../parts/basics.js";
import { Managed, named } from "../parts/managed.js";

const KIND = {
  title: "Issuers",
  intro: "An application that signs tokens (JWT) for its own users: each of them sees and controls only their own jobs.",
  noun: "issuer",
  path: "/v1/issuers",
  request: "IssuerRequest",
  allowed: "manage_keys",
  none: "Register one to let end users see their jobs.",
  gone: "Its tokens are refused at once on this server, and within seconds on others.",
  examples: { issuer: "https://app.example.com" },
  columns: [
    named,
    ["Issuer", (item) => html`<code class="small">${item.issuer}</code><div class="soft small">for ${item.audience}</div>`],
    ["Role", (item) => item.role],
    ["Owner is", (item) => html`<code class="small">${item.owner_claim}</code>`],
    ["Only", (item) => html`<span class="soft small">${[item.queue && `queue ${item.queue}`, item.tag && `tag ${item.tag}`].filter(Boolean).join(", ") || "–"}</span>`],
    ["Keys", (item) => html`<span class="soft small">${item.jwks_url || "given here"}</span>`],
    ["Longest token", (item) => length(item.max_lifetime)],
    ["Changed", (item) => html`<${Moment} at=${item.changed_at} />`],
  ],
};

export const Issuers = ({ query }) => html`<${Managed} kind=${KIND} query=${query} />`;
