// The objects of a kind, however many: the server filters and sorts, and this tab asks for the pages that it shows.

import { get } from "./api.js";
import { debounce, field, h, setAttribute, setText } from "./dom.js";
import { age, counted, objectLink, stateTone } from "./format.js";
import { Rows } from "./rows.js";

const PAGE = 100;
/// Pages that are kept.
const PAGES_MAX = 20;
/// While the view is open, the objects are read again this often.
const REFRESH = 4000;

/// Columns: a title, a path, and what the value is.
const AGE = { title: "Age", path: "metadata.creationTimestamp", is: "time" };
const REPLICAS = [
  { title: "Replicas", path: "spec.replicas" },
  { title: "Ready", path: "status.readyReplicas" },
];
/// Columns of kinds that most clusters have.
const COLUMNS = {
  pods: [{ title: "Phase", path: "status.phase", is: "state" }, { title: "Node", path: "spec.nodeName" }, AGE],
  nodes: [
    { title: "Ready", path: "status.conditions[?type=Ready].status", is: "state" },
    { title: "Kubelet version", path: "status.nodeInfo.kubeletVersion" },
    AGE,
  ],
  namespaces: [{ title: "Phase", path: "status.phase", is: "state" }, AGE],
  "deployments.apps": [...REPLICAS, AGE],
  "replicasets.apps": [...REPLICAS, AGE],
  "statefulsets.apps": [...REPLICAS, AGE],
  secrets: [{ title: "Type", path: "type" }, AGE],
};
const DEFAULT_COLUMNS = [AGE];

export class Objects {
  constructor(model, actions, resource) {
    this.model = model;
    this.resource = resource || "";
    this.pages = new Map();
    this.total = 0;
    /// The server has refused these filters: it would refuse them again.
    this.isRefused = false;
    this.kind = h("select", { onchange: () => { location.hash = `#/objects/${encodeURIComponent(this.kind.value)}`; } });
    const input = (name, placeholder) =>
      h("input", { type: "search", name, placeholder, oninput: debounce(300, () => this.reload()), autocomplete: "off", spellcheck: "false" });
    this.namespace = input("namespace", "all");
    this.text = input("text", "in namespace or name");
    this.labels = input("labels", "app=api");
    this.field = input("field", "status.phase!=Running");
    this.note = h("p", { class: "hint", role: "status" });
    this.error = h("p", { class: "error", role: "alert" });
    this.rows = new Rows({
      label: "Objects by namespace and name",
      columns: ["Namespace", "Name"],
      share: 0.69,
      heightMax: 760,
      shrinks: true,
      rowHeight: 34,
      // Arrow keys and Enter reach every row, so the links need no tab stop each.
      create: () => [h("span"), h("span", {}, h("a", { href: "#", tabindex: -1 })), ...this.columns().map(() => h("span", {}, h("span")))],
      render: (row, index) => this.render(row, index),
      onOpen: (index) => this.open(index),
    });
    this.element = [
      h("div", { class: "head" }, h("h1", {}, "Objects"), h("p", {}, "Read from the mirror in memory; no request reaches the API server.")),
      h(
        "form",
        { class: "filters", role: "search", "aria-label": "Filter objects", onsubmit: (event) => event.preventDefault() },
        field("Kind", this.kind),
        field("Namespace", this.namespace),
        field("Text", this.text, "grow"),
        field("Labels", this.labels, "grow"),
        field("Field test", this.field, "grow"),
      ),
      this.error,
      h("section", { class: "card flush", "aria-label": "List of objects" }, this.rows.element, this.rows.range),
      this.note,
    ];
    this.timer = setInterval(() => this.refresh(), REFRESH);
    this.controller = new AbortController();
  }

  columns() {
    return COLUMNS[this.resource] ?? DEFAULT_COLUMNS;
  }

