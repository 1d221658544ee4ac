// The demo's own server: its clock, its clients, its armed faults, and faults that can be switched on to see the informers and the
// controller recover.

import { send } from "./api.js";
import { h, setAttribute, setText } from "./dom.js";
import { count, counted, dateTime, duration } from "./format.js";

/// Most rows of a table.
const ROWS_MAX = 32;

export class Demo {
  constructor(model) {
    this.model = model;
    this.switches = new Map();
    this.facts = { time: h("dd"), uptime: h("dd"), revision: h("dd"), changes: h("dd") };
    this.error = h("p", { class: "error", role: "alert" });
    this.list = h("div", { class: "switches" });
    this.actions = h("div", { class: "actions" });
    this.armed = h("tbody");
    this.armedTable = h(
      "section",
      { class: "card flush", "aria-label": "Armed faults" },
      h("h2", { class: "table-title" }, "Armed faults"),
      h("table", { class: "table" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Effect"), h("th", { scope: "col" }, "Requests"), h("th", { scope: "col" }, "Armed by"), h("th", { scope: "col", class: "right" }, "Affected"))), this.armed),
    );
    this.clients = h("tbody");
    this.clientTable = h(
      "section",
      { class: "card flush", "aria-label": "Requests by client", hidden: true },
      h("h2", { class: "table-title" }, "Requests by client"),
      h("table", { class: "table" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Client"), h("th", { scope: "col" }, "Verb"), h("th", { scope: "col", class: "right" }, "Requests"))), this.clients),
    );
    this.element = [
      h("div", { class: "head" }, h("h1", {}, "Demo"), h("p", {}, "An embedded API server with a simulated cluster. Inject faults and watch the overview: the informers and the controller recover without help.")),
      this.error,
      h(
        "div",
        { class: "columns" },
        h(
          "div",
          { class: "stack" },
          h("section", { class: "card", "aria-label": "Faults" }, h("h2", {}, "Faults"), this.list, h("h2", {}, "Faults that strike once"), this.actions),
          this.armedTable,
        ),
        h(
          "div",
          { class: "stack" },
          h(
            "section",
            { class: "card", "aria-label": "Clock" },
            h("h2", {}, "Server"),
            h("dl", { class: "facts" }, h("dt", {}, "Clock"), this.facts.time, h("dt", {}, "Running for"), this.facts.uptime, h("dt", {}, "Revision"), this.facts.revision, h("dt", {}, "Simulated changes"), this.facts.changes),
          ),
          this.clientTable,
        ),
      ),
    ];
  }

  update() {
    const { demo } = this.model;
    if (!demo) return;
    setText(this.facts.time, dateTime(demo.clock));
    setText(this.facts.uptime, duration(demo.uptimeSeconds));
    setText(this.facts.revision, count(demo.revision));
    setText(this.facts.changes, count(demo.simulatedChanges));
    for (const fault of demo.faults) {
      const known = this.switches.get(fault.name) ?? this.control(fault);
      if (!fault.switch) continue;
      setAttribute(known.button, "aria-checked", String(fault.armed));
      const affected = fault.fired === null ? "" : `; affected ${counted(fault.fired, "request")}`;
      setText(known.fired, fault.armed ? `on${affected}` : "off");
    }
    this.showArmed(demo.armed ?? []);
    this.showClients(demo.clients ?? []);
  }

  control(fault) {
    const control = { fired: h("span", { class: "about" }, "off") };
    if (fault.switch) {
      control.button = h(
        "button",
        { class: "switch", type: "button", role: "switch", "aria-checked": "false", "data-fault": fault.name, onclick: () => this.flip(fault.name, control) },
        h("span", { class: "knob" }),
        h("span", {}, fault.title, control.fired),
      );
      this.list.append(control.button);
    } else {
      control.button = h("button", { type: "button", "data-fault": fault.name, onclick: () => this.change("PUT", fault.name) }, fault.title);
      this.actions.append(control.button);
    }
    this.switches.set(fault.name, control);
    return control;
  }

  flip(name, control) {
    const isOn = control.button.getAttribute("aria-checked") === "true";
    this.change(isOn ? "DELETE" : "PUT", name);
  }

  async change(method, name) {
    try {
      this.model.demo = await send(method, `/api/v1/demo/faults/${encodeURIComponent(name)}`);
      setText(this.error, "");
      this.update();
    } catch (error) {
      setText(this.error, error.message);
    }
  }

  /// Every fault that is armed on the server: those of the switches, and those of `--chaos`.
  showArmed(faults) {
    const affected = (fault) => (fault.times === null ? count(fault.fired) : `${count(fault.fired)} of ${count(fault.times)}`);
    const rows = faults.slice(0, ROWS_MAX).map((fault) => h("tr", {}, h("td", {}, fault.effect), h("td", {}, fault.requests), h("td", {}, fault.switch ? "switch" : "--chaos"), h("td", { class: "right" }, affected(fault))));
    this.armed.replaceChildren(...(rows.length > 0 ? rows : [h("tr", {}, h("td", { class: "hint", colspan: 4 }, "No fault is armed."))]));
  }

  showClients(clients) {
    this.clientTable.hidden = clients.length === 0;
    const rows = clients.slice(0, ROWS_MAX).map((client) => h("tr", {}, h("td", {}, client.name || "(no user agent)"), h("td", {}, client.verb ?? "discovery"), h("td", { class: "right" }, count(client.requests))));
    this.clients.replaceChildren(...rows);
  }
}
