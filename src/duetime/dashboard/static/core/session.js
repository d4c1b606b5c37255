// The current key and its rights: a page shows no button that the server would refuse.

import { get, post, tenant } from "./http.js";
import { setClock } from "./words.js";

let me = null;

export async function whoAmI() {
  me = await get("/v1/me");
  setClock(me.now);
  return me;
}

export const may = (action) => Boolean(me && me.may.includes(action));
export const isRoot = () => Boolean(me && me.role === "root");
export const logIn = (key) => post("/login", { key });

export async function logOut() {
  tenant.set(null);
  await post("/logout");
  me = null;
}
