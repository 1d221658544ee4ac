// One object: its YAML with the last changes highlighted, its owners and owned objects, its history and its indexes.

import { get, token } from "./api.js";
import { h, s, setAttribute, setText } from "./dom.js";
import { clockOrDate, count, counted, diffLines, objectLink, objectPath, preciseClock } from "./format.js";
import { Rows } from "./rows.js";
import { isChanged, lines } from "./yaml.js";

const NODE = { width: 440, height: 30, gap: 8, indent: 26 };
/// Nodes that are drawn; more are counted.
const NODES_MAX = 20;
/// While the view is open, the object is read again this often: the stream leaves changes out if there are too many of them, and
/// owned objects are not followed.
const REFRESH = 4000;
/// The shortest time between two reads.
const PAUSE = 400;
/// A graph of a large cluster takes a while: at most this part of the time is spent on it.
const GRAPH_SHARE = 0.1;

export class ObjectView {
  constructor(model, actions, resource, ...key) {
    this.model = model;
    this.resource = resource;
    [this.namespace, this.name] = key.length > 1 ? key : ["", key[0]];
    this.path = objectPath(resource, this.namespace, this.name);
    this.lines = [];
    this.lastChange = null;
    this.isWhole = false;
    this.changed = [];
    this.version = this.latest()?.sequence ?? null;
    this.skips = model.skips;
    this.loading = false;
    this.loadedAt = 0;
    this.graphDue = 0;
    this.shown = {};
    this.controller = new AbortController();
    this.jump = h("button", { type: "button", hidden: true, onclick: () => this.rows.scrollTo(this.firstChanged()) }, "Show the last change");
    this.note = h("p", { class: "list-note", role: "status" });
    this.error = h("p", { class: "error", role: "alert" });
    this.rows = new Rows({
      label: "YAML of the object",
      unit: "Lines",
      share: 0.72,
      heightMax: 800,
      shrinks: true,
      rowHeight: 20,
      className: "yaml",
      create: () => [h("span", { "aria-hidden": "true" }), h("span", {}, h("span"), h("span", { class: "name" }), h("span"))],
      render: (row, index) => this.render(row, index),
    });
    this.graph = h("div", { class: "graph", tabindex: 0, role: "region", "aria-label": "Graph of owners" });
    this.history = h("ol", { class: "history", tabindex: 0, "aria-label": "History of the object" });
    this.historyTitle = h("h2", {}, "History");
    this.historyNote = h("p", { class: "hint" });
    this.indexes = h("dl", { class: "facts" });
    const kind = h("a", { href: `#/objects/${encodeURIComponent(resource)}` }, resource);
    this.element = [
      h(
        "div",
        { class: "head" },
        h("p", { class: "crumbs" }, kind, this.namespace ? ` / ${this.namespace}` : ""),
        h("h1", {}, this.name),
        h(
          "div",
          { class: "head-tools" },
          this.jump,
          token() ? null : h("a", { href: `/api/v1/objects/${this.path}?format=yaml`, target: "_blank", rel: "noreferrer" }, "Plain YAML"),
        ),
      ),
      this.error,
      h(
        "div",
        { class: "columns" },
        h(
          "div",
          { class: "stack" },
          h("section", { class: "card flush", "aria-label": "State" }, this.note, this.rows.element, this.rows.range),
          h("section", { class: "card", "aria-label": "Indexes" }, h("h2", {}, "Indexes"), this.indexes),
        ),
        h(
          "div",
          { class: "stack" },
          h("section", { class: "card", "aria-label": "Owners" }, h("h2", {}, "Owners and owned objects"), this.graph),
          h("section", { class: "card", "aria-label": "History" }, this.historyTitle, this.history, this.historyNote),
        ),
      ),
    ];
    this.timer = setInterval(() => this.refresh(), REFRESH);
    this.refresh();
  }

  latest() {
    return this.model.latest.get(`${this.resource} ${this.namespace} ${this.name}`);
  }

