// Any field of any kind, counted: by one path, or by one path within another, as a chart and a table.

import { get } from "./api.js";
import { field, h, setText } from "./dom.js";
import { count, counted } from "./format.js";

const ROWS_MAX = 40;
/// Series with a colour of their own; the rest is shown together.
const SERIES_MAX = 6;
/// Phases and statuses of conditions have a colour of their tone, as in the list of objects. Those that occur together differ.
const TINTS = new Map(
  Object.entries({ Running: "good", Active: "good", True: "good", Succeeded: "done", Pending: "wait", Terminating: "wait", Failed: "bad", False: "bad", Unknown: "lost" }),
);
/// The colours of other values, in the order of use; next to phases, those that differ most from theirs come first.
const SERIES = [0, 1, 2, 3, 4, 5];
const SERIES_NEXT_TO_PHASES = [0, 2, 5, 4, 3, 1];
const GROUPS_MAX = 10_000;
const OTHER = Symbol("other");
const SUGGESTIONS = ["status.phase", "spec.nodeName", "metadata.namespace", "metadata.labels.app", "spec.containers[*].image", "status.conditions[?type=Ready].status"];

export class Query {
  constructor(model, actions, query) {
    this.model = model;
    this.controller = null;
    const asked = new URLSearchParams(query ?? "");
    this.kind = h("select", { name: "kind" });
    this.asked = asked.get("kind") ?? "pods";
    const input = (name, value, placeholder) =>
      h("input", { name, value, placeholder, list: "paths", autocomplete: "off", spellcheck: "false" });
    this.by = input("by", asked.get("by") ?? "status.phase", "status.phase");
    this.within = input("within", asked.get("within") ?? "", "spec.nodeName");
    this.test = input("field", asked.get("field") ?? "", "metadata.namespace=shop");
    this.error = h("p", { class: "error", role: "alert" });
    this.note = h("p", { class: "hint", role: "status" });
    this.chart = h("div", { class: "bars" });
    this.legend = h("div", { class: "chart-head" });
    this.table = h("table", { class: "table" });
    this.element = [
      h("div", { class: "head" }, h("h1", {}, "Query"), h("p", {}, "Counts objects by the value of any field, read from the bytes.")),
      h("datalist", { id: "paths" }, SUGGESTIONS.map((path) => h("option", { value: path }))),
      h(
        "form",
        { class: "filters", "aria-label": "Query", onsubmit: (event) => this.submit(event) },
        field("Kind", this.kind),
        field("Count by field", this.by, "grow"),
        field("For each (optional)", this.within, "grow"),
        field("Only where (optional)", this.test, "grow"),
        h("button", { class: "main-action", type: "submit" }, "Count"),
      ),
      this.error,
      h(
        "div",
        { class: "columns even" },
        h("section", { class: "card flush", "aria-label": "Chart" }, this.legend, this.chart),
        h("section", { class: "card flush", "aria-label": "Table" }, h("div", { class: "scroll-x", tabindex: 0, role: "region", "aria-label": "Table of counts" }, this.table)),
      ),
      this.note,
    ];
  }

  update() {
    if (this.kind.options.length > 0 || this.model.informers.size === 0) return;
    const names = [...new Set([...this.model.informers.values()].map((informer) => informer.resource))];
    this.kind.append(...names.map((name) => h("option", { value: name }, name)));
    this.kind.value = names.includes(this.asked) ? this.asked : names[0];
    this.run();
  }

  submit(event) {
    event.preventDefault();
    const query = new URLSearchParams();
    for (const input of [this.kind, this.by, this.within, this.test]) if (input.value.trim()) query.set(input.name, input.value.trim());
    history.replaceState(null, "", `#/query?${query}`);
    this.run();
  }

  async run() {
    // A late response to the previous query must not replace this one's.
    this.controller?.abort();
    this.controller = new AbortController();
    const paths = [this.by.value.trim(), this.within.value.trim()].filter(Boolean);
    try {
      const parameters = { by: paths, field: this.test.value.trim(), limit: GROUPS_MAX };
      const counts = await get(`counts/${encodeURIComponent(this.kind.value)}`, parameters, this.controller.signal);
      setText(this.error, "");
      const rows = this.show(counts, paths.length > 1);
      setText(this.note, this.summary(counts, rows));
    } catch (error) {
      if (error.name === "AbortError") return;
      setText(this.error, error.message);
      this.chart.replaceChildren();
      this.table.replaceChildren();
      this.legend.replaceChildren();
      setText(this.note, "");
    }
  }

