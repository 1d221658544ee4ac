// The state of every informer: figures, the pipeline, and one row with a timeline per informer.

import { drawSpark, drawTimeline } from "./charts.js";
import { Controllers } from "./controllers.js";
import { h, setAttribute, setText } from "./dom.js";
import { bytes, clock, count, counted, tone, total } from "./format.js";
import { Pipeline } from "./pipeline.js";
import { Replicas } from "./replicas.js";

/// The period that a timeline shows.
const SPAN = 5 * 60_000;
/// Errors that are listed of one informer.
const ERRORS_MAX = 20;
/// Informers on one page of the table, so that the view stays small with hundreds of kinds.
const ROWS_MAX = 40;
const COLUMNS = 10;
/// The legend of the timelines.
const LEGEND = { watching: "watching", listing: "listing", streaming: "streaming a list", opening: "opening a watch", bad: "backing off or degraded", reopened: "a watch broke and was reopened", off: "not running" };

export class Overview {
  constructor(model) {
    this.model = model;
    this.rows = new Map();
    this.opened = null;
    /// The number of the table's page.
    this.page = 0;
    this.previous = h("button", { type: "button", onclick: () => this.turn(-1) }, "Previous kinds");
    this.next = h("button", { type: "button", onclick: () => this.turn(1) }, "Next kinds");
    this.range = h("span", { role: "status" });
    this.pager = h("div", { class: "pager", hidden: true }, this.previous, this.next, this.range);
    this.pipeline = new Pipeline();
    this.controllers = new Controllers();
    this.replicas = new Replicas();
    this.tiles = {};
    this.body = h("tbody");
    this.element = [
      h(
        "div",
        { class: "head" },
        h("h1", {}, "Overview"),
        h("p", {}, "An informer keeps a live copy of one kind of object. Reads are local; changes arrive as they happen."),
      ),
      h("dl", { class: "tiles" }, [
        this.tile("objects", "Objects mirrored"),
        this.tile("memory", "Memory of the mirrors"),
        this.tile("decoded", "Memory if decoded (estimate)"),
        this.tile("rate", "Events per second"),
        this.tile("lag", "Changes not delivered yet"),
      ]),
      h("section", { class: "card", "aria-label": "Pipeline" }, h("h2", {}, "Path of a change"), this.pipeline.element),
      h(
        "section",
        { class: "card flush", "aria-label": "Informers" },
        h(
          "div",
          { class: "scroll-x", tabindex: 0, role: "region", "aria-label": "Table of informers" },
          h(
            "table",
            { class: "table" },
            h(
              "thead",
              {},
              h(
                "tr",
                {},
                h("th", { scope: "col" }, "Kind"),
                h("th", { scope: "col" }, "State"),
                h("th", { scope: "col" }, "Last five minutes"),
                h("th", { scope: "col", class: "right" }, "Objects"),
                h("th", { scope: "col", class: "right" }, "Memory"),
                h("th", { scope: "col", class: "right" }, "Decoded (estimate)"),
                h("th", { scope: "col" }, "Events per second"),
                h("th", { scope: "col", class: "right" }, "Queue"),
                h("th", { scope: "col", class: "right" }, "Lag per handler"),
                h("th", { scope: "col", class: "right" }, "Errors"),
              ),
            ),
            this.body,
          ),
        ),
        this.pager,
      ),
      h("div", { class: "legend" }, Object.entries(LEGEND).map(([name, title]) => h("span", { "data-tone": name }, title))),
      this.controllers.element,
      this.replicas.element,
    ];
  }

  tile(name, title) {
    const [figure, note] = [h("div", { class: "figure" }, "–"), h("div", { class: "note" })];
    this.tiles[name] = { figure, note };
    return h("div", { class: "tile" }, h("dt", {}, title), h("dd", {}, figure, note));
  }

