// The one event stream of a tab. It reconnects by itself and resumes behind the last change that it received. It reads with
// fetch instead of EventSource, because a token has to be sent as a header. Browsers allow few connections per host for all tabs
// together, so a hidden tab has no stream.

import { ApiError, headers, url } from "./api.js";

const RETRY_MIN = 500;
const RETRY_MAX = 5000;
/// The server sends a status every second; a stream that is silent for this long is dead.
const SILENCE_MAX = 8000;

export class EventStream {
  /// `on(name, data)` receives every event, `onLink(state, error)` the connection's state.
  constructor(on, onLink) {
    this.on = on;
    this.onLink = onLink;
    this.filters = {};
    this.lastId = null;
    this.retry = RETRY_MIN;
    this.bytes = 0;
    this.controller = null;
    this.timer = 0;
    document.addEventListener("visibilitychange", () => this.reconnect(0));
  }

  /// Starts, or starts again with other filters.
  open(filters = {}) {
    this.filters = filters;
    this.lastId = null;
    this.reconnect(0);
  }

  reconnect(delay) {
    clearTimeout(this.timer);
    this.controller?.abort();
    this.controller = null;
    if (document.hidden) this.onLink("paused", null);
    else this.timer = setTimeout(() => this.run(), delay);
  }

  async run() {
    const controller = new AbortController();
    this.controller = controller;
    let error = null;
    try {
      await this.read(controller);
    } catch (failure) {
      error = failure;
    }
    if (this.controller !== controller) return;
    const isFinal = error instanceof ApiError && [400, 401, 403, 404].includes(error.code);
    this.onLink("offline", error);
    if (isFinal) return;
    this.reconnect(this.retry);
    this.retry = Math.min(this.retry * 1.6, RETRY_MAX);
  }

  async read(controller) {
    let watchdog = 0;
    const guard = () => {
      clearTimeout(watchdog);
      watchdog = setTimeout(() => controller.abort(), SILENCE_MAX);
    };
    guard();
    try {
      await this.receive(controller, guard);
    } finally {
      clearTimeout(watchdog);
    }
  }

  /// Reads to the end; `guard` is called for each sign of life.
  async receive(controller, guard) {
    const more = { accept: "text/event-stream" };
    if (this.lastId) more["last-event-id"] = this.lastId;
    const response = await fetch(url("stream", { ...this.filters, recent: 100 }), {
      headers: headers(more),
      signal: controller.signal,
      cache: "no-store",
    });
    if (!response.ok) {
      const status = await response.json().catch(() => ({}));
      throw new ApiError(response.status, status.message ?? response.statusText);
    }
    this.retry = RETRY_MIN;
    this.onLink("live", null);
    const reader = response.body.getReader();
    const decoder = new TextDecoder();
    let text = "";
    for (;;) {
      guard();
      const { done, value } = await reader.read();
      if (done) return;
      this.bytes += value.byteLength;
      text += decoder.decode(value, { stream: true });
      for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
        this.take(text.slice(0, end));
        text = text.slice(end + 2);
      }
    }
  }

  take(block) {
    let name = "message";
    let data = "";
    for (const line of block.split("\n")) {
      if (line.startsWith("event: ")) name = line.slice(7);
      else if (line.startsWith("data: ")) data = line.slice(6);
      else if (line.startsWith("id: ")) this.lastId = line.slice(4);
    }
    if (data) this.on(name, JSON.parse(data));
  }
}