  /// How many objects there are, and what the chart and the table leave out.
  summary(counts, rows) {
    const texts = [`${counted(counts.objects, "object")} in ${counted(counts.groupCount, "group")}.`];
    if (rows > ROWS_MAX) texts.push(`The ${ROWS_MAX} largest of ${counted(rows, "row")} are shown.`);
    const missing = (counts.omitted ?? 0) + counts.ungrouped;
    if (missing > 0) texts.push(`Only the ${count(GROUPS_MAX)} largest groups are counted here: totals lack ${counted(missing, "object")} of smaller groups.`);
    return texts.join(" ");
  }

  /// Shows the counts; returns the number of rows that there are.
  show(counts, hasTwo) {
    const name = (value) => value ?? "(no value)";
    const series = new Map();
    const rows = new Map();
    for (const group of counts.groups) {
      const part = hasTwo ? name(group.values[0]) : "";
      const label = name(group.values[hasTwo ? 1 : 0]);
      series.set(part, (series.get(part) ?? 0) + group.count);
      const row = rows.get(label) ?? { label, total: 0, parts: new Map() };
      row.total += group.count;
      row.parts.set(part, (row.parts.get(part) ?? 0) + group.count);
      rows.set(label, row);
    }
    const shown = [...rows.values()].sort((a, b) => b.total - a.total || a.label.localeCompare(b.label)).slice(0, ROWS_MAX);
    const parts = [...series.keys()].sort((a, b) => series.get(b) - series.get(a));
    const hidden = parts.splice(SERIES_MAX);
    if (hidden.length > 0) {
      for (const row of shown) row.parts.set(OTHER, hidden.reduce((sum, part) => sum + (row.parts.get(part) ?? 0), 0));
      parts.push(OTHER);
    }
    const titles = parts.map((part) => (part === OTHER ? `other (${hidden.length})` : part));
    this.showChart(shown, parts, titles, hasTwo);
    this.showTable(shown, parts, titles, counts.by, hasTwo);
    return rows.size;
  }

  showChart(rows, parts, titles, hasTwo) {
    const top = Math.max(1, ...rows.map((row) => row.total));
    const tints = this.tints(parts);
    this.chart.replaceChildren(
      ...rows.flatMap((row) => {
        const track = h("span", { class: "track", "aria-hidden": "true" });
        parts.forEach((part, at) => {
          if (!row.parts.get(part)) return;
          const bar = h("span", { class: `part ${tints[at]}`, title: `${titles[at]} ${count(row.parts.get(part))}` });
          bar.style.width = `${(row.parts.get(part) / top) * 100}%`;
          track.append(bar);
        });
        return [h("span", { class: "label", title: row.label }, row.label), track, h("span", { class: "right" }, count(row.total))];
      }),
    );
    const entries = titles.map((title, at) => h("li", {}, h("span", { class: `swatch ${tints[at]}` }), title));
    this.legend.replaceChildren(hasTwo ? h("ul", { class: "series", "aria-label": "Legend" }, entries) : "Objects");
  }

  /// The class of each series' colour.
  tints(parts) {
    const rest = [...(parts.some((part) => TINTS.has(part)) ? SERIES_NEXT_TO_PHASES : SERIES)];
    const used = new Set();
    return parts.map((part) => {
      if (part === OTHER) return "tint-other";
      const own = TINTS.get(part);
      const tint = own && !used.has(own) ? own : rest.shift();
      used.add(tint);
      return `tint-${tint}`;
    });
  }

  showTable(rows, parts, titles, by, hasTwo) {
    const heads = hasTwo ? [by[1], ...titles, "Total"] : [by[0] ?? "All", "Objects"];
    const head = h("tr", {}, heads.map((title, at) => h("th", { scope: "col", class: at > 0 ? "right" : "" }, title)));
    const body = rows.map((row) => {
      const cells = hasTwo ? [...parts.map((part) => row.parts.get(part) ?? 0), row.total] : [row.total];
      return h("tr", {}, h("td", {}, row.label), cells.map((cell) => h("td", { class: "right" }, count(cell))));
    });
    this.table.replaceChildren(h("thead", {}, head), h("tbody", {}, body));
  }

  close() {
    this.controller?.abort();
  }
}
