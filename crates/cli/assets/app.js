// The page: routes between the views, keeps the model that the event stream fills, and shows the state of the connection.

import { isToken, setToken, token } from "./api.js";
import { Changes } from "./changes.js";
import { Demo } from "./demo.js";
import { field, h, perFrame, setAttribute, setText } from "./dom.js";
import { ObjectView } from "./object.js";
import { Objects } from "./objects.js";
import { Overview } from "./overview.js";
import { Query } from "./query.js";
import { load, save } from "./storage.js";
import { EventStream } from "./stream.js";
import { Timelines } from "./timelines.js";

/// Changes that this tab keeps.
const CHANGES_MAX = 1000;
/// Objects whose last change is remembered, so that an open object is read again.
const LATEST_MAX = 5000;
const RATES_MAX = 120;

const model = {
  informers: new Map(),
  timelines: new Map(),
  rates: new Map(),
  controllers: [],
  reconciles: new Map(),
  sharing: [],
  changes: [],
  /// The rows ever added to the changes, and how many of them are changes: the others report skipped ones.
  rowCount: 0,
  changeCount: 0,
  /// How often the changes were dropped, because other filters were set.
  filterings: 0,
  latest: new Map(),
  skipped: 0,
  /// How often the stream has left changes out.
  skips: 0,
  restarts: 0,
  filters: {},
  filterError: null,
  time: Date.now(),
  residentBytes: null,
  demo: null,
  session: null,
  statuses: 0,
  /// The number of statuses when the tab was shown again.
  shownAt: null,
};

const main = document.getElementById("main");
const link = document.getElementById("link");
let view = null;
let needsToken = false;

// --- the stream ---

const draw = perFrame(() => {
  view?.update();
  timelines.check();
});

/// Only the overview shows timelines.
const timelines = new Timelines({
  segments: model.timelines,
  shown: () => (view instanceof Overview ? view.shown() : []),
  onReport: report,
  onRead: (error) => {
    if (error?.code === 401) askForToken();
    draw();
  },
});

const stream = new EventStream(receive, (state, error) => {
  setAttribute(link, "data-state", state);
  setText(link, state !== "offline" ? state : error?.code === 401 ? "token required" : "reconnecting");
  if (state === "paused") model.shownAt = model.statuses;
  if (state === "live") model.filterError = null;
  else if (error?.code === 401) askForToken();
  else if ([400, 403, 404].includes(error?.code)) {
    model.filterError = error.message;
    setText(link, "filter refused");
  }
  draw();
});
// A hidden view is not read again.
document.addEventListener("visibilitychange", () => view?.refresh?.());

function receive(name, data) {
  if (name === "hello") hello(data);
  else if (name === "status") status(data);
  else if (name === "change") change(data);
  else if (name === "skipped") {
    model.skipped += data.count ?? 0;
    model.skips += 1;
    // Missed changes follow the first status of a stream.
    const reason = model.shownAt !== null && model.statuses <= model.shownAt + 1 ? "this tab was hidden" : data.reason;
    push({ type: "SKIPPED", time: Date.now(), differences: [], more: 0, note: data.count ? `${data.count} changes were left out: ${reason}` : reason });
  }
  draw();
}

function hello(data) {
  document.querySelector('[data-view="demo"]').hidden = !data.demo;
  if (model.session !== data.session) startSession(data.session);
  // A stream has no past: not that of another session, nor what it missed while it was interrupted.
  timelines.readAll();
}

function startSession(session) {
  // After a restart, the earlier changes are no longer available.
  if (model.session) model.restarts += 1;
  model.session = session;
  model.informers.clear();
  timelines.clear();
  model.rates.clear();
  model.controllers = [];
  model.reconciles.clear();
  model.sharing = [];
  model.demo = null;
}

/// The mirrors that the views show.
let mirrors = "";

/// Takes a read of all informers over.
function report({ informers, controllers, sharing }) {
  model.controllers = controllers;
  model.sharing = sharing;
  for (const { name, reconcilesPerSecond } of controllers) model.reconciles.set(name, reconcilesPerSecond ?? []);
  for (const informer of informers) {
    model.informers.set(informer.number, informer);
    model.rates.set(informer.number, informer.eventsPerSecond);
  }
  // A view reads the kinds once. After a restart with other kinds, it is made again.
  const before = mirrors;
  mirrors = informers.map(({ resource, name }) => `${resource}/${name}`).join();
  if (before && mirrors !== before) route();
}

function status(data) {
  model.time = data.time;
  model.statuses += 1;
  model.residentBytes = data.residentBytes;
  if (data.demo) model.demo = data.demo;
  model.controllers = data.controllers;
  model.sharing = data.sharing;
  for (const { name, rate } of data.controllers) {
    const rates = model.reconciles.get(name) ?? [];
    rates.push(rate);
    while (rates.length > RATES_MAX) rates.shift();
    model.reconciles.set(name, rates);
  }
  for (const informer of data.informers) {
    timelines.note(model.informers.get(informer.number), informer);
    model.informers.set(informer.number, informer);
  }
  // The other figures of an informer can be delayed, its rate is not.
  for (const [number, informer] of model.informers) {
    const rates = model.rates.get(number) ?? [];
    informer.rate = data.rates[number] ?? 0;
    rates.push(informer.rate);
    while (rates.length > RATES_MAX) rates.shift();
    model.rates.set(number, rates);
  }
}