  /// Reads the object again after a change in the stream, or if the stream has left changes out.
  update() {
    const version = this.latest()?.sequence ?? null;
    if (version === this.version && this.skips === this.model.skips) return;
    if (this.loading || Date.now() < this.loadedAt + PAUSE) {
      this.later ??= setTimeout(() => { this.later = null; this.update(); }, PAUSE);
      return;
    }
    this.version = version;
    this.skips = this.model.skips;
    this.refresh();
  }

  refresh() {
    if (document.hidden || this.loading) return;
    this.load();
    if (Date.now() >= this.graphDue) this.loadGraph();
  }

  async load() {
    this.loading = true;
    this.loadedAt = Date.now();
    const ask = (what, parameters = {}) => get(`${what}/${this.path}`, parameters, this.controller.signal);
    try {
      const history = await ask("history");
      this.ifNew("history", history, () => this.showHistory(history));
      const [object, indexes] = await Promise.all([ask("objects"), ask("indexes"), this.loadChanged(history.changes[0])]);
      this.ifNew("object", [object, this.changed], () => {
        this.lines = lines(object);
        this.rows.setCount(this.lines.length);
      });
      this.jump.hidden = this.firstChanged() < 0;
      this.ifNew("indexes", indexes, () => this.showIndexes(indexes.indexes));
      const highlighted = this.lastChange?.more > 0 ? `; the first ${count(this.changed.length)} fields of the last change are highlighted` : "; highlighted lines changed last";
      setText(this.note, `resourceVersion ${object.metadata?.resourceVersion ?? "unknown"}${this.jump.hidden ? "" : highlighted}`);
      setText(this.error, "");
    } catch (error) {
      if (error.name === "AbortError") return;
      setText(this.error, error.code === 404 ? "This object is not in the mirror: it was deleted, or never existed." : error.message);
    } finally {
      this.loading = false;
    }
  }

  /// Asks for the fields of the last change: the history has only the first few of them.
  async loadChanged(change) {
    if (change?.id === this.lastChange?.id && this.isWhole) return;
    this.lastChange = change;
    this.isWhole = true;
    if (change?.differences.length > 0) {
      try {
        this.lastChange = await get(`changes/${encodeURIComponent(change.id)}`, {}, this.controller.signal);
      } catch (error) {
        if (error.name === "AbortError") throw error;
        this.isWhole = false;
      }
    }
    // A path without its segments can be that of several fields.
    this.changed = this.lastChange?.differences.map((difference) => difference.segments).filter(Boolean) ?? [];
  }

  /// Draws a part only if it differs from the last time: focus, selection and scroll position stay.
  ifNew(part, value, draw) {
    const text = JSON.stringify(value);
    if (this.shown[part] === text) return;
    this.shown[part] = text;
    draw();
  }

  /// The server keeps the last changes of each object, and says since when they are complete.
  showHistory({ changes, complete, completeSince }) {
    setText(this.historyTitle, complete ? "History since the start" : `History since ${clockOrDate(Date.parse(completeSince))}`);
    this.history.replaceChildren(
      ...changes.map((change) =>
        h(
          "li",
          {},
          h(
            "div",
            { class: "event" },
            h("span", { class: "type", "data-type": change.type }, change.type),
            h("time", { datetime: new Date(change.time).toISOString() }, preciseClock(change.time)),
          ),
          diffLines(change).map((line) => h("div", { class: "diff" }, line)),
        ),
      ),
    );
    const number = changes.length === 0 ? "No change." : `${counted(changes.length, "change")}.`;
    setText(this.historyNote, complete ? number : `${number} Older changes are no longer recorded.`);
  }

  firstChanged() {
    return this.lines.findIndex((line) => isChanged(line.path, this.changed));
  }

  showIndexes(indexes) {
    const rows = indexes.flatMap((index) => [h("dt", {}, index.name), h("dd", {}, index.values.join(", ") || "–")]);
    this.indexes.replaceChildren(...(rows.length > 0 ? rows : [h("dt", {}, "This mirror has no index."), h("dd")]));
  }