  update() {
    if (this.time !== this.model.time) {
      // Ages grow.
      this.time = this.model.time;
      this.rows.draw();
    }
    if (this.kind.options.length > 0 || this.model.informers.size === 0) return;
    const names = [...new Set([...this.model.informers.values()].map((informer) => informer.resource))];
    this.kind.append(...names.map((name) => h("option", { value: name }, name)));
    if (!this.resource) this.resource = names.includes("pods") ? "pods" : names[0];
    this.kind.value = this.resource;
    this.rows.setColumns(["Namespace", "Name", ...this.columns().map((column) => column.title)]);
    this.rows.element.style.setProperty("--columns", `minmax(5rem, 0.6fr) minmax(9rem, 1.8fr) ${"minmax(0, 0.8fr) ".repeat(this.columns().length)}`);
    this.reload();
  }

  parameters() {
    return {
      namespace: this.namespace.value.trim(),
      text: this.text.value.trim(),
      labels: this.labels.value.trim(),
      field: this.field.value.trim(),
      column: this.columns().map((column) => column.path),
    };
  }

  reload() {
    // A late response to the previous filters must not replace the rows of these.
    this.controller.abort();
    this.controller = new AbortController();
    this.isRefused = false;
    this.pages.clear();
    this.rows.scrollToTop();
    this.load(0);
  }

  /// Reads the visible pages again. Objects can also appear in a list without rows.
  refresh() {
    if (!this.resource || document.hidden || this.isRefused) return;
    const visible = new Set(this.rows.pool.map((row) => Math.floor(row.index / PAGE)));
    if (visible.size === 0) visible.add(0);
    for (const number of [...this.pages.keys()]) if (!visible.has(number)) this.pages.delete(number);
    visible.forEach((number) => this.load(number, true));
  }

  async load(number, again = false) {
    if (!again && this.pages.has(number)) return;
    if (!again) this.pages.set(number, []);
    try {
      const parameters = { ...this.parameters(), offset: number * PAGE, limit: PAGE };
      const list = await get(`objects/${encodeURIComponent(this.resource)}`, parameters, this.controller.signal);
      this.pages.set(number, list.items);
      while (this.pages.size > PAGES_MAX) this.pages.delete(this.pages.keys().next().value);
      this.total = number * PAGE + list.items.length + list.metadata.remainingItemCount;
      setText(this.error, "");
      setText(this.note, `${counted(this.total, "object")} at resourceVersion ${list.metadata.resourceVersion}`);
      this.rows.setCount(this.total);
    } catch (error) {
      if (error.name === "AbortError") return;
      // The page stays, empty if it was never read: otherwise each status would draw its rows and read it again.
      setText(this.error, error.message);
      if (error.code >= 400 && error.code < 500) this.refuse();
    }
  }

  /// The rows are those of earlier filters.
  refuse() {
    this.isRefused = true;
    this.total = 0;
    this.rows.setCount(0);
    setText(this.note, "");
  }

  item(index) {
    return this.pages.get(Math.floor(index / PAGE))?.[index % PAGE];
  }

  /// A click on the row or Enter opens the object.
  open(index) {
    const item = this.item(index);
    if (item) location.hash = objectLink(this.resource, item.namespace, item.name);
  }

  render(row, index) {
    const page = Math.floor(index / PAGE);
    const item = this.item(index);
    if (!this.pages.has(page)) this.load(page);
    const [namespace, name, ...cells] = row.cells;
    const link = name.firstChild;
    setText(namespace, item?.namespace ?? "");
    setText(link, item?.name ?? "…");
    setAttribute(link, "href", item ? objectLink(this.resource, item.namespace, item.name) : null);
    const columns = this.columns();
    cells.forEach((cell, at) => this.renderCell(cell, columns[at], item?.columns[at]));
  }

  renderCell(cell, column, value) {
    const text = Array.isArray(value) ? value.join(", ") : (value ?? "");
    const time = column.is === "time" ? Date.parse(text) : NaN;
    setText(cell.firstChild, Number.isNaN(time) ? text : age(this.model.time - time));
    setAttribute(cell, "title", text || null);
    if (column.is !== "state") return;
    setAttribute(cell.firstChild, "class", text ? "state" : null);
    setAttribute(cell.firstChild, "data-tone", stateTone(text));
  }

  close() {
    clearInterval(this.timer);
    this.controller.abort();
    this.rows.close();
  }
}