function change(data) {
  push(data);
  model.latest.set(`${data.resource} ${data.namespace} ${data.name}`, data);
  if (model.latest.size > LATEST_MAX) model.latest.delete(model.latest.keys().next().value);
}

function push(data) {
  model.changes.push(data);
  model.rowCount += 1;
  if (data.type !== "SKIPPED") model.changeCount += 1;
  if (model.changes.length > CHANGES_MAX) model.changes.splice(0, model.changes.length - CHANGES_MAX);
}

const actions = {
  /// Other filters mean another stream: drop the changes of the previous one.
  setFilters(filters) {
    model.filters = filters;
    model.filterError = null;
    model.changes = [];
    model.filterings += 1;
    model.skipped = 0;
    stream.open(filters);
    draw();
  },
};

function askForToken() {
  if (needsToken) return;
  needsToken = true;
  const input = h("input", { type: "password", name: "token", autocomplete: "off", required: true });
  const problem = h("p", { class: "error", role: "alert" }, token() ? "The program rejected this token. Check it and try again." : "");
  const form = h(
    "form",
    {
      class: "filters",
      onsubmit: (event) => {
        event.preventDefault();
        const given = input.value.trim();
        if (!isToken(given)) {
          setText(problem, "A token has only ASCII characters. Check it and try again.");
          return;
        }
        setToken(given);
        needsToken = false;
        route();
        stream.open(model.filters);
      },
    },
    field("Token", input),
    h("button", { class: "main-action", type: "submit" }, "Continue"),
  );
  closeView();
  main.replaceChildren(h("h1", {}, "Token required"), h("p", { class: "hint" }, "This program was started with a token. It is kept in this tab only."), form, problem);
  input.focus();
}

// --- routes ---

const VIEWS = { "": Overview, changes: Changes, objects: Objects, object: ObjectView, query: Query, demo: Demo };
const READ_ONLY = "Read-only view of the mirrors in this process.";
const DEMO_ONLY = "Only the faults of the demo can be changed here.";
const TITLES = { "": "Overview", changes: "Changes", objects: "Objects", object: "Object", query: "Query", demo: "Demo" };

function closeView() {
  view?.close?.();
  view = null;
}

/// The decoded parts of the address, and its query. A malformed or unknown address is that of the overview.
function address() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  try {
    const parts = path.split("/").map(decodeURIComponent);
    if (Object.hasOwn(VIEWS, parts[0])) return { parts, query };
  } catch (error) {
    if (!(error instanceof URIError)) throw error;
  }
  history.replaceState(null, "", "#/");
  return { parts: [""], query: undefined };
}

function route() {
  // The form for the token stays until it is sent.
  if (needsToken) return;
  const { parts: [name, ...parts], query } = address();
  const View = VIEWS[name];
  closeView();
  // Only the list of changes is filtered; other views follow everything.
  if (name !== "changes" && Object.values(model.filters).some(Boolean)) actions.setFilters({});
  view = new View(model, actions, ...(name === "query" ? [query] : parts));
  main.replaceChildren(...[view.element].flat());
  document.title = `${name === "object" ? parts[parts.length - 1] : TITLES[name]} – kube-informer`;
  const current = name === "object" ? "objects" : name || "overview";
  for (const anchor of document.querySelectorAll(".nav a")) {
    setAttribute(anchor, "aria-current", anchor.dataset.view === current ? "page" : null);
  }
  setText(document.getElementById("foot"), name === "demo" ? DEMO_ONLY : READ_ONLY);
  window.scrollTo(0, 0);
  view.update();
}

// --- light and dark ---

const THEMES = ["system", "light", "dark"];
const THEME = "kube-informer-theme";
const themeButton = document.getElementById("theme");
const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");

function chosenTheme() {
  return load("localStorage", THEME) ?? "system";
}

function theme() {
  const chosen = chosenTheme();
  const isDark = chosen === "dark" || (chosen === "system" && prefersDark.matches);
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
  setText(themeButton, `Theme: ${chosen}`);
  draw();
}

themeButton.addEventListener("click", () => {
  save("localStorage", THEME, THEMES[(THEMES.indexOf(chosenTheme()) + 1) % THEMES.length]);
  theme();
});
prefersDark.addEventListener("change", theme);

window.addEventListener("hashchange", route);
// The address is that of the view, so the link must not change it.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
window.addEventListener("resize", draw);
// For tests: the bytes received from the stream, and the current statuses.
window.kubeInformer = { streamBytes: () => stream.bytes, statuses: () => model.statuses };

theme();
route();
stream.open(model.filters);