  render(row, index) {
    const line = this.lines[index];
    if (!line) return;
    const [number, content] = row.cells;
    const [indent, name, text] = content.childNodes;
    setText(number, index + 1);
    setText(indent, " ".repeat(line.indent) + (line.lead ?? ""));
    setText(name, line.name);
    setText(text, line.text);
    setAttribute(row.element, "data-changed", isChanged(line.path, this.changed) ? "true" : null);
  }

  async loadGraph() {
    const started = Date.now();
    this.graphDue = Infinity;
    try {
      const graph = await get(`graph/${this.path}`, {}, this.controller.signal);
      this.ifNew("graph", graph, () => this.draw(graph));
    } catch (error) {
      if (error.name === "AbortError") return;
      const reason = error.code === 404 ? "No graph: the object is not in the mirror." : `No graph: ${error.message}`;
      this.ifNew("graph", reason, () => this.graph.replaceChildren(h("p", { class: "hint" }, reason)));
    } finally {
      this.graphDue = Date.now() + (Date.now() - started) / GRAPH_SHARE;
    }
  }

  /// A tree: every object below its owner.
  draw({ nodes, edges, omitted }) {
    const byUid = new Map(nodes.map((node) => [node.uid, node]));
    const owned = new Map();
    const hasOwner = new Set();
    for (const edge of edges) {
      if (!byUid.has(edge.owner) || !byUid.has(edge.owned)) continue;
      owned.set(edge.owner, [...(owned.get(edge.owner) ?? []), byUid.get(edge.owned)]);
      hasOwner.add(edge.owned);
    }
    const rows = [];
    const seen = new Set();
    const add = (node, depth, parent) => {
      if (seen.has(node.uid)) return;
      seen.add(node.uid);
      const row = { node, depth, parent, y: rows.length * (NODE.height + NODE.gap) + 1 };
      rows.push(row);
      for (const child of owned.get(node.uid) ?? []) add(child, depth + 1, row);
    };
    for (const node of nodes) if (!hasOwner.has(node.uid)) add(node, 0, null);
    const shown = rows.slice(0, NODES_MAX);
    const hidden = omitted + rows.length - shown.length;
    const height = shown.length * (NODE.height + NODE.gap);
    const size = { width: "100%", height, viewBox: `0 0 ${NODE.width} ${height}`, preserveAspectRatio: "xMinYMin meet" };
    const svg = s("svg", { ...size, role: "group", "aria-label": `${count(nodes.length)} objects` }, shown.map((row) => this.edge(row)), shown.map((row) => this.node(row)));
    const focused = this.graph.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    this.graph.replaceChildren(svg, hidden > 0 ? h("p", { class: "hint" }, `${count(hidden)} more are not drawn.`) : "");
    if (focused) svg.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  }

  edge({ parent, depth, y }) {
    if (!parent) return null;
    const x = (depth - 1) * NODE.indent + 12;
    return s("path", { d: `M${x} ${parent.y + NODE.height}V${y + NODE.height / 2}H${x + NODE.indent - 12}` });
  }

  node({ node, depth, y }) {
    const x = depth * NODE.indent + 1;
    const short = node.name.length > 38 ? `${node.name.slice(0, 37)}…` : node.name;
    const box = s(
      "g",
      { class: `${node.level === 0 ? "here" : ""} ${node.mirrored ? "" : "missing"}`, transform: `translate(${x} ${y})` },
      s("rect", { width: NODE.width - x - 1, height: NODE.height, rx: 7 }),
      s("text", { x: 10, y: 19 }, s("tspan", { class: "kind" }, node.mirrored ? node.kind : `${node.kind} (not mirrored)`), ` ${short}`),
    );
    if (!node.mirrored || node.level === 0) return box;
    return s("a", { href: objectLink(node.resource, node.namespace, node.name) }, box);
  }

  close() {
    clearInterval(this.timer);
    clearTimeout(this.later);
    this.controller.abort();
    this.rows.close();
  }
}