  row(number) {
    const informer = this.model.informers.get(number);
    const cell = (className) => h("td", { class: className });
    const row = {
      state: h("span", { class: "state" }),
      reason: h("span", { class: "reason" }),
      timeline: h("canvas", { class: "timeline", role: "img" }),
      objects: cell("right"),
      memory: cell("right"),
      decoded: cell("right"),
      spark: h("canvas", { class: "spark", role: "img" }),
      rate: h("span", { class: "rate" }),
      queue: cell("right"),
      lag: cell("right handlers"),
      errors: cell("right"),
      count: h("button", { class: "count", type: "button", "aria-expanded": "false", onclick: () => this.toggle(number) }),
      details: null,
      list: null,
      shown: "",
    };
    row.errors.append(row.count);
    const name = informer.name ? `${informer.resource}/${informer.name}` : informer.resource;
    row.element = h(
      "tr",
      { "data-resource": informer.resource },
      h("td", {}, h("a", { href: `#/objects/${encodeURIComponent(informer.resource)}` }, name)),
      h("td", {}, row.state, row.reason),
      h("td", {}, row.timeline),
      row.objects,
      row.memory,
      row.decoded,
      h("td", {}, h("div", { class: "spark-cell" }, row.spark, row.rate)),
      row.queue,
      row.lag,
      row.errors,
    );
    row.name = name;
    this.rows.set(number, row);
    this.body.append(row.element);
    return row;
  }

  /// Shows another page of the table.
  turn(pages) {
    this.page += pages;
    this.opened = null;
    this.update();
  }

  /// Opens or closes the errors of one informer. Only one list is open, so the page stays small.
  toggle(number) {
    this.opened = this.opened === number ? null : number;
    this.update();
  }

  showErrors(number, row, past) {
    const isOpen = this.opened === number;
    setAttribute(row.count, "aria-expanded", String(isOpen));
    if (!isOpen) {
      row.details?.remove();
      row.details = null;
      return;
    }
    if (!row.details) {
      row.list = h("ol", { class: "reasons" });
      row.shown = "";
      row.details = h("tr", { class: "details" }, h("td", { colspan: COLUMNS }, h("h3", {}, `Errors of ${row.name}, the newest first`), row.list));
      row.element.after(row.details);
    }
    const errors = past.filter((segment) => segment.reason).slice(-ERRORS_MAX).reverse();
    // Only a changed list is drawn again: a selected text stays selected.
    const shown = errors.map((segment) => segment.since).join();
    if (row.shown === shown && row.list.childElementCount > 0) return;
    row.shown = shown;
    const items = errors.map((segment) => {
      const state = segment.state === "watching" ? "reopened" : segment.state;
      const place = segment.namespace ? `namespace ${segment.namespace}: ` : "";
      return h("li", {}, h("time", { datetime: new Date(segment.since).toISOString() }, clock(segment.since)), h("span", { class: "state", "data-tone": tone(segment.state) }, state), h("span", {}, `${place}${segment.reason}`));
    });
    row.list.replaceChildren(...(items.length > 0 ? items : [h("li", {}, "The reasons are no longer recorded.")]));
  }

  update() {
    const { model } = this;
    const informers = [...model.informers.values()];
    const sum = (of) => informers.reduce((total, informer) => total + (of(informer) ?? 0), 0);
    const stored = sum((informer) => informer.storedBytes);
    const decoded = sum((informer) => informer.decodedBytesEstimate);
    const { tiles } = this;
    setText(tiles.objects.figure, count(sum((informer) => informer.objects)));
    setText(tiles.objects.note, `${informers.length} ${informers.length === 1 ? "kind" : "kinds"}`);
    setText(tiles.memory.figure, bytes(stored));
    const resident = model.demo ? "resident, server included" : "resident in all";
    setText(tiles.memory.note, model.residentBytes ? `${bytes(model.residentBytes)} ${resident}` : "");
    setText(tiles.decoded.figure, bytes(decoded));
    setText(tiles.decoded.note, stored > 0 && decoded > 0 ? `estimate: ${(decoded / stored).toFixed(1)} times as much` : "estimate");
    setText(tiles.rate.figure, count(sum((informer) => informer.rate)));
    setText(tiles.rate.note, `${count(sum((informer) => informer.received.events))} since the start`);
    setText(tiles.lag.figure, count(sum((informer) => informer.undelivered)));
    const coalesced = sum((informer) => total(informer.handlers, "coalesced"));
    setText(tiles.lag.note, coalesced > 0 ? `slow handlers: ${counted(coalesced, "burst")} coalesced` : "waiting for the slowest handler");
    this.pipeline.update(model);
    this.controllers.update(model);
    this.replicas.update(model);
    for (const number of this.visible()) this.updateRow(number);
  }

