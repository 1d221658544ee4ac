// The past of the informers. The stream has only their current states: the states in between are read from the API. One read is under
// way at a time, and two reads begin at least two seconds apart, so an API server that fails all the time causes little traffic.

import { get } from "./api.js";

const SEGMENTS_MAX = 256;
/// The shortest time between the beginnings of two reads.
const PERIOD = 2000;
/// Most informers of one read that is not of all.
const NUMBERS_MAX = 60;

export class Timelines {
  /// `segments` has the states of each informer by its number. `shown()` returns the numbers of the informers whose timelines are visible,
  /// `onReport(report)` receives each read of all informers, and `onRead(error)` is called after any read.
  constructor({ segments, shown, onReport, onRead }) {
    Object.assign(this, { segments, shown, onReport, onRead });
    /// The informers of which a state may be missing.
    this.gaps = new Set();
    /// The time of the newest state of an informer's last read.
    this.readUpTo = new Map();
    this.isAllDue = false;
    this.isReading = false;
    this.startedAt = -Infinity;
    this.timer = 0;
    this.controller = new AbortController();
  }

  /// Forgets the states of another run of the program.
  clear() {
    this.controller.abort();
    this.controller = new AbortController();
    this.segments.clear();
    this.gaps.clear();
    this.readUpTo.clear();
    this.startedAt = -Infinity;
  }

  /// Reads all informers with their past.
  readAll() {
    this.isAllDue = true;
    clearTimeout(this.timer);
    this.timer = 0;
    this.check();
  }

  /// Takes the state of a status over. It is the last one of those since the previous status: the others are missing if the informer has
  /// failed or listed meanwhile.
  note(before, informer) {
    const past = this.segments.get(informer.number) ?? [];
    const { state } = informer;
    if (state && past.at(-1)?.since !== state.since) past.push(state);
    while (past.length > SEGMENTS_MAX) past.shift();
    this.segments.set(informer.number, past);
    if (before && (before.errors !== informer.errors || before.lists !== informer.lists)) this.gaps.add(informer.number);
  }

  /// Plans the next read if something that is shown is missing.
  check() {
    if (this.isReading || this.timer) return;
    // Other states soon follow an error, so a gap is not read at once.
    if (this.isAllDue) this.plan(this.startedAt + PERIOD - performance.now());
    else if (this.visibleGaps().length > 0) this.plan(PERIOD);
  }

  plan(delay) {
    this.timer = setTimeout(() => this.run(), Math.max(delay, 0));
  }

  visibleGaps() {
    return this.gaps.size === 0 ? [] : this.shown().filter((number) => this.gaps.has(number)).slice(0, NUMBERS_MAX);
  }

  async run() {
    this.timer = 0;
    this.isReading = true;
    this.startedAt = performance.now();
    try {
      if (this.isAllDue) await this.takeAll();
      else await this.takeGaps(this.visibleGaps());
      this.onRead(null);
    } catch (error) {
      // After an error, the next status of the stream leads to another read.
      if (error.name !== "AbortError") this.onRead(error);
    } finally {
      this.isReading = false;
    }
  }

  async takeAll() {
    this.isAllDue = false;
    const report = await this.ask({}).catch((error) => {
      this.isAllDue = true;
      throw error;
    });
    this.gaps.clear();
    for (const { number, timeline } of report.informers) {
      this.merge(number, timeline);
      // The older states did not fit: they are read for the informers that are shown.
      if (report.omitted > 0) {
        this.gaps.add(number);
        this.readUpTo.delete(number);
      }
    }
    this.onReport(report);
  }

  async takeGaps(numbers) {
    if (numbers.length === 0) return;
    const since = Math.min(...numbers.map((number) => this.readUpTo.get(number) ?? 0));
    numbers.forEach((number) => this.gaps.delete(number));
    const report = await this.ask({ number: numbers, since: since || null }).catch((error) => {
      numbers.forEach((number) => this.gaps.add(number));
      throw error;
    });
    for (const { number, timeline } of report.informers) this.merge(number, timeline);
  }

  ask(parameters) {
    return get("informers", parameters, this.controller.signal);
  }

  /// Replaces the states from the first one that was read on. A status can have brought a newer one meanwhile.
  merge(number, read) {
    if (read.length === 0) return;
    const [first, last] = [read[0].since, read.at(-1).since];
    const known = this.segments.get(number) ?? [];
    const merged = [...known.filter(({ since }) => since < first), ...read, ...known.filter(({ since }) => since > last)];
    this.segments.set(number, merged.slice(-SEGMENTS_MAX));
    this.readUpTo.set(number, last);
  }
}
