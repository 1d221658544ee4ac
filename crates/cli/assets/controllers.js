// The controllers of this process: what they have reconciled, what failed, and what waits. `serve` runs no controller.

import { drawSpark } from "./charts.js";
import { h, setAttribute, setText } from "./dom.js";
import { count } from "./format.js";

const COLUMNS = ["Reconciles", "Failures", "Retries", "Queue depth", "Running"];
const FIGURES = ["reconciles", "failures", "retries", "queued", "running"];

export class Controllers {
  constructor() {
    this.rows = new Map();
    this.body = h("tbody");
    const heads = COLUMNS.map((name) => h("th", { scope: "col", class: "right" }, name));
    this.element = h(
      "section",
      { class: "card flush", "aria-label": "Controllers", hidden: true },
      h(
        "div",
        { class: "scroll-x", tabindex: 0, role: "region", "aria-label": "Table of controllers" },
        h(
          "table",
          { class: "table" },
          h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Controller"), h("th", { scope: "col" }, "Reconciles per second"), heads)),
          this.body,
        ),
      ),
    );
  }

  update(model) {
    this.element.hidden = model.controllers.length === 0;
    for (const controller of model.controllers) {
      const row = this.rows.get(controller.name) ?? this.row(controller.name);
      drawSpark(row.spark, model.reconciles.get(controller.name) ?? []);
      setText(row.rate, count(controller.rate));
      setAttribute(row.spark, "aria-label", `${controller.rate} reconciles per second now`);
      FIGURES.forEach((name, at) => setText(row.figures[at], count(controller[name])));
    }
  }

  row(name) {
    const row = { spark: h("canvas", { class: "spark", role: "img" }), rate: h("span", { class: "rate" }), figures: FIGURES.map((figure) => h("td", { class: "right", "data-figure": figure })) };
    this.body.append(h("tr", { "data-controller": name }, h("td", {}, name), h("td", {}, h("div", { class: "spark-cell" }, row.spark, row.rate)), row.figures));
    this.rows.set(name, row);
    return row;
  }
}
