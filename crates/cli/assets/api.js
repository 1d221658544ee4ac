// Requests to this program's own API. A token is kept for this tab only.

import { load, save } from "./storage.js";

const TOKEN = "kube-informer-token";

export class ApiError extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

export function token() {
  return load("sessionStorage", TOKEN);
}

/// Whether a header can carry a token: `fetch` throws for many other characters.
export function isToken(text) {
  return /^[ -~]+$/.test(text);
}

export function setToken(value) {
  save("sessionStorage", TOKEN, value);
}

export function headers(more = {}) {
  const held = token();
  return held ? { ...more, authorization: `Bearer ${held}` } : more;
}

/// `/api/v1/PATH` with parameters; lists are repeated, empty ones left out.
export function url(path, parameters = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== "") query.append(name, one);
    }
  }
  const text = query.toString();
  return `/api/v1/${path}${text ? `?${text}` : ""}`;
}

/// A response as JSON.
export async function get(path, parameters, signal) {
  return send("GET", url(path, parameters), signal);
}

export async function send(method, address, signal) {
  const response = await fetch(address, { method, headers: headers({ accept: "application/json" }), signal });
  const text = await response.text();
  let value = null;
  try {
    value = JSON.parse(text);
  } catch {
    throw new ApiError(response.status, text.trim() || response.statusText);
  }
  if (!response.ok) throw new ApiError(response.status, value.message ?? response.statusText);
  return value;
}
