// The replicas in this process that share the work of a controller: their slots, and how many have changed hands. `serve` has none.

import { h, setText } from "./dom.js";
import { count } from "./format.js";

const HINT =
  "These replicas share the work of one controller. Its objects are divided into slots, and each slot has at most one owner; Leases on the API server record the owners. Gained: slots that the replica began to work on. Released: slots that it handed over, including those on which it had not begun to work. Lost: slots that it lost without a hand-over. Time unowned: how long the gained slots had no working owner.";
const COLUMNS = ["Slots", "Members", "Gained", "Released", "Lost", "Time unowned"];
const FIGURES = ["slots", "members", "gained", "released", "lost", "unownedSeconds"];

export class Replicas {
  constructor() {
    this.rows = new Map();
    this.body = h("tbody");
    const heads = COLUMNS.map((name) => h("th", { scope: "col", class: "right" }, name));
    this.element = h(
      "section",
      { class: "card flush", "aria-label": "Replicas", hidden: true },
      h(
        "div",
        { class: "scroll-x", tabindex: 0, role: "region", "aria-label": "Table of replicas" },
        h("table", { class: "table" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Replica"), h("th", { scope: "col" }, "Lease"), heads)), this.body),
      ),
      h("p", { class: "hint table-hint" }, HINT),
    );
  }

  update(model) {
    this.element.hidden = model.sharing.length === 0;
    for (const { name, replica, ...figures } of model.sharing) {
      const row = this.row(name, replica ?? "this process");
      FIGURES.forEach((figure, at) => setText(row[at], figure === "unownedSeconds" ? `${figures[figure].toFixed(1)} s` : count(figures[figure])));
    }
  }

  /// The cells of a replica's figures.
  row(lease, replica) {
    const key = `${lease} ${replica}`;
    if (!this.rows.has(key)) {
      const cells = FIGURES.map((figure) => h("td", { class: "right", "data-figure": figure }));
      this.body.append(h("tr", { "data-replica": replica }, h("td", {}, replica), h("td", {}, lease), cells));
      this.rows.set(key, cells);
    }
    return this.rows.get(key);
  }
}
