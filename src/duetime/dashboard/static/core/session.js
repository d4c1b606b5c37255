// The current key and its rights: a page shows no button that the server would refuse.

import { get, post } from "./http.js";
import { setTenant } from "./place.js";
import { setClock } from "./words.js";

let me = null;

export async function whoAmI() {
  me = await get("/v1/me");
  setClock(me.now);
  setTenant(me.tenant, { isOneOfSeveral: me.tenants.length > 1 });
  return me;
}

/** Whether this login sees some jobs of the tenant only: those of an owner, with a tag or in a queue. What is about the
 * whole tenant is closed to it. */
export const isScoped = () => Boolean(me && me.scope);

/** The scope in words, such as "owner ann, queue mail". */
export const scopeWords = () =>
  Object.entries((me && me.scope) || {})
    .filter(([, value]) => value !== null)
    .map(([name, value]) => `${name} ${value}`)
    .join(", ");

export const may = (action) => Boolean(me && me.may.includes(action));
export const isRoot = () => Boolean(me && me.role === "root");
export const logIn = (key) => post("/login", { key });

export const loginMethods = () => get("/v1/login-methods");

/** Ends the session. Returns where the browser has to go to end it at the identity provider too, if anywhere. */
export async function logOut() {
  const { next } = await post("/logout");
  me = null;
  return next;
}
