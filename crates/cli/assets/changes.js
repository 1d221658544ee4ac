// Changes as they happen. The server filters; this tab keeps the newest ones and shows those that fit.

import { get } from "./api.js";
import { breakable, debounce, field, h, setAttribute, setText } from "./dom.js";
import { changeNote, count, counted, differenceText, objectLink, preciseClock, rowText } from "./format.js";
import { Rows } from "./rows.js";

/// Differences of a change that are laid out one by one. The rest is one text, so that a large change adds few nodes.
const LAID_OUT_MAX = 50;

export class Changes {
  constructor(model, actions) {
    this.model = model;
    this.actions = actions;
    this.shown = [];
    this.paused = false;
    /// The counters of the model when rows were taken over last; null before.
    this.seen = null;
    const { filters } = model;
    this.kind = h("select", { onchange: () => this.filter() }, this.kinds());
    this.kind.value = filters.kind ?? "";
    const input = (name, placeholder) =>
      h("input", { type: "search", placeholder, value: filters[name] ?? "", oninput: debounce(300, () => this.filter()), name, autocomplete: "off", spellcheck: "false" });
    this.namespace = input("namespace", "all");
    this.text = input("text", "in names and values");
    this.field = input("field", "status.phase=Running");
    this.pause = h("button", { type: "button", "aria-pressed": "false", onclick: () => this.toggle() }, "Pause");
    this.note = h("p", { class: "hint", role: "status" });
    this.error = h("p", { class: "error", role: "alert" });
    this.rows = new Rows({
      label: "Changes, the newest first",
      columns: ["Time", "Event", "Object", "What changed"],
      share: 0.66,
      heightMax: 640,
      rowHeight: 46,
      create: () => [
        h("span", { class: "time" }),
        h("span", { class: "type" }),
        h("span", { class: "object" }, h("span"), h("span", { class: "kind" })),
        h("span", { class: "diff" }, h("span")),
      ],
      render: (row, index) => this.render(row, index),
      onOpen: (index) => this.select(this.shown[index]),
      onMove: (index) => this.select(this.shown[index]),
    });
    this.asked = null;
    this.detail = h("div", { class: "stack" }, h("p", { class: "hint" }, "Select a change, or use the arrow keys, to see all its differences."));
    this.element = [
      h("div", { class: "head" }, h("h1", {}, "Changes"), h("p", {}, "Every change of every mirrored kind, with the fields that differ.")),
      h(
        "form",
        { class: "filters", role: "search", "aria-label": "Filter changes", onsubmit: (event) => event.preventDefault() },
        field("Kind", this.kind),
        field("Namespace", this.namespace),
        field("Text", this.text, "grow"),
        field("Field test", this.field, "grow"),
        this.pause,
      ),
      this.error,
      h(
        "div",
        { class: "columns wide" },
        h(
          "section",
          { class: "card flush changes", "aria-label": "List of changes" },
          this.rows.element,
          this.rows.range,
        ),
        h("section", { class: "card", "aria-label": "Selected change" }, h("h2", {}, "What changed"), this.detail),
      ),
      this.note,
    ];
  }

  kinds() {
    const names = [...new Set([...this.model.informers.values()].map((informer) => informer.resource))];
    return [h("option", { value: "" }, "all kinds"), ...names.map((name) => h("option", { value: name }, name))];
  }

  /// Other filters show other changes, so they end a pause.
  filter() {
    if (this.paused) this.toggle();
    this.actions.setFilters({
      kind: this.kind.value,
      namespace: this.namespace.value.trim(),
      text: this.text.value.trim(),
      field: this.field.value.trim(),
    });
    this.rows.scrollToTop();
  }

  toggle() {
    this.paused = !this.paused;
    setAttribute(this.pause, "aria-pressed", String(this.paused));
    setText(this.pause, this.paused ? "Resume" : "Pause");
    // What was taken over is shown now: a frame that comes later would move the rows of a list that is paused.
    this.rows.paint();
    this.update();
  }

