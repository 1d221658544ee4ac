// The path of a change, from the server to the handlers, with live counters.

import { h, setAttribute, setText } from "./dom.js";
import { bytes, count } from "./format.js";

const STAGES = [
  {
    name: "Server",
    unit: "revision",
    about: "The API server holds the objects and numbers every write.",
  },
  {
    name: "Reflector",
    unit: "events received",
    about: "Lists a kind once, then watches it. When the watch breaks, it resumes where it stopped.",
  },
  {
    name: "Queue",
    unit: "changes waiting",
    about: "Keeps changes in order and bounded. If the store falls behind, the socket is read more slowly; memory does not grow.",
  },
  {
    name: "Store",
    unit: "objects",
    about: "Holds each object as bytes, compressed and indexed. Reads never wait for the server.",
  },
  {
    name: "Handlers",
    unit: "events per handler",
    about: "Receive each change with the old and the new state. After a relist, only what differs.",
  },
];

export class Pipeline {
  constructor() {
    this.figures = STAGES.map(() => h("div", { class: "figure" }, "–"));
    this.units = STAGES.map((stage) => h("div", { class: "unit" }, stage.unit));
    this.stages = STAGES.map((stage, at) =>
      h("li", { class: "stage" }, h("h3", {}, stage.name), this.figures[at], this.units[at], h("p", {}, stage.about)),
    );
    const hint = "The revision numbers every write to the server, of any kind. Events received counts these kinds only, since the start; a relist sends objects again.";
    this.element = [h("ol", { class: "pipeline" }, this.stages), h("p", { class: "hint" }, hint)];
    this.before = STAGES.map(() => null);
  }

  update(model) {
    const informers = [...model.informers.values()];
    const sum = (of) => informers.reduce((total, informer) => total + (of(informer) ?? 0), 0);
    const revisions = informers.map((informer) => Number(informer.resourceVersion.received) || 0);
    const stored = sum((informer) => informer.storedBytes);
    const handlers = new Map();
    for (const { name, delivered } of informers.flatMap((informer) => informer.handlers)) {
      handlers.set(name, (handlers.get(name) ?? 0) + delivered);
    }
    const figures = [
      model.demo?.revision ?? Math.max(0, ...revisions),
      sum((informer) => informer.received.events),
      sum((informer) => informer.queued),
      sum((informer) => informer.objects),
      Math.max(0, ...handlers.values()),
    ];
    figures.forEach((figure, at) => {
      setText(this.figures[at], count(figure));
      setAttribute(this.stages[at], "data-busy", String(this.before[at] !== null && this.before[at] !== figure));
      this.before[at] = figure;
    });
    setText(this.units[3], `objects in ${bytes(stored)}`);
    const each = [...handlers].map(([name, delivered]) => `${name} ${count(delivered)}`).join(", ");
    setText(this.units[4], handlers.size > 1 ? `events each: ${each}` : `events to the handler ${[...handlers.keys()][0] ?? ""}`);
  }
}