  /// The numbers of the informers in the table, as it was drawn last.
  shown() {
    return [...this.rows.keys()];
  }

  /// The numbers of the informers on this page of the table, in order. Rows of other pages are removed.
  visible() {
    const { informers } = this.model;
    const numbers = [...informers.keys()].sort((a, b) => a - b);
    this.page = Math.min(this.page, Math.max(Math.ceil(numbers.length / ROWS_MAX) - 1, 0));
    const first = this.page * ROWS_MAX;
    const visible = numbers.slice(first, first + ROWS_MAX);
    for (const [number, row] of this.rows) {
      if (visible.includes(number)) continue;
      row.element.remove();
      row.details?.remove();
      this.rows.delete(number);
    }
    this.pager.hidden = numbers.length <= ROWS_MAX;
    this.previous.disabled = first === 0;
    this.next.disabled = first + ROWS_MAX >= numbers.length;
    const isBad = (number) => tone(informers.get(number).state?.state) === "bad";
    const bad = numbers.filter((number) => isBad(number) && !visible.includes(number)).length;
    const others = bad > 0 ? ` ${counted(bad, "other kind")} with errors: see the other pages.` : "";
    setText(this.range, `Kinds ${first + 1}–${first + visible.length} of ${count(numbers.length)}.${others}`);
    return visible;
  }

  updateRow(number) {
    const informer = this.model.informers.get(number);
    const row = this.rows.get(number) ?? this.row(number);
    const state = informer.state?.state ?? "pending";
    setAttribute(row.state, "data-tone", tone(state));
    const { scopes } = informer;
    const partly = scopes?.count > 1 && scopes.watching < scopes.count ? ` (${scopes.count - scopes.watching} of ${scopes.count} namespaces)` : "";
    setText(row.state, `${state}${partly}`);
    const place = informer.state?.namespace ? `${informer.state.namespace}: ` : "";
    const reason = tone(state) === "bad" && informer.state.reason ? `${place}${informer.state.reason}` : "";
    setText(row.reason, reason);
    setAttribute(row.reason, "title", reason || null);
    const past = this.model.timelines.get(number) ?? [];
    drawTimeline(row.timeline, past, this.model.time, SPAN);
    const broken = past.filter((segment) => segment.reason).length;
    setAttribute(row.timeline, "aria-label", `${state}; ${counted(broken, "interruption")} in the recorded past`);
    setText(row.objects, count(informer.objects));
    setText(row.memory, bytes(informer.storedBytes));
    setText(row.decoded, bytes(informer.decodedBytesEstimate));
    const rates = this.model.rates.get(number) ?? [];
    drawSpark(row.spark, rates);
    const rate = rates.at(-1) ?? 0;
    setText(row.rate, count(rate));
    setAttribute(row.spark, "aria-label", `${rate} events per second now`);
    setText(row.queue, count(informer.queued));
    setText(row.lag, informer.handlers.map((handler) => `${handler.name} ${count(handler.lag)}`).join(", "));
    setAttribute(row.lag, "title", `${count(informer.undelivered)} changes wait for the slowest handler or controller`);
    setText(row.count, count(informer.errors));
    setAttribute(row.count, "aria-label", `${counted(informer.errors, "error")} of ${informer.resource}`);
    row.count.disabled = informer.errors === 0;
    this.showErrors(number, row, past);
  }
}
