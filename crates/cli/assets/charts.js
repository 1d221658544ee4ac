// Small pictures on canvases: one element each, however much they show. Colours come from the style sheet.

import { tone } from "./format.js";

/// A canvas in the screen's own pixels, cleared; null while it has no size.
function prepare(canvas) {
  const { clientWidth: width, clientHeight: height } = canvas;
  if (width === 0 || height === 0) return null;
  const scale = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, width, height, colour: (name) => getComputedStyle(canvas).getPropertyValue(`--${name}`).trim() };
}

/// How much of the height a state takes, so that states differ in more than their colour.
const HEIGHTS = { watching: 0.5, pending: 0.2, opening: 0.3, streaming: 0.75, listing: 0.75, bad: 1 };

/// Half of the width of the mark of a reopened watch, and its height.
const MARK = { width: 4, height: 6 };

/// The states of an informer over the last `span` milliseconds. The time before the first state is `off`.
export function drawTimeline(canvas, segments, now, span) {
  const area = prepare(canvas);
  if (!area) return;
  const { context, width, height, colour } = area;
  const colours = Object.fromEntries(Object.keys(HEIGHTS).map((name) => [name, colour(`state-${name}`)]));
  const bar = (x, w, share) => context.fillRect(x, height * (1 - share), w, height * share);
  context.fillStyle = colour("state-off");
  bar(0, width, HEIGHTS.watching);
  const from = now - span;
  const reopened = [];
  segments.forEach((segment, at) => {
    const end = segments[at + 1]?.since ?? now;
    if (end < from) return;
    const x = Math.max(0, ((segment.since - from) / span) * width);
    // Keeps a short state visible.
    const w = Math.max(((end - Math.max(segment.since, from)) / span) * width, 2);
    const name = tone(segment.state);
    context.fillStyle = colours[name];
    bar(x, w, HEIGHTS[name]);
    if (segment.reason && name !== "bad") reopened.push(x);
  });
  // A triangle differs from the bars in its shape, so it needs no colour of its own. It is drawn over the bars that follow.
  context.fillStyle = colour("ink");
  for (const x of reopened) {
    context.beginPath();
    context.moveTo(x - MARK.width, 0);
    context.lineTo(x + MARK.width, 0);
    context.lineTo(x, MARK.height);
    context.fill();
    bar(x - 0.5, 1, 1);
  }
}

/// Events per second.
export function drawSpark(canvas, values) {
  const area = prepare(canvas);
  if (!area) return;
  const { context, width, height, colour } = area;
  const shown = values.slice(-60);
  // A burst, such as the initial list, must not hide the rest.
  const sorted = [...shown].sort((a, b) => a - b);
  const top = Math.max(1, 1.5 * (sorted[Math.floor(sorted.length * 0.9)] ?? 1));
  const step = width / 60;
  context.fillStyle = colour("accent");
  shown.forEach((value, at) => {
    const bar = value === 0 ? 1 : Math.min(height, Math.max(2, (value / top) * (height - 2)));
    context.globalAlpha = value === 0 ? 0.3 : 0.85;
    context.fillRect((60 - shown.length + at) * step, height - bar, Math.max(step - 1, 1), bar);
  });
  context.globalAlpha = 1;
}