  update() {
    if (this.kind.options.length < 2) this.kind.append(...this.kinds().slice(1));
    setText(this.error, this.model.filterError ?? "");
    const { rowCount, changeCount, filterings } = this.model;
    if (this.paused) {
      setText(this.note, `Paused; ${counted(changeCount - this.seen.changeCount, "newer change")} waiting.`);
      return;
    }
    const isOtherList = this.seen?.filterings !== filterings;
    if (isOtherList) this.rows.selected = -1;
    if (isOtherList || this.seen.rowCount !== rowCount) {
      // A reader who has scrolled down keeps the place.
      const top = this.rows.element.scrollTop;
      const added = isOtherList ? 0 : rowCount - this.seen.rowCount;
      this.shown = [...this.model.changes].reverse();
      this.rows.selected = this.rows.selected < 0 ? -1 : this.rows.selected + added;
      if (top > 0 && added > 0) this.rows.element.scrollTop = top + added * this.rows.rowHeight;
      this.rows.setCount(this.shown.length);
      this.seen = { rowCount, changeCount, filterings };
    }
    const skipped = this.model.skipped > 0 ? ` ${count(this.model.skipped)} were left out because they came too fast, the connection was down or the tab was hidden.` : "";
    const restarted = this.model.restarts > 0 ? " The program was restarted; changes before that may be missing." : "";
    const kept = this.shown.filter((row) => row.type !== "SKIPPED").length;
    setText(this.note, `This tab keeps ${counted(kept, "change")}.${skipped}${restarted}`);
  }

  render(row, index) {
    const change = this.shown[index];
    if (!change) return;
    const [time, type, object, diff] = row.cells;
    setText(time, preciseClock(change.time));
    setText(type, change.type);
    setAttribute(type, "data-type", change.type);
    const key = change.namespace ? `${change.namespace}/${change.name}` : (change.name ?? "");
    setText(object.firstChild, key);
    setText(object.lastChild, change.resource ?? "");
    setAttribute(object, "title", key || null);
    const line = rowText(change);
    setText(diff.firstChild, change.coalesced > 1 ? `${change.coalesced} changes: ${line}` : line);
    setAttribute(diff, "data-plain", change.differences.length === 0 ? "true" : null);
  }

  /// Shows a change, and asks the server for the differences that the stream leaves out.
  async select(change) {
    if (!change?.name) return;
    this.asked?.abort();
    this.asked = new AbortController();
    this.show(change, "");
    if (change.differences.length === 0) return;
    const first = change.coalesced > 1 ? change.first : null;
    try {
      this.show(await get(`changes/${encodeURIComponent(change.id)}`, { first }, this.asked.signal), "");
    } catch (error) {
      if (error.name === "AbortError") return;
      const missing = error.code === 404 ? "The program has dropped this change; long values are cut off." : error.message;
      this.show(change, missing);
    }
  }

  show(change, note) {
    const before = (d) => (d.before === undefined ? "(added)" : h("span", { class: "before" }, d.before));
    const after = (d) => (d.after === undefined ? "(removed)" : h("span", { class: "after" }, d.after));
    const differences = change.differences.slice(0, LAID_OUT_MAX).map((d) => [h("dt", {}, breakable(d.path)), h("dd", {}, before(d), " → ", after(d))]);
    const rest = change.differences.slice(LAID_OUT_MAX).map(differenceText).join("\n");
    const merged = change.coalesced > 1 ? `, ${count(change.coalesced)} changes in one` : "";
    const facts = [
      ["Namespace", change.namespace || "(cluster-scoped)"],
      ["Event", `${change.type} at ${preciseClock(change.time)}${merged}`],
      ["Version", change.resourceVersion],
    ];
    this.detail.replaceChildren(
      h("p", {}, h("a", { href: objectLink(change.resource, change.namespace, change.name) }, `${change.kind} ${change.name}`)),
      h("dl", { class: "facts" }, facts.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
      differences.length > 0 ? h("dl", { class: "diff-table" }, differences) : h("p", { class: "hint" }, changeNote(change)),
      rest ? h("pre", { class: "diff-rest" }, rest) : "",
      change.more > 0 ? h("p", { class: "hint" }, `${counted(change.more, "more field")} differ.`) : "",
      note ? h("p", { class: "hint" }, note) : "",
    );
  }

  close() {
    this.asked?.abort();
    this.rows.close();
  }
}
