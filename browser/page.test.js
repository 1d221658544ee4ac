// The page as a visitor sees it: a real Chromium against the real program.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { PICTURES, Program, Relay, freePort, launch, openPage, recordStream, simulateVisibility, statusWithHost } from "./support.js";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const OBJECTS = Number(process.env.OBJECTS ?? 200_000);
const NODES_MAX = 2000;
const BYTES_PER_SECOND_MAX = 256_000;
/// The changes per second that the test of scale asks for, and the fewest that it accepts.
const RATE = 2000;
const RATE_MIN = 500;
const SECRET = "aHVudGVyMi1wbGFudGVk";
const LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration";

let browser;
let demo;

before(async () => {
  browser = await launch();
  demo = await Program.demo("--objects", "400", "--rate", "20");
});

after(async () => {
  await browser?.close();
  await Program.stopAll();
});

/// A page of the demo that must have had no problem when the test ends.
async function visit(t, hash = "", options = {}, url = demo.url) {
  const page = await openPage(browser, `${url}${hash}`, options);
  t.after(async () => {
    await page.context().close();
    assert.deepEqual(page.problems, []);
  });
  await page.locator('#link[data-state="live"]').waitFor();
  return page;
}

const number = async (locator) => Number((await locator.innerText()).replaceAll(",", ""));

/// Waits until a condition holds.
async function until(condition, what, limit = 20_000) {
  const end = Date.now() + limit;
  for (;;) {
    if (await condition()) return;
    if (Date.now() > end) assert.fail(`timed out waiting until ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/// The bytes of a size such as `1.5 kB`, which is rounded to at least 5 %.
function size(text) {
  const [value, unit] = text.split(" ");
  return Number(value) * 1000 ** ["B", "kB", "MB", "GB"].indexOf(unit);
}

const isNear = (shown, expected) => Math.abs(shown - expected) <= expected * 0.06;

let planted = 0;

/// A pod that the simulated cluster never changes. Returns its path.
async function plantPod(name, ownerReferences = []) {
  planted += 1;
  const spec = { nodeName: `node-${planted % 8}`, containers: [{ name: "main", image: "example/main:1" }] };
  await demo.write("POST", "/api/v1/namespaces/default/pods", { metadata: { name, annotations: { planted: "yes" }, ownerReferences }, spec });
  const path = `/api/v1/namespaces/default/pods/${name}`;
  await until(async () => (await demo.api(`objects/pods/default/${name}`)).kind === "Pod", "the pod is mirrored");
  return path;
}

const query = "#/query?kind=pods&by=status.phase&within=spec.nodeName";

/// Every view, and the selectors that have a match once it shows something.
async function views(program = demo) {
  // Not the first one, which other tests change.
  const { items } = await program.api("objects/deployments?limit=1&offset=7&column=spec.replicas");
  return {
    overview: { hash: "#/", shown: ['tbody tr[data-resource="pods"]', "tr[data-controller]", "tr[data-replica]"] },
    changes: { hash: "#/changes", shown: [".changes .row"] },
    objects: { hash: "#/objects/pods", shown: [".rows .row a"] },
    object: { hash: `#/object/deployments.apps/${items[0].namespace}/${items[0].name}`, shown: [".yaml .row", ".graph svg rect"] },
    query: { hash: query, shown: ["tbody tr", ".bars .part"] },
    demo: { hash: "#/demo", shown: ["[data-fault]", '[aria-label="Armed faults"] tbody tr', '[aria-label="Requests by client"] tbody tr'] },
  };
}

/// Opens a view and waits until it shows something, and until another status has come.
async function show(page, url, { hash, shown }) {
  await page.goto(`${url}${hash}`);
  for (const selector of shown) await page.locator(selector).first().waitFor();
  await nextStatus(page);
}

/// Waits for this many statuses of the stream: the server sends one per second.
async function nextStatus(page, count = 1) {
  const last = (await page.evaluate(() => window.kubeInformer.statuses())) + count;
  await page.waitForFunction((last) => window.kubeInformer.statuses() >= last, last);
}

/// The number of nodes of a page: elements, texts and comments.
function countNodes(page) {
  return page.evaluate(() => {
    const walker = document.createTreeWalker(document, NodeFilter.SHOW_ALL);
    let nodes = 1;
    while (walker.nextNode()) nodes += 1;
    return nodes;
  });
}

/// The serious and critical violations of accessibility on a page.
async function violations(page) {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => window.axe.run(document));
  const serious = violations.filter((violation) => ["serious", "critical"].includes(violation.impact));
  return serious.map((violation) => `${violation.id}: ${violation.nodes.map((node) => node.html.slice(0, 120)).join(" | ")}`);
}

test("the overview shows the counts of the API", async (t) => {
  const page = await visit(t);
  await until(async () => {
    const { informers } = await demo.api("informers");
    const shown = {};
    for (const row of await page.locator("tbody tr[data-resource]").all()) {
      shown[await row.getAttribute("data-resource")] = await number(row.locator("td").nth(3));
    }
    const expected = Object.fromEntries(informers.map((informer) => [informer.resource, informer.objects]));
    return JSON.stringify(shown) === JSON.stringify(expected);
  }, "the table equals the API's counts");
  assert.match(await page.locator('section[aria-label="Pipeline"] > .hint').innerText(), /revision numbers every write[^]*Events received counts/);
  const rates = page.locator("tbody tr[data-resource] .rate");
  await until(async () => (await rates.allInnerTexts()).some((text) => Number(text) > 0), "the rate of each kind is a number");
  assert.equal(await rates.count(), (await demo.api("informers")).informers.length);
});

test("the overview shows the API's estimate of decoded memory", async (t) => {
  const page = await visit(t);
  await until(async () => {
    const { informers } = await demo.api("informers");
    const expected = informers.map((informer) => informer.decodedBytesEstimate);
    const sum = expected.reduce((total, estimate) => total + estimate, 0);
    const stored = informers.reduce((total, informer) => total + informer.storedBytes, 0);
    const rows = await page.locator("tbody tr[data-resource] td:nth-child(6)").allInnerTexts();
    const tile = size(await page.locator(".tile .figure").nth(2).innerText());
    return sum > 0 && !isNear(stored, sum) && rows.length === expected.length && rows.every((text, at) => isNear(size(text), expected[at])) && isNear(tile, sum);
  }, "the tile and each row have the API's estimate");
});

test("each stage of the pipeline has the API's counter", async (t) => {
  const page = await visit(t);
  assert.deepEqual(await page.locator(".stage h3").allInnerTexts(), ["Server", "Reflector", "Queue", "Store", "Handlers"]);
  /// Revision, events, objects, and the events of the handler that has most.
  const counters = async () => {
    const [{ informers }, { revision }] = await Promise.all([demo.api("informers"), demo.api("demo")]);
    const sum = (of) => informers.reduce((total, informer) => total + of(informer), 0);
    const names = new Set(informers.flatMap((informer) => informer.handlers.map((handler) => handler.name)));
    const delivered = (name) => sum((informer) => informer.handlers.find((handler) => handler.name === name)?.delivered ?? 0);
    return [revision, sum((informer) => informer.received.events), sum((informer) => informer.objects), Math.max(...[...names].map(delivered))];
  };
  await until(async () => {
    const before = await counters();
    await nextStatus(page, 3);
    const texts = await page.locator(".stage .figure").allInnerTexts();
    const [revision, events, , objects, delivered] = texts.map((text) => Number(text.replaceAll(",", "")));
    const after = await counters();
    const moves = (shown, at) => before[at] < shown && shown <= after[at];
    return moves(revision, 0) && moves(events, 1) && isNear(objects, after[2]) && moves(delivered, 3);
  }, "every counter is between two answers of the API, and moves");
});

test("queues and counters of several informers are shown and added up", async (t) => {
  const page = await visit(t);
  // The store keeps up with the demo, so its queues are empty: the answer of the API has others.
  await page.route("**/api/v1/informers", async (route) => {
    const response = await route.fetch();
    const report = await response.json();
    report.informers.length = 2;
    report.informers.forEach((informer, at) => {
      const figures = { queued: [1234, 66][at], objects: [70, 7][at], received: { ...informer.received, events: [5000, 50][at] } };
      const handlers = [["journal", 300], ["terminal", 40]].map(([name, delivered]) => ({ ...informer.handlers[0], name, delivered: delivered + at }));
      Object.assign(informer, figures, { handlers, resourceVersion: { ...informer.resourceVersion, received: String(900 + at) } });
    });
    await route.fulfill({ response, json: report });
  });
  await page.route("**/api/v1/stream*", (route) => route.fulfill({ contentType: "text/event-stream", body: 'event: hello\ndata: {"session":"x","newest":1,"demo":false}\n\n' }));
  await page.reload();
  const queues = page.locator("tbody tr[data-resource] td:nth-child(8)");
  await until(async () => (await queues.allInnerTexts()).join() === "1,234,66", "each queue is shown");
  assert.deepEqual(await page.locator(".stage .figure").allInnerTexts(), ["901", "5,050", "1,300", "77", "601"]);
});

test("states between two statuses are read, only for the informers that are shown", async (t) => {
  // A view without timelines, which reads no informers of its own.
  const page = await visit(t, "#/query");
  await nextStatus(page, 2);
  const result = await page.evaluate(async () => {
    const { Timelines } = await import("/assets/timelines.js");
    const state = (since, state = "watching") => ({ since, state });
    const answers = [
      { omitted: 0, informers: [{ number: 0, timeline: [state(10)] }, { number: 1, timeline: [state(20), state(30)] }, { number: 2, timeline: [] }] },
      { omitted: 0, informers: [{ number: 1, timeline: [state(30), state(41, "backing off"), state(42, "opening"), state(43)] }] },
    ];
    const { fetch } = window;
    const asked = [];
    window.fetch = async (address, options) => {
      if (!address.startsWith("/api/v1/informers")) return fetch(address, options);
      asked.push([address, performance.now()]);
      return new Response(JSON.stringify(answers[asked.length - 1]));
    };
    const [segments, reads] = [new Map(), []];
    const timelines = new Timelines({ segments, shown: () => [1, 2], onReport: () => reads.push("all"), onRead: () => reads.push("read") });
    timelines.readAll();
    while (reads.length < 2) await new Promise((resolve) => setTimeout(resolve, 10));
    // Two informers have failed, and one of them is shown.
    for (const number of [0, 1]) timelines.note({ errors: 0, lists: 1 }, { number, errors: 1, lists: 1, state: state(43) });
    while (reads.length < 3) {
      timelines.check();
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    window.fetch = fetch;
    return { addresses: asked.map(([address]) => address), pause: asked[1][1] - asked[0][1], segments: [...segments.values()].map((past) => past.map(({ since }) => since)), gaps: [...timelines.gaps] };
  });
  assert.deepEqual(result.addresses, ["/api/v1/informers", "/api/v1/informers?number=1&since=30"]);
  assert.ok(result.pause >= 1900, `${result.pause} ms between two reads`);
  assert.deepEqual(result.segments, [[10, 43], [20, 30, 41, 42, 43]]);
  assert.deepEqual(result.gaps, [0]);
});

test("a reopened watch and a back-off differ in their shape, and the legend has both", async (t) => {
  for (const colorScheme of ["light", "dark"]) {
    const page = await visit(t, "", { colorScheme });
    const legend = await page.locator(".legend span").allInnerTexts();
    assert.deepEqual(legend, ["watching", "listing", "streaming a list", "opening a watch", "backing off or degraded", "a watch broke and was reopened", "not running"]);
    const shapes = await page.evaluate(async () => {
      const { drawTimeline } = await import("/assets/charts.js");
      const canvas = document.createElement("canvas");
      canvas.style.cssText = "width: 300px; height: 18px";
      document.body.append(canvas);
      const state = (since, state, reason = null) => ({ since, state, reason });
      const states = [state(100, "watching"), state(150, "backing off", "503"), state(151, "watching"), state(250, "watching", "broken")];
      drawTimeline(canvas, states, 300, 300);
      const context = canvas.getContext("2d");
      const pixel = (x, y) => context.getImageData(x, y, 1, 1).data.join();
      // Near the top and above the middle: next to the middle of the mark, and in it.
      const at = (x) => ({ top: pixel(x + 1, 1), next: pixel(x + 1, 7), besideTop: pixel(x - 2, 1), besideNext: pixel(x - 2, 7) });
      const result = { off: pixel(50, 15), watching: pixel(120, 15), card: pixel(120, 1), backoff: at(150), reopened: at(250) };
      canvas.remove();
      return result;
    });
    const { off, watching, card, backoff, reopened } = shapes;
    const text = JSON.stringify(shapes);
    assert.ok(new Set([off, watching, card]).size === 3, `time without an informer is visible: ${text}`);
    assert.ok(backoff.top !== card && backoff.top === backoff.next && backoff.besideTop === card, `a back-off is a bar: ${text}`);
    assert.ok(reopened.top === reopened.besideTop && reopened.top !== card, `the mark is wide at the top: ${text}`);
    assert.equal(reopened.besideNext, card, `the mark is narrow below: ${text}`);
    assert.notEqual(reopened.top, backoff.top, text);
  }
});

test("the skip link moves the focus to the content and keeps the view", async (t) => {
  const page = await visit(t, "#/query");
  await page.locator("tbody tr").first().waitFor();
  const focused = () => page.evaluate(() => document.activeElement.id || document.activeElement.className || document.activeElement.name);
  await page.keyboard.press("Tab");
  assert.equal(await focused(), "skip");
  const { x } = await page.locator(".skip").boundingBox();
  assert.ok(x >= 0, "the focused link is visible");
  await page.keyboard.press("Enter");
  assert.equal(await focused(), "main");
  assert.ok(page.url().endsWith("#/query"), page.url());
  await page.keyboard.press("Tab");
  assert.ok(await page.getByLabel("Kind").evaluate((kind) => kind === document.activeElement), "the next control is the view's first");
  await page.reload();
  await page.locator("tbody tr").first().waitFor();
});

test("a malformed or unknown address leads to the overview", async (t) => {
  const page = await visit(t, "#/objects/pods");
  for (const hash of ["#/object/pods/%E0", "#/constructor", "#/nothing/at/all"]) {
    await page.goto(`${demo.url}#/query`);
    await page.getByRole("heading", { level: 1, name: "Query" }).waitFor();
    await page.goto(`${demo.url}${hash}`);
    await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
    assert.equal(new URL(page.url()).hash, "#/", hash);
    assert.match(await page.title(), /^Overview/);
  }
});

test("Tab moves through the graph's links from top to bottom", async (t) => {
  await plantPod("tab-owner");
  const { uid } = (await demo.api("objects/pods/default/tab-owner")).metadata;
  const owner = { apiVersion: "v1", kind: "Pod", name: "tab-owner", uid };
  for (const name of ["tab-b", "tab-a", "tab-c"]) await plantPod(name, [owner]);
  const page = await visit(t, "#/object/pods/default/tab-owner");
  const links = page.locator(".graph a");
  await until(async () => (await links.count()) === 3, "the graph is drawn");
  const places = await links.evaluateAll((links) => links.map((link) => ({ y: link.getBoundingClientRect().y, href: link.getAttribute("href") })));
  const expected = places.sort((a, b) => a.y - b.y).map(({ href }) => href);
  await page.getByRole("region", { name: "Graph of owners" }).focus();
  const focused = () => page.evaluate(() => document.activeElement.getAttribute("href"));
  const visited = [];
  for (const _ of expected) {
    await page.keyboard.press("Tab");
    visited.push(await focused());
  }
  assert.deepEqual(visited, expected);
  // A graph that is drawn again keeps the focus.
  await plantPod("tab-0", [owner]);
  await until(async () => (await links.count()) === 4, "another object is drawn");
  assert.equal(await focused(), expected[2]);
  await page.keyboard.press("Shift+Tab");
  assert.equal(await focused(), expected[1]);
  await page.keyboard.press("Enter");
  await until(async () => page.url().endsWith(expected[1]), "Enter opens the object");
  await page.getByText("kind: Pod").first().waitFor();
});

test("the footer says what the view can change", async (t) => {
  const page = await visit(t);
  const foot = page.locator("#foot");
  for (const hash of ["#/", "#/changes", "#/query"]) {
    await page.goto(`${demo.url}${hash}`);
    await until(async () => (await foot.innerText()).startsWith("Read-only view"), `${hash} is read-only`);
  }
  await page.goto(`${demo.url}#/demo`);
  await until(async () => (await foot.innerText()).startsWith("Only the faults of the demo"), "faults can be changed");
});

test("controls have visible borders, in light and in dark", async (t) => {
  for (const colorScheme of ["light", "dark"]) {
    const page = await visit(t, "#/changes", { colorScheme });
    const contrasts = await page.evaluate(() => {
      const luminance = (colour) => {
        const parts = colour.match(/[\d.]+/g).slice(0, 3).map((part) => part / 255);
        const [r, g, b] = parts.map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      const contrast = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      const grounds = ["--card", "--paper"].map((name) => {
        const probe = document.createElement("span");
        probe.style.color = getComputedStyle(document.documentElement).getPropertyValue(name);
        document.body.append(probe);
        const { color } = getComputedStyle(probe);
        probe.remove();
        return luminance(color);
      });
      const controls = [...document.querySelectorAll("button, input, select")];
      return controls.map((control) => {
        const border = luminance(getComputedStyle(control).borderTopColor);
        return [control.textContent.slice(0, 20) || control.name, Math.min(...grounds.map((ground) => contrast(border, ground)))];
      });
    });
    assert.ok(contrasts.length >= 6, JSON.stringify(contrasts));
    for (const [name, contrast] of contrasts) assert.ok(contrast >= 3, `${name} in ${colorScheme}: ${contrast}`);
  }
});

test("changes are followed live, filtered by the server, and lead to the object", async (t) => {
  const page = await visit(t, "#/changes");
  const rows = page.locator(".changes .row");
  await until(async () => (await rows.count()) > 3, "changes come in");
  const { items } = await demo.api("objects/pods?limit=1&column=spec.nodeName");
  const { namespace, name, columns } = items[0];
  await page.getByLabel("Text").fill("browser-mark");
  await until(async () => (await rows.count()) === 0, "nothing matches yet");
  await demo.write("PATCH", `/api/v1/namespaces/${namespace}/pods/${name}`, { metadata: { labels: { mark: "browser-mark" } } });
  await until(async () => (await rows.count()) === 1, "the change that matches comes");
  assert.match(await rows.first().innerText(), new RegExp(`${name}[\\s\\S]*\\+metadata.labels.mark:\\sbrowser-mark`));
  await rows.first().click();
  const detail = page.getByRole("region", { name: "Selected change" });
  assert.match(await detail.innerText(), /metadata.labels.mark/);
  await detail.getByRole("link").click();
  await page.getByRole("heading", { level: 1, name }).waitFor();
  assert.match(page.url(), new RegExp(`#/object/pods/${namespace}/${name}$`));

  // By kind, namespace and field test.
  await page.goto(`${demo.url}#/changes`);
  await page.getByLabel("Kind").selectOption("pods");
  await page.getByLabel("Namespace").fill(namespace);
  await page.getByLabel("Field test").fill(`spec.nodeName=${columns[0]}`);
  await until(async () => {
    const texts = await rows.allInnerTexts();
    return texts.length > 0 && texts.every((text) => text.includes("pods") && text.includes(`${namespace}/`));
  }, "only changes that match are listed");
  await page.getByLabel("Field test").fill("spec..x=1");
  await until(async () => (await page.getByRole("alert").innerText()).includes("spec..x"), "the error is shown");
});

test("the list of changes can be paused and used with the keyboard", async (t) => {
  const page = await visit(t, "#/changes");
  const rows = page.locator(".changes .row");
  await until(async () => (await rows.count()) > 3, "changes come in");
  await page.getByRole("button", { name: "Pause" }).click();
  const first = await rows.first().innerText();
  assert.ok(Number((await page.locator("main > .hint").innerText()).match(/[0-9]+/)[0]) < 20, "only what came since the pause is newer");
  await until(async () => /[1-9][0-9,]* newer changes? waiting/.test(await page.locator("main > .hint").innerText()), "newer changes wait");
  assert.equal(await rows.first().innerText(), first);
  await page.getByRole("grid").focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  await page.locator('.row[aria-selected="true"][aria-rowindex="3"]').waitFor();
  const active = await page.getByRole("grid").getAttribute("aria-activedescendant");
  assert.equal(await page.locator(`#${active}`).getAttribute("aria-selected"), "true");
  assert.deepEqual(await page.getByRole("columnheader").allInnerTexts(), ["Time", "Event", "Object", "What changed"]);
  await page.getByRole("button", { name: "Resume" }).click();
  await until(async () => (await rows.first().innerText()) !== first, "it goes on");
});

test("other filters end a pause, and only changes are counted", async (t) => {
  const path = await plantPod("behind-the-pause");
  const page = await visit(t, "#/changes");
  const rows = page.locator(".changes .row");
  const note = page.locator("main > .hint");
  await until(async () => (await rows.count()) > 3, "changes come in");
  await page.getByRole("button", { name: "Pause" }).click();
  await demo.write("PATCH", path, { metadata: { labels: { mark: "one" } } });
  await page.getByLabel("Text").fill("behind-the-pause");
  await page.getByRole("button", { name: "Pause" }).waitFor();
  const names = async () => (await rows.locator(".object").allInnerTexts()).join();
  await until(async () => (await rows.count()) >= 2 && !(await names()).replaceAll("default/behind-the-pause\npods", "").replaceAll(",", ""), "only rows that match are shown");
  // Nothing else matches while the list is paused.
  await page.getByRole("button", { name: "Pause" }).click();
  await until(async () => (await note.innerText()) === "Paused; 0 newer changes waiting.", "nothing waits");
  await demo.write("PATCH", path, { metadata: { labels: { mark: "two" } } });
  await until(async () => (await note.innerText()) === "Paused; 1 newer change waiting.", "one change waits");

  // A row for changes that were left out is not a change.
  const change = (sequence) => ({ id: `x-${sequence}`, sequence, time: Date.now(), type: "ADDED", resource: "pods", kind: "Pod", namespace: "a", name: `pod-${sequence}`, differences: [], more: 0, coalesced: 1 });
  const events = ['event: hello\ndata: {"session":"x","newest":1,"demo":true}', `event: change\ndata: ${JSON.stringify(change(1))}`, 'event: skipped\ndata: {"count":5,"reason":"too many changes per second"}', `event: change\ndata: ${JSON.stringify(change(2))}`];
  let streams = 0;
  await page.route("**/api/v1/stream*", (route) => {
    streams += 1;
    // The first stream only.
    return streams === 1 ? route.fulfill({ contentType: "text/event-stream", body: `${events.join("\n\n")}\n\n` }) : route.abort();
  });
  await page.reload();
  await until(async () => (await rows.count()) === 3, "two changes and a row for those that were left out");
  assert.match(await note.innerText(), /^This tab keeps 2 changes\. 5 were left out/);
});

test("a selected change shows all its differences, and every row says what happened", async (t) => {
  const path = await plantPod("with-many-marks");
  const page = await visit(t, "#/changes");
  await page.getByLabel("Text").fill("xxxxx");
  const rows = page.locator(".changes .row");
  await until(async () => (await rows.count()) === 0, "nothing matches yet");
  const annotations = Object.fromEntries(Array.from({ length: 12 }, (_, at) => [`mark-${at}`, `many-marks-${at}-${"x".repeat(80)}`]));
  await demo.write("PATCH", path, { metadata: { annotations } });
  // A row of changes that were left out can come first; it has no differences.
  await rows.filter({ hasText: "with-many-marks" }).first().click();
  const detail = page.getByRole("region", { name: "Selected change" });
  await until(async () => (await detail.locator(".diff-table dt").count()) >= 12, "the differences that the stream left out are shown");
  const text = await detail.innerText();
  assert.ok(text.includes(`many-marks-11-${"x".repeat(80)}`) && text.includes("default"), text);
  // A narrow line breaks a path only before a dot or a bracket.
  const paths = await detail.locator(".diff-table dt").evaluateAll((terms) => terms.map((term) => ({ path: term.textContent, breaks: term.querySelectorAll("wbr").length })));
  for (const { path, breaks } of paths) assert.equal(breaks, path.slice(1).match(/[.[]/g)?.length ?? 0, path);
  assert.match(await rows.filter({ hasText: "with-many-marks" }).first().innerText(), /^\d\d:\d\d:\d\d\.\d\d\d/);
  await page.getByLabel("Text").fill("");
  const seen = new Set();
  await until(async () => {
    for (const text of await rows.allInnerTexts()) {
      if (/ADDED[^]*new object/.test(text)) seen.add("added");
      if (/DELETED[^]*object deleted/.test(text)) seen.add("deleted");
    }
    return seen.size === 2;
  }, "pods come and go");
});

test("a long path leaves space for its value in a row", async (t) => {
  const page = await visit(t);
  const [paths, row] = await page.evaluate(async () => {
    const { rowText, shortPath } = await import("/assets/format.js");
    const long = "status.conditions[Available].reason";
    const paths = ["spec.replicas", "status.conditions[Ready].status", long, "metadata.annotations.kubectl.kubernetes.io/last-applied-configuration", "metadata.deletionGracePeriodSeconds", "x".repeat(50), `a.b.${"x".repeat(50)}`];
    const differences = [{ path: long, before: "A", after: "B" }, { path: "a", after: "B: C" }, { path: "b", before: "D" }];
    return [paths.map(shortPath), rowText({ differences, more: 1 })];
  });
  assert.deepEqual(paths, ["spec.replicas", "status.conditions[Ready].status", "status…[Available].reason", "metadata….io/last-applied-configuration", "metadata.deletionGracePeriodSeconds", `${"x".repeat(31)}…`, `a…${"x".repeat(32)}`]);
  assert.equal(row, "status…\u2060[Available].reason:\u00a0A → B, +a:\u00a0B: C, -\u2060b:\u00a0D, 1 more field");
});

test("a change of many fields adds few nodes", async (t) => {
  const path = await plantPod("with-hundreds-of-marks");
  const page = await visit(t, "#/changes");
  await page.getByLabel("Text").fill("with-hundreds-of-marks");
  const rows = page.locator(".changes .row");
  const isFiltered = async () => (await rows.count()) > 0 && (await rows.allInnerTexts()).every((text) => text.includes("with-hundreds-of-marks"));
  await until(isFiltered, "only the pod's changes are listed");
  const annotations = Object.fromEntries(Array.from({ length: 480 }, (_, at) => [`mark.example.com/${at}`, `value-${at}`]));
  await demo.write("PATCH", path, { metadata: { annotations } });
  await page.locator('.changes .row:has-text("MODIFIED")').first().click();
  const rest = page.locator(".diff-rest");
  await until(async () => (await rest.innerText().catch(() => "")).split("\n").length > 400, "all differences are shown");
  const nodes = await countNodes(page);
  assert.ok(nodes <= NODES_MAX, `${nodes} nodes`);
});

test("a history says since when it is complete", async (t) => {
  const path = await plantPod("with-a-history");
  const page = await visit(t, "#/object/pods/default/with-a-history");
  const history = page.getByRole("region", { name: "History", exact: true });
  await until(async () => (await history.innerText()).includes("History since the start"), "nothing is missing");
  for (let at = 0; at < 40; at += 1) await demo.write("PATCH", path, { metadata: { annotations: { at: `turn-${at}` } } });
  const expected = /History since \d\d:\d\d:\d\d[^]*→ turn-39[^]*32 changes\. Older changes are no longer recorded\./;
  await until(async () => expected.test(await history.innerText()), "the heading says since when");
});

test("an open object is read again without any event of the stream", async (t) => {
  const { items } = await demo.api("objects/deployments?limit=1&column=spec.replicas");
  const { namespace, name } = items[0];
  const hash = `#/object/deployments.apps/${namespace}/${name}`;
  const page = await openPage(browser, demo.url);
  t.after(() => page.context().close());
  await page.route("**/api/v1/stream*", (route) => route.abort());
  await page.goto(`${demo.url}${hash}`);
  await page.reload();
  await page.getByText("kind: Deployment").first().waitFor();
  await demo.write("PATCH", `/apis/apps/v1/namespaces/${namespace}/deployments/${name}`, { metadata: { labels: { unseen: "yes" } } });
  await page.getByText("unseen:").first().waitFor();
  // The graph follows the owned objects.
  const owner = (await demo.api(`objects/deployments/${namespace}/${name}`)).metadata;
  const ownerReferences = [{ apiVersion: "apps/v1", kind: "Deployment", name, uid: owner.uid, controller: true }];
  const selector = { matchLabels: { app: "planted" } };
  const template = { metadata: { labels: { app: "planted" } }, spec: { containers: [{ name: "main", image: "example/main:1" }] } };
  await demo.write("POST", `/apis/apps/v1/namespaces/${namespace}/replicasets`, { metadata: { name: "planted", ownerReferences }, spec: { replicas: 0, selector, template } });
  await page.locator(".graph svg text", { hasText: "planted" }).waitFor();
  await demo.write("DELETE", `/apis/apps/v1/namespaces/${namespace}/replicasets/planted`, {});
});

test("skipped changes make an open object be read again", async (t) => {
  const { items } = await demo.api("objects/pods?limit=1&column=spec.nodeName");
  const page = await openPage(browser, demo.url);
  t.after(() => page.context().close());
  const events = ['event: hello\ndata: {"session":"x","newest":1,"demo":true}', 'event: skipped\ndata: {"count":5,"reason":"too many changes per second"}'];
  await page.route("**/api/v1/stream*", (route) => route.fulfill({ contentType: "text/event-stream", body: `${events.join("\n\n")}\n\n` }));
  let reads = 0;
  page.on("request", (request) => { if (request.url().includes("/api/v1/objects/pods/")) reads += 1; });
  await page.goto(`${demo.url}#/object/pods/${items[0].namespace}/${items[0].name}`);
  await page.reload();
  // It is also read every four seconds, which is not enough for this.
  await until(async () => reads >= 5, "the object is read again", 12_000);
});

test("markup in metadata stays text", async (t) => {
  const path = await plantPod("with-markup");
  const markup = '<img src=x onerror="window.broken = true">';
  const page = await visit(t, "#/object/pods/default/with-markup");
  await page.getByText("kind: Pod").first().waitFor();
  // The server restricts the characters of labels, but not of annotations.
  await demo.write("PATCH", path, { metadata: { annotations: { markup } } });
  await page.getByText("onerror=").first().waitFor();
  await page.goto(`${demo.url}#/changes`);
  await page.getByLabel("Text").fill("onerror");
  const rows = page.locator(".changes .row");
  await until(async () => (await rows.count()) === 1 && (await rows.innerText()).includes("<img src=x"), "only the change that matches is listed");
  await rows.click();
  const detail = page.getByRole("region", { name: "Selected change" });
  await until(async () => (await detail.innerText()).includes("<img src=x onerror="), "the markup is shown as text");
  await page.goto(`${demo.url}#/query?kind=pods&by=metadata.annotations.markup`);
  await page.locator("tbody td", { hasText: "<img src=x" }).waitFor();
  assert.equal(await page.locator("main img").count(), 0);
  assert.equal(await page.evaluate(() => window.broken), undefined);
});

test("an object shows its YAML, graph, history and indexes", async (t) => {
  const { items } = await demo.api("objects/deployments?limit=1&column=spec.replicas");
  const { namespace, name } = items[0];
  const page = await visit(t, `#/object/deployments.apps/${namespace}/${name}`);
  await page.getByText("kind: Deployment").first().waitFor();
  const boxes = page.locator(".graph svg rect");
  await until(async () => (await boxes.count()) >= 3, "the graph is drawn");
  // The demo changes the object, too, and only the last change is highlighted.
  let writes = 0;
  const isHighlighted = async (labels, lines) => {
    const values = Object.fromEntries(labels.map((label) => [label, `seen-${writes}`]));
    if (writes % 20 === 0) await demo.write("PATCH", `/apis/apps/v1/namespaces/${namespace}/deployments/${name}`, { metadata: { labels: values } });
    writes += 1;
    const texts = await page.locator('.yaml .row[data-changed="true"]').allInnerTexts();
    return texts.filter((text) => text.includes(": seen-")).length === lines;
  };
  await until(() => isHighlighted(["mark"], 1), "the change is highlighted");
  // More fields than a summary shows.
  const many = Array.from({ length: 12 }, (_, at) => `mark-${at}`);
  writes = 0;
  await until(() => isHighlighted(many, 12), "every field of the change is highlighted");
  const note = page.locator('[aria-label="State"] .list-note');
  assert.match(await note.innerText(), /^resourceVersion \d+; highlighted lines changed last$/);
  const [ends, begins] = await page.evaluate(() => [document.querySelector(".list-note").getBoundingClientRect().bottom, document.querySelector(".yaml").getBoundingClientRect().top]);
  assert.equal(ends, begins, "the note is directly above the lines");
  assert.match(await page.getByRole("region", { name: "History", exact: true }).innerText(), /\+metadata.labels.mark: seen-0/);
  await page.locator(".graph a").first().click();
  await until(async () => !page.url().endsWith(`/${name}`), "a box leads to another object");
  await page.getByText("kind: ReplicaSet").first().waitFor();
  const pods = await demo.api("objects/pods?limit=1&column=spec.nodeName");
  await page.goto(`${demo.url}#/object/pods/${pods.items[0].namespace}/${pods.items[0].name}`);
  await until(async () => (await page.getByRole("region", { name: "Indexes" }).innerText()).includes(pods.items[0].columns[0]), "the index is shown");
});

test("only the fields that changed are highlighted", async (t) => {
  const container = "container-with-a-name-of-more-than-forty-characters";
  const labels = { app: "api", "app.kubernetes.io/name": "api" };
  const spec = { containers: [{ name: container, image: "example/main:1" }, { name: "other", image: "example/other:1" }] };
  await demo.write("POST", "/api/v1/namespaces/default/pods", { metadata: { name: "similar-names", labels }, spec });
  const path = "/api/v1/namespaces/default/pods/similar-names";
  const page = await visit(t, "#/object/pods/default/similar-names");
  const highlighted = async () => (await page.locator('.yaml .row[data-changed="true"]').allInnerTexts()).map((text) => text.replace(/^\d+\s*(- )?/, "").trim());
  await demo.write("PATCH", path, { metadata: { labels: { app: "web" } } });
  await until(async () => (await highlighted()).join() === "app: web", "a label with a similar name is not highlighted");
  const containers = [{ ...spec.containers[0], image: "example/main:2" }, spec.containers[1]];
  await demo.write("PATCH", path, { spec: { containers } });
  await until(async () => (await highlighted()).join() === "image: example/main:2", "an element with a long name is highlighted");
});

test("the list of objects is filtered and scrolled", async (t) => {
  const page = await visit(t, "#/objects/pods");
  const names = page.locator(".rows .row a");
  await until(async () => (await names.count()) > 5 && !(await names.first().innerText()).includes("…"), "pods are listed");
  const total = (await demo.api("counts/pods")).objects;
  await until(async () => {
    const shown = Number((await page.locator("main > .hint").innerText()).match(/^([0-9,]+) objects/)?.[1].replaceAll(",", ""));
    return Math.abs(shown - total) < 20;
  }, "the number of pods is shown");
  await page.getByLabel("Text").fill("worker");
  await until(async () => (await names.allInnerTexts()).every((text) => text.includes("worker")), "only matches are listed");
  // Arrow keys move the active row, Enter opens it.
  await page.getByRole("grid").focus();
  for (const key of ["ArrowDown", "ArrowDown", "ArrowUp", "End", "Home"]) await page.keyboard.press(key);
  await page.locator('.row[aria-selected="true"][aria-rowindex="2"]').waitFor();
  // Other pods may be gone when they are opened.
  const stays = "worker-that-stays";
  await plantPod(stays);
  const opensBy = async (open) => {
    await page.getByLabel("Text").fill(stays);
    await until(async () => (await names.allInnerTexts()).join() === stays, "only the pod that stays is listed");
    await open();
    await page.getByText("kind: Pod").first().waitFor();
    assert.ok(page.url().endsWith(`/${stays}`), page.url());
    await page.goBack();
  };
  await opensBy(async () => {
    await page.getByRole("grid").focus();
    for (const key of ["Home", "Enter"]) await page.keyboard.press(key);
  });
  await opensBy(() => names.first().click());
});

/// Holds responses to these requests back. Returns their number, and a function that lets the page receive them.
async function hold(page, pattern) {
  const held = [];
  let release;
  const released = new Promise((resolve) => { release = resolve; });
  await page.route(pattern, async (route) => {
    const response = await route.fetch();
    // The page may have given up the request.
    held.push(released.then(() => route.fulfill({ response }).catch(() => {})));
  });
  const deliver = async () => {
    release();
    await Promise.all(held);
    // A response that the page takes is drawn within two frames.
    await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
  };
  return [() => held.length, deliver];
}

test("a list that is cut off says which of its rows are visible", async (t) => {
  await plantPod("with-a-long-state");
  const annotations = Object.fromEntries(Array.from({ length: 200 }, (_, at) => [`mark-${at}`, "x"]));
  await demo.write("PATCH", "/api/v1/namespaces/default/pods/with-a-long-state", { metadata: { annotations } });
  const page = await visit(t, "#/object/pods/default/with-a-long-state");
  const range = page.locator(".range");
  const [whole, first] = [/^Lines 1–(\d+) of (\d\d\d)$/, async () => (await range.innerText()).match(whole)];
  await until(async () => (await first()) !== null, "the first lines are visible");
  const [, last, total] = await first();
  const rows = page.locator(".yaml");
  const fitting = await rows.evaluate((rows) => Math.floor(rows.clientHeight / rows.querySelector(".row").offsetHeight));
  assert.equal(Number(last), fitting);
  await rows.evaluate((rows) => rows.scrollTo(0, rows.scrollHeight));
  await until(async () => (await range.innerText()) === `Lines ${total - fitting + 1}–${total} of ${total}`, "the last lines are visible");
  await page.goto(`${demo.url}#/objects/pods`);
  await until(async () => /^Rows 1–\d+ of \d+$/.test(await range.innerText()), "the first rows are visible");
  await page.goto(`${demo.url}#/objects/nodes`);
  await until(async () => (await page.locator("main > .hint").innerText()).startsWith("8 objects"), "all nodes fit");
  assert.equal(await range.isVisible(), false);
});

test("the last row of a list that is higher than an element can be is at its end", async (t) => {
  const page = await visit(t);
  const shown = await page.evaluate(async () => {
    const { Rows } = await import("/assets/rows.js");
    const render = (row, index) => (row.element.textContent = String(index));
    const rows = new Rows({ label: "many", share: 0.5, heightMax: 400, rowHeight: 34, create: () => [], render });
    document.body.append(rows.element);
    rows.setCount(1_000_000);
    const frame = () => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
    await frame();
    rows.element.scrollTop = 1e9;
    await frame();
    const within = rows.element.getBoundingClientRect();
    const visible = rows.pool.filter(({ element }) => {
      const { top, bottom } = element.getBoundingClientRect();
      return top >= within.top - 1 && bottom <= within.bottom + 1;
    });
    return visible.map(({ index }) => index);
  });
  assert.equal(shown.at(-1), 999_999, shown.join(" "));
  assert.ok(shown.length > 5, shown.join(" "));
});

test("a late response to earlier filters does not replace later rows", async (t) => {
  for (const name of ["late-and-slow", "late-and-fast"]) await plantPod(name);
  const page = await visit(t, "#/objects/pods");
  const [held, deliver] = await hold(page, "**/api/v1/objects/pods?*text=late-and-slow*");
  const names = page.locator(".rows .row a");
  await page.getByLabel("Text").fill("late-and-slow");
  await until(async () => held() > 0, "the first response is held back");
  await page.getByLabel("Text").fill("late-and-fast");
  await until(async () => (await names.allInnerTexts()).join() === "late-and-fast", "the second response is shown");
  await deliver();
  assert.equal((await names.allInnerTexts()).join(), "late-and-fast");
});

test("a refused filter leaves no rows and is not requested again", async (t) => {
  const page = await visit(t, "#/objects/pods");
  const names = page.locator(".rows .row a");
  await until(async () => (await names.count()) > 5 && !(await names.first().innerText()).includes("…"), "pods are listed");
  let requests = 0;
  page.on("request", (request) => { if (request.url().includes("/api/v1/objects/pods?")) requests += 1; });
  const asked = page.waitForResponse((response) => response.url().includes("field=spec..x"));
  await page.getByLabel("Field test").fill("spec..x=1");
  await asked;
  await until(async () => (await page.getByRole("alert").innerText()).includes("spec..x"), "the error is shown");
  await until(async () => (await names.count()) === 0, "no row is left");
  // Each status draws the rows again, and the list is read every four seconds.
  requests = 0;
  await nextStatus(page, 6);
  assert.equal(requests, 0);
  // Other filters are requested. A list without rows is read again, too: objects can appear.
  await page.getByLabel("Field test").fill("");
  await page.getByLabel("Text").fill("appears-later");
  await until(async () => (await page.locator("main > .hint").innerText()).startsWith("0 objects"), "nothing matches");
  assert.equal(await page.getByRole("alert").count(), 0, "the error is gone");
  await plantPod("appears-later");
  await until(async () => (await names.allInnerTexts()).join() === "appears-later", "the new pod is listed");
});

test("a late response to an earlier query does not replace a later one", async (t) => {
  const page = await visit(t, "#/query?kind=pods&by=spec.nodeName");
  const head = page.locator("thead th").first();
  await head.waitFor();
  const [held, deliver] = await hold(page, "**/api/v1/counts/pods?by=metadata.namespace&*");
  const ask = async (path) => {
    await page.getByLabel("Count by field").fill(path);
    await page.getByRole("button", { name: "Count" }).click();
  };
  await ask("metadata.namespace");
  await until(async () => held() > 0, "the first response is held back");
  await ask("status.phase");
  await until(async () => (await head.innerText()).toLowerCase() === "status.phase", "the second response is shown");
  await deliver();
  assert.equal((await head.innerText()).toLowerCase(), "status.phase");
});

test("the list of objects shows ages and readable titles", async (t) => {
  const page = await visit(t, "#/objects/pods");
  await page.locator(".rows .row .state").first().waitFor();
  assert.deepEqual(await page.getByRole("columnheader").allInnerTexts(), ["Namespace", "Name", "Phase", "Node", "Age"]);
  await until(async () => /^\d+[smh]/.test(await page.locator(".rows .row > :last-child").first().innerText()), "an age is shown");
  const [grid, row] = await page.evaluate(() => [document.querySelector(".rows").clientHeight - document.querySelector(".row-head").offsetHeight, document.querySelector(".row").offsetHeight]);
  assert.equal(grid % row, 0, "no row is cut off at the bottom");
  await page.getByLabel("Text").fill("no such pod");
  await until(async () => (await page.locator("main > .hint").innerText()).startsWith("0 objects"), "nothing matches");
});

test("a query is shown as a table and a chart", async (t) => {
  const page = await visit(t, query);
  const rows = page.locator("tbody tr");
  await until(async () => (await rows.count()) > 3, "groups are shown");
  const shown = await page.locator("tbody tr td:last-child").allInnerTexts();
  const objects = (await demo.api("counts/pods")).objects;
  const sum = shown.reduce((total, text) => total + Number(text.replaceAll(",", "")), 0);
  assert.ok(Math.abs(sum - objects) < 10, `${sum} of ${objects}`);
  assert.ok((await page.locator(".bars .part").count()) > 3);
  // Phases have the colours of the list of objects: green, amber and red.
  const tints = Object.fromEntries(await page.locator(".series li").evaluateAll((entries) => entries.map((entry) => [entry.textContent, entry.firstChild.className])));
  assert.equal(tints.Running, "swatch tint-good", JSON.stringify(tints));
  for (const [phase, tint] of [["Succeeded", "done"], ["Pending", "wait"], ["Failed", "bad"]]) {
    if (phase in tints) assert.equal(tints[phase], `swatch tint-${tint}`, phase);
  }
  assert.equal(new Set(Object.values(tints)).size, Object.keys(tints).length, JSON.stringify(tints));
  await page.getByLabel("Count by field").fill("spec..x");
  await page.getByRole("button", { name: "Count" }).click();
  await until(async () => (await page.getByRole("alert").innerText()).includes("spec..x"), "the error is shown");
});

test("a query says what it leaves out", async (t) => {
  const page = await visit(t, "#/query?kind=pods&by=metadata.namespace&within=spec.nodeName");
  await page.locator("tbody tr").first().waitFor();
  const heads = await page.locator("thead th").allInnerTexts();
  assert.equal(heads.length, 9, `a label, 6 series, the rest and the total: ${heads}`);
  assert.match(heads[7], /^other \(\d\)$/);
  for (const row of await page.locator("tbody tr").all()) {
    const cells = (await row.locator("td").allInnerTexts()).slice(1).map((text) => Number(text.replaceAll(",", "")));
    assert.equal(cells.slice(0, -1).reduce((sum, cell) => sum + cell, 0), cells.at(-1), "the columns add up");
  }
  const note = page.locator("main > .hint");
  assert.doesNotMatch(await note.innerText(), /are shown/, "8 rows are all of them, whatever the number of groups");
  const heights = await page.evaluate(() => ["Chart", "Table"].map((name) => document.querySelector(`section[aria-label="${name}"]`).offsetHeight));
  assert.equal(heights[0], heights[1]);
  await page.goto(`${demo.url}#/query?kind=pods&by=metadata.name`);
  await page.reload();
  await until(async () => /The 40 largest of [0-9]+ rows are shown/.test(await note.innerText()), "rows that are left out are counted");
  // A large answer is cut off by the server.
  await page.route("**/api/v1/counts/**", async (route) => {
    const response = await route.fetch();
    const counts = await response.json();
    await route.fulfill({ response, json: { ...counts, omitted: 7000 } });
  });
  await page.getByRole("button", { name: "Count" }).click();
  await until(async () => (await note.innerText()).includes("totals lack 7,000 objects"), "the note says that totals are too low");
});

test("back-off is shown with its reason, and ends", async (t) => {
  const page = await visit(t, "#/demo");
  const fault = page.locator('[data-fault="unavailable"]');
  await fault.click();
  await until(async () => (await fault.getAttribute("aria-checked")) === "true", "the fault is armed");
  await page.goto(`${demo.url}#/`);
  const reads = [];
  page.on("request", (request) => { if (new URL(request.url()).pathname === "/api/v1/informers") reads.push(request.url()); });
  const pods = page.locator('tr[data-resource="pods"]');
  await until(async () => (await pods.innerText()).includes("backing off"), "the informer backs off");
  assert.match(await pods.locator(".reason").innerText(), /503/);
  const [shown, needed, line] = await pods.locator(".reason").evaluate((reason) => [reason.clientHeight, reason.scrollHeight, parseFloat(getComputedStyle(reason).lineHeight)]);
  assert.ok(shown >= needed - 1 || shown >= 2 * Math.floor(line), `two lines of the reason are shown: ${shown} of ${needed}`);
  const [width, available] = await page.locator(".scroll-x").first().evaluate((table) => [table.scrollWidth, table.clientWidth]);
  assert.ok(width <= available, `the table fits next to the reasons: ${width} of ${available}`);
  // The reasons can be reached with the keyboard.
  const errors = pods.getByRole("button", { name: /errors? of pods/ });
  await errors.focus();
  await page.keyboard.press("Enter");
  await until(async () => (await page.locator(".reasons:visible li").allInnerTexts()).some((text) => text.includes("503")), "the reasons are listed");
  await page.keyboard.press("Enter");
  await until(async () => (await page.locator(".reasons:visible").count()) === 0, "the list is closed");
  await page.goto(`${demo.url}#/demo`);
  await fault.click();
  await until(async () => (await fault.getAttribute("aria-checked")) === "false", "the fault is disarmed");
  await page.goto(`${demo.url}#/`);
  await until(async () => (await pods.innerText()).includes("watching"), "the informer recovers", 40_000);
  // Only the states of the rows are read, and not all informers.
  await until(() => reads.length > 0, "the states in between are read");
  for (const read of reads) assert.ok(read.includes("?number="), read);
});

test("back-off under --chaos is shown with its reason, and its faults are listed", async (t) => {
  const chaotic = await Program.demo("--objects", "100", "--rate", "5", "--chaos");
  const page = await visit(t, "#/demo", {}, chaotic.url);
  const armed = page.locator('[aria-label="Armed faults"] tbody tr');
  await until(async () => (await armed.allInnerTexts()).some((text) => /^(delay of 1s|429 Too Many Requests)\s+watch\s+--chaos\s+\d/.test(text)), "a fault of --chaos is listed", 40_000);
  assert.equal(await page.locator('[role="switch"][aria-checked="true"]').count(), 0, "no switch is on");
  await page.goto(`${chaotic.url}#/`);
  const rows = page.locator("tbody tr[data-resource]");
  await until(async () => {
    const labels = await rows.locator(".timeline").evaluateAll((canvases) => canvases.map((canvas) => canvas.getAttribute("aria-label")));
    return labels.length > 0 && labels.every((label) => /[1-9]\d* interruptions? in the recorded past/.test(label));
  }, "every timeline has interruptions");
  // Only three watches are answered with 429, so some informers have no such error.
  await until(async () => {
    for (const button of await rows.getByRole("button", { name: /errors? of/ }).all()) {
      await button.click();
      const reasons = await page.locator(".reasons:visible li").allInnerTexts();
      if (reasons.some((text) => /backing off[^]*429/.test(text))) return true;
    }
    return false;
  }, "an informer backs off because of 429", 40_000);
  const pods = page.locator('tr[data-resource="pods"]');
  await until(async () => (await pods.innerText()).includes("watching"), "the informer recovers");
  await chaotic.stop();
});

test("armed faults are listed with the requests that they affect", async (t) => {
  const page = await visit(t, "#/demo");
  const armed = page.locator('[aria-label="Armed faults"] tbody tr');
  await until(async () => (await armed.allInnerTexts()).join() === "No fault is armed.", "no fault is armed");
  const fault = page.locator('[data-fault="expired"]');
  await fault.click();
  await until(async () => /^410 Expired\s+watch\s+switch\s+[1-9]/.test((await armed.allInnerTexts()).join()), "the fault of the switch is listed");
  await fault.click();
  await until(async () => (await armed.allInnerTexts()).join() === "No fault is armed.", "the fault is disarmed");
});

test("the clock is that of the server", async (t) => {
  const page = await visit(t, "#/demo", { timezoneId: "UTC" });
  const pod = { metadata: { generateName: "now-" }, spec: { nodeName: "node-0", containers: [{ name: "main", image: "example/main:1" }] } };
  const { metadata } = await demo.write("POST", "/api/v1/namespaces/default/pods", pod);
  const shown = page.locator('[aria-label="Clock"] dd').first();
  const time = async () => Date.parse((await shown.innerText()).replace(" UTC", "Z").replace(" ", "T"));
  await until(async () => (await time()) >= Date.parse(metadata.creationTimestamp), "the clock has passed the creation of the pod");
  const earlier = await time();
  assert.ok(earlier <= Date.now() && earlier > Date.now() - 10_000, new Date(earlier).toISOString());
  await until(async () => (await time()) > earlier, "the clock moves");
});

test("the card of the server counts the simulated changes", async (t) => {
  const page = await visit(t, "#/demo");
  const titles = await page.locator('[aria-label="Clock"] dt').allInnerTexts();
  assert.deepEqual(titles, ["Clock", "Running for", "Revision", "Simulated changes"]);
  const changes = async () => (await demo.api("demo")).simulatedChanges;
  const before = await changes();
  await nextStatus(page, 3);
  const shown = await number(page.locator('[aria-label="Clock"] dd').last());
  assert.ok(before < shown && shown <= (await changes()), `${before} ${shown}`);
});

test("the overview shows reconciles, failures and the lag per handler", async (t) => {
  const page = await visit(t, "#/demo");
  const fault = page.locator('[data-fault="failing"]');
  await fault.click();
  await until(async () => (await fault.getAttribute("aria-checked")) === "true", "the fault is armed");
  await page.goto(`${demo.url}#/`);
  const figure = (name) => page.locator(`tr[data-controller="availability"] [data-figure="${name}"]`);
  await figure("failures").waitFor();
  await until(async () => (await number(figure("failures"))) > 0, "reconciles fail");
  await page.goto(`${demo.url}#/demo`);
  await fault.click();
  await page.goto(`${demo.url}#/`);
  const failures = await number(figure("failures"));
  const successes = async () => (await number(figure("reconciles"))) - (await number(figure("failures")));
  const earlier = await successes();
  await until(async () => (await successes()) > earlier + 5, "reconciles succeed again");
  assert.ok((await number(figure("retries"))) > 0 && failures > 0);
  assert.match(await page.locator('tr[data-resource="pods"] .handlers').innerText(), /^journal \d+, terminal \d+$/);
  const { controllers } = await demo.api("informers");
  assert.deepEqual(controllers.map((controller) => controller.name), ["availability"]);
});

test("the overview shows the slots of each replica, and a hand-over", async (t) => {
  const page = await visit(t);
  const replicas = ["replica-1", "replica-2", "replica-3"];
  const figure = (replica, name) => page.locator(`tr[data-replica="${replica}"] [data-figure="${name}"]`);
  const slots = () => Promise.all(replicas.map((replica) => number(figure(replica, "slots"))));
  const isShared = (slots, owners) => slots.reduce((sum, owned) => sum + owned, 0) === 64 && slots.every((owned, at) => owned > 0 === owners[at]);
  await figure("replica-3", "slots").waitFor();
  await until(async () => isShared(await slots(), [true, true, true]), "each replica has slots");
  assert.equal(await number(figure("replica-1", "members")), 3);
  assert.match(await figure("replica-1", "unownedSeconds").innerText(), /^\d+\.\d s$/);
  assert.match(await page.locator('section[aria-label="Replicas"] .hint').innerText(), /divided into slots[^]*Leases[^]*Gained[^]*Released[^]*including those on which it had not begun to work[^]*Lost[^]*Time unowned/);
  await page.goto(`${demo.url}#/demo`);
  const stop = page.locator('[data-fault="replica"]');
  await stop.click();
  await until(async () => (await stop.getAttribute("aria-checked")) === "true", "the replica is stopped");
  assert.match(await stop.innerText(), /Stop replica-3[^]*on$/);
  await page.goto(`${demo.url}#/`);
  await until(async () => isShared(await slots(), [true, true, false]), "the others have its slots");
  assert.ok((await number(figure("replica-3", "released"))) > 0);
  await page.goto(`${demo.url}#/demo`);
  await stop.click();
  await page.goto(`${demo.url}#/`);
  await until(async () => isShared(await slots(), [true, true, true]), "each replica has slots again");
  const serve = await Program.serve("pods", "-A", "--port", "0", "--kubeconfig", demo.kubeconfig);
  const other = await visit(t, "", {}, serve.url);
  await until(async () => (await number(other.locator(".tile .figure").first())) > 0, "objects are shown");
  for (const name of ["Controllers", "Replicas"]) assert.equal(await other.locator(`section[aria-label="${name}"]`).isVisible(), false, `serve runs none: ${name}`);
  await serve.stop();
});

test("the page survives a restart of the program", async (t) => {
  const port = await freePort();
  const arguments_ = ["pods", "-A", "--port", String(port), "--kubeconfig", demo.kubeconfig];
  let serve = await Program.serve(...arguments_);
  const page = await visit(t, "", {}, serve.url);
  const objects = page.locator(".tile .figure").first();
  await until(async () => (await number(objects)) > 0, "objects are shown");
  await serve.stop();
  await page.locator('#link[data-state="offline"]').waitFor();
  serve = await Program.serve(...arguments_);
  await page.locator('#link[data-state="live"]').waitFor();
  const { informers } = await serve.api("informers");
  await until(async () => Math.abs((await number(objects)) - informers[0].objects) < 20, "the counts are shown again");
  await page.goto(`${serve.url}#/changes`);
  await until(async () => (await page.locator("main > .hint").innerText()).includes("was restarted"), "it says that changes may be missing");
  await serve.stop();
});

test("a program that is restarted with other kinds is shown as it is", async (t) => {
  const port = await freePort();
  const serves = (...kinds) => Program.serve(...kinds, "-A", "--port", String(port), "--kubeconfig", demo.kubeconfig);
  let serve = await serves("pods", "nodes");
  const page = await visit(t, "", {}, serve.url);
  const other = await visit(t, "#/objects/pods", {}, serve.url);
  const rows = page.locator("tbody tr[data-resource]");
  await until(async () => (await rows.count()) === 2, "both kinds are shown");
  const kinds = () => other.getByLabel("Kind").locator("option").allInnerTexts();
  await until(async () => (await kinds()).join() === "pods,nodes", "both kinds can be chosen");
  await serve.stop();
  await page.locator('#link[data-state="offline"]').waitFor();
  serve = await serves("deployments");
  await page.locator('#link[data-state="live"]').waitFor();
  const { informers } = await serve.api("informers");
  await until(async () => (await rows.count()) === 1 && (await rows.getByRole("link").innerText()) === "deployments.apps", "only the new kind is shown");
  await until(async () => Math.abs((await number(rows.locator("td").nth(3))) - informers[0].objects) < 20, "its objects are counted");
  await until(async () => (await kinds()).join() === "deployments.apps", "the new kind can be chosen");
  await serve.stop();
});

test("with 200 kinds the overview stays small, and every kind has its rate", async (t) => {
  const KINDS = 200;
  const directory = mkdtempSync(join(tmpdir(), "kube-informer-browser-"));
  const kubeconfig = join(directory, "kubeconfig");
  const server = await Program.apiserver(await freePort(), kubeconfig);
  const create = (path, object) => server.write("POST", path, object);
  const plural = (at) => `kind${String(at).padStart(3, "0")}s`;
  for (let at = 0; at < KINDS; at += 1) {
    const schema = { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } };
    const names = { plural: plural(at), singular: plural(at).slice(0, -1), kind: `Kind${at}` };
    await create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", { metadata: { name: `${plural(at)}.example.com` }, spec: { group: "example.com", scope: "Namespaced", names, versions: [{ name: "v1", served: true, storage: true, schema }] } });
  }
  const kinds = Array.from({ length: KINDS }, (_, at) => `${plural(at)}.example.com`);
  const serve = await Program.serve(kinds.join(), "-A", "--port", "0", "--kubeconfig", kubeconfig);
  const page = await visit(t, "", {}, serve.url);
  const rows = page.locator("tbody tr[data-resource]");
  await until(async () => (await page.locator(".tile .note").first().innerText()) === "200 kinds", "all kinds are counted");
  const seen = [];
  for (;;) {
    const shown = await rows.evaluateAll((rows) => rows.map((row) => row.dataset.resource));
    seen.push(...shown);
    await nextStatus(page);
    const nodes = await countNodes(page);
    assert.ok(nodes <= NODES_MAX, `${nodes} nodes with ${shown.length} rows`);
    const next = page.getByRole("button", { name: "Next kinds" });
    if (await next.isDisabled()) break;
    await next.click();
    await until(async () => (await rows.first().getAttribute("data-resource")) !== shown[0], "the next page is shown");
  }
  assert.deepEqual(seen, kinds);
  assert.match(await page.locator(".pager").innerText(), /Kinds 161–200 of 200/);
  assert.deepEqual(await violations(page), []);
  // All kinds change in the same second: a status has only some of their other figures.
  const object = (at, name) => create(`/apis/example.com/v1/namespaces/default/${plural(at)}`, { apiVersion: "example.com/v1", kind: `Kind${at}`, metadata: { name } });
  await page.evaluate(() => {
    window.active = new Set();
    const look = () => document.querySelectorAll("tbody tr[data-resource]").forEach((row) => Number(row.querySelector(".rate").textContent) > 0 && window.active.add(row.dataset.resource));
    new MutationObserver(look).observe(document.querySelector("tbody"), { subtree: true, childList: true, characterData: true });
  });
  await Promise.all(kinds.map((_, at) => object(at, "one")));
  await until(async () => (await page.evaluate(() => window.active.size)) === 40, "every kind of this page shows its event");
  await serve.stop();
  await server.stop();
  rmSync(directory, { recursive: true, force: true });
});

test("a connection that breaks loses no change", async (t) => {
  const path = await plantPod("with-a-broken-connection");
  const relay = await Relay.start(demo.url);
  const page = await visit(t, "#/changes", {}, relay.url);
  await page.getByLabel("Text").fill("broken-mark");
  const rows = page.locator(".changes .row");
  const mark = (at) => demo.write("PATCH", path, { metadata: { annotations: { mark: `broken-mark-${at}` } } });
  const marks = async () => (await rows.allInnerTexts()).map((text) => text.match(/broken-mark-\d+$/)[0]).join();
  await until(async () => (await rows.count()) === 0, "nothing matches yet");
  await mark(0);
  await until(async () => (await marks()) === "broken-mark-0", "the stream is open");
  await page.evaluate(() => { window.isSame = true; });
  relay.sever();
  await page.locator('#link[data-state="offline"]').waitFor();
  for (const at of [1, 2, 3]) await mark(at);
  relay.restore();
  await page.locator('#link[data-state="live"]').waitFor();
  await mark(4);
  await until(async () => (await marks()).startsWith("broken-mark-4"), "the stream goes on");
  assert.equal(await marks(), [4, 3, 2, 1, 0].map((at) => `broken-mark-${at}`).join(), "each change once, and in order");
  assert.equal(await page.evaluate(() => window.isSame), true, "the page was not loaded again");
  await relay.stop();
});

test("a silent stream is given up, even before its response begins", async (t) => {
  const relay = await Relay.start(demo.url);
  const page = await visit(t, "", {}, relay.url);
  relay.silence();
  await page.locator('#link[data-state="offline"]').waitFor();
  // The next request gets no response.
  let requests = 0;
  await page.route("**/api/v1/stream*", (route) => {
    requests += 1;
    return requests === 1 ? null : route.continue();
  });
  relay.sever();
  relay.restore();
  await page.locator('#link[data-state="live"]').waitFor();
  assert.ok(requests > 1);
  await nextStatus(page, 2);
  await relay.stop();
});

test("seven tabs of one browser work, because hidden ones have no stream", async (t) => {
  const names = Array.from({ length: 7 }, (_, at) => `tab-${at}-of-seven`);
  for (const name of names) await plantPod(name);
  const first = await visit(t, `#/object/pods/default/${names[0]}`);
  const context = first.context();
  await simulateVisibility(context);
  await first.reload();
  await first.getByText("kind: Pod").first().waitFor();
  await first.locator('#link[data-state="live"]').waitFor();
  let shown = first;
  for (const name of names.slice(1)) {
    const next = await context.newPage();
    await next.goto(`${demo.url}?hidden#/object/pods/default/${name}`);
    await next.locator('#link[data-state="paused"]').waitFor();
    await shown.evaluate(() => window.show(false));
    shown = next;
    await shown.evaluate(() => window.show(true));
    await shown.getByText("kind: Pod").first().waitFor();
    await shown.locator('#link[data-state="live"]').waitFor();
  }
  // A tab that is shown again receives what it missed.
  assert.equal(await first.locator("#link").getAttribute("data-state"), "paused");
  await demo.write("PATCH", `/api/v1/namespaces/default/pods/${names[0]}`, { metadata: { annotations: { missed: "while-hidden" } } });
  await shown.evaluate(() => window.show(false));
  await first.evaluate(() => window.show(true));
  await first.locator('#link[data-state="live"]').waitFor();
  await first.getByText("while-hidden").first().waitFor();
});

test("a tab that was hidden says why changes are left out", async (t) => {
  const page = await visit(t, "#/changes");
  await simulateVisibility(page.context());
  await page.reload();
  const rows = page.locator(".changes .row");
  await until(async () => (await rows.count()) > 3, "changes come in");
  await page.evaluate(() => window.show(false));
  await page.locator('#link[data-state="paused"]').waitFor();
  const { revision } = await demo.api("demo");
  await until(async () => (await demo.api("demo")).revision > revision + 400, "many changes are missed", 60_000);
  await page.evaluate(() => window.show(true));
  await page.locator('#link[data-state="live"]').waitFor();
  await until(async () => (await page.locator("main > .hint").innerText()).includes("left out"), "changes are left out");
  await page.getByRole("button", { name: "Pause" }).click();
  await until(async () => {
    // The row is below the changes that followed.
    await page.locator(".changes .rows").evaluate((list) => { list.scrollTop += 200; });
    return (await rows.allInnerTexts()).some((text) => text.includes("changes were left out: this tab was hidden"));
  }, "the row says why");
});

test("the page follows a restart of the API server", async (t) => {
  const directory = mkdtempSync(join(tmpdir(), "kube-informer-browser-"));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  const [port, kubeconfig] = [await freePort(), join(directory, "kubeconfig")];
  const createPod = (server, name) => server.write("POST", "/api/v1/namespaces/default/pods", { metadata: { name }, spec: { containers: [{ name: "main", image: "example/main:1" }] } });
  let server = await Program.apiserver(port, kubeconfig);
  for (const name of ["a", "b", "c"]) await createPod(server, name);
  const serve = await Program.serve("pods", "-A", "--port", "0", "--kubeconfig", kubeconfig);
  const page = await visit(t, "", {}, serve.url);
  const pods = page.locator('tr[data-resource="pods"]');
  const objects = pods.locator("td").nth(3);
  await until(async () => (await pods.innerText()).includes("watching") && (await number(objects)) === 3, "the pods are watched");
  await server.stop();
  await until(async () => (await pods.innerText()).includes("backing off") && (await pods.locator(".reason").innerText()) !== "", "the informer backs off with a reason");
  assert.equal(await number(objects), 3, "the last state stays readable");
  // The new server has lost all objects, and its resourceVersions start again.
  server = await Program.apiserver(port, kubeconfig);
  await createPod(server, "d");
  await until(async () => (await pods.innerText()).includes("watching") && (await number(objects)) === 1, "the new pod is watched", 60_000);
  await createPod(server, "e");
  await until(async () => (await number(objects)) === 2, "changes are followed again");
  assert.equal(await page.locator("#link").getAttribute("data-state"), "live");
  await serve.stop();
  await server.stop();
});

test("values of Secrets are shown in no view and no answer", async (t) => {
  const annotations = { [LAST_APPLIED]: JSON.stringify({ data: { pw: SECRET } }) };
  await demo.write("POST", "/api/v1/namespaces/default/secrets", { metadata: { name: "planted", annotations }, data: { pw: SECRET } });
  await demo.write("POST", "/api/v1/namespaces/default/configmaps", { metadata: { name: "planted", annotations }, data: { colour: "blue" } });
  const serve = await Program.serve("secrets,configmaps,pods", "-A", "--port", "0", "--kubeconfig", demo.kubeconfig);
  const page = await visit(t, "#/object/secrets/default/planted", {}, serve.url);
  const bodies = [];
  page.on("response", async (response) => bodies.push(await response.text().catch(() => "")));
  const stream = await recordStream(page);
  await page.reload();
  await page.getByText("***").first().waitFor();
  const texts = [await page.locator("body").innerText()];
  await demo.write("PATCH", "/api/v1/namespaces/default/secrets/planted", { data: { pw: "bmV3LWh1bnRlcg==" } });
  const history = page.getByRole("region", { name: "History", exact: true });
  await until(async () => (await history.innerText()).includes("data.pw: *** → ***"), "the change is shown, masked");
  // kubectl's copy is masked in objects of any kind.
  await page.goto(`${serve.url}#/object/configmaps/default/planted`);
  await page.getByText("colour: blue").waitFor();
  assert.match(await page.locator(".yaml").innerText(), /last-applied-configuration: "\*\*\*"/);
  await demo.write("PATCH", "/api/v1/namespaces/default/configmaps/planted", { metadata: { annotations: { [LAST_APPLIED]: "bmV3LWh1bnRlcg" } } });
  await until(async () => /last-applied-configuration: \*\*\* → \*\*\*/.test(await history.innerText()), "the change is shown, masked");
  texts.push(await page.locator("body").innerText());
  const masked = [
    { hash: "#/objects/secrets", shown: [".rows .row a"] },
    { hash: "#/changes", shown: [".changes .row"] },
    { hash: "#/query?kind=secrets&by=type", shown: ["tbody tr"] },
  ];
  for (const view of masked) {
    await show(page, serve.url, view);
    if (view.hash === "#/changes") {
      for (const kind of ["secrets", "configmaps"]) {
        await page.getByLabel("Kind").selectOption(kind);
        await page.locator(`.changes .row:has-text("${kind}")`).first().click();
        await page.getByRole("region", { name: "Selected change" }).getByText("***").first().waitFor();
      }
    }
    texts.push(await page.locator("body").innerText());
  }
  await page.goto(`${serve.url}#/query?kind=secrets&by=data.pw`);
  await until(async () => (await page.getByRole("alert").innerText()).includes("masked"), "grouping by a value is refused");
  assert.ok(["event: hello", "data.pw", "last-applied-configuration", "***"].every((part) => stream().includes(part)), "the stream is recorded");
  for (const text of [...texts, ...bodies, stream()]) {
    for (const value of [SECRET, "bmV3LWh1bnRlcg"]) {
      const at = text.indexOf(value);
      assert.ok(at < 0, text.slice(Math.max(at - 200, 0), at + 50));
    }
  }
  await serve.stop();
});

test("a foreign Host is refused", async () => {
  assert.equal(await statusWithHost(demo.url, "evil.example"), 403);
  const rebound = await launch("--host-resolver-rules=MAP evil.example 127.0.0.1");
  const page = await rebound.newPage();
  const response = await page.goto(demo.url.replace("127.0.0.1", "evil.example"));
  assert.equal(response.status(), 403);
  await rebound.close();
});

test("with a token the page asks for it", async (t) => {
  const serve = await Program.serve("pods", "-A", "--port", "0", "--token", "right", "--kubeconfig", demo.kubeconfig);
  const page = await openPage(browser, serve.url);
  t.after(() => page.context().close());
  assert.equal(await page.getByRole("alert").count(), 0);
  await page.getByLabel("Token").fill("wrong");
  await page.getByRole("button", { name: "Continue" }).click();
  await until(async () => (await page.getByRole("alert").allInnerTexts()).join().includes("rejected this token"), "a wrong token is reported");
  // A header cannot carry this one.
  await page.getByLabel("Token").fill("žeton");
  await page.getByRole("button", { name: "Continue" }).click();
  await until(async () => (await page.getByRole("alert").allInnerTexts()).join().includes("only ASCII"), "an impossible token is reported");
  // Other views need the token, too.
  for (const view of ["Objects", "Changes", "Overview"]) {
    await page.getByRole("link", { name: view, exact: true }).click();
    assert.equal(await page.getByLabel("Token").inputValue(), "žeton", view);
  }
  await page.getByLabel("Token").fill("right");
  await page.getByRole("button", { name: "Continue" }).click();
  await page.locator('#link[data-state="live"]').waitFor();
  await until(async () => (await number(page.locator(".tile .figure").first())) > 0, "objects are shown");
  await serve.stop();
});

test("a back-off in one of several namespaces is shown", async (t) => {
  const serve = await Program.serve("pods", "-n", "shop,search", "--port", "0", "--kubeconfig", demo.kubeconfig);
  const page = await visit(t, "", {}, serve.url);
  const pods = page.locator('tr[data-resource="pods"]');
  await until(async () => (await pods.innerText()).includes("watching"), "both are watched");
  // The answer of the API for one namespace that backs off; tests of the program produce it with a fault.
  await page.route("**/api/v1/informers", async (route) => {
    const response = await route.fetch();
    const report = await response.json();
    report.informers[0].state = { state: "backing off", since: Date.now(), reason: "503 planted", namespace: "search" };
    report.informers[0].scopes = { count: 2, watching: 1 };
    await route.fulfill({ response, json: report });
  });
  await page.route("**/api/v1/stream*", (route) => route.fulfill({ contentType: "text/event-stream", body: 'event: hello\ndata: {"session":"x","newest":1,"demo":false}\n\n' }));
  await page.reload();
  await until(async () => (await pods.innerText()).includes("backing off (1 of 2 namespaces)"), "the state is that of the worst namespace");
  assert.equal(await pods.locator(".reason").innerText(), "search: 503 planted");
  await serve.stop();
});

test("no view has a serious accessibility violation, in light and in dark", async (t) => {
  for (const colorScheme of ["light", "dark"]) {
    const page = await visit(t, "", { colorScheme });
    for (const [name, view] of Object.entries(await views())) {
      await show(page, demo.url, view);
      assert.deepEqual(await violations(page), [], `${name} in ${colorScheme}`);
    }
    // An open list of errors, and a back-off with its reason.
    await demo.api("demo/faults/unavailable", { method: "PUT" });
    await page.goto(`${demo.url}#/`);
    const pods = page.locator('tr[data-resource="pods"]');
    await until(async () => (await pods.locator(".reason").innerText()).includes("503"), "the informer backs off");
    await pods.getByRole("button", { name: /errors? of pods/ }).click();
    await page.locator(".reasons:visible li").first().waitFor();
    assert.deepEqual(await violations(page), [], `the list of errors in ${colorScheme}`);
    await demo.api("demo/faults/unavailable", { method: "DELETE" });
    await until(async () => (await pods.innerText()).includes("watching"), "the informer recovers", 40_000);
  }
});

test("the form for the token has no serious accessibility violation", async (t) => {
  const serve = await Program.serve("pods", "-A", "--port", "0", "--token", "right", "--kubeconfig", demo.kubeconfig);
  for (const colorScheme of ["light", "dark"]) {
    const page = await openPage(browser, serve.url, { colorScheme });
    t.after(() => page.context().close());
    await page.getByLabel("Token").waitFor();
    assert.deepEqual(await violations(page), [], `the form in ${colorScheme}`);
    await page.getByLabel("Token").fill("wrong");
    await page.getByRole("button", { name: "Continue" }).click();
    await page.getByRole("alert").waitFor();
    assert.deepEqual(await violations(page), [], `a rejected token in ${colorScheme}`);
  }
  await serve.stop();
});

test("pictures of every view", async (t) => {
  const fresh = await Program.demo("--objects", "400", "--rate", "20");
  const pages = {};
  for (const colorScheme of ["light", "dark"]) pages[colorScheme] = await visit(t, "", { colorScheme, deviceScaleFactor: 1 }, fresh.url);
  await interrupt(fresh, pages.light);
  for (const [name, view] of Object.entries(await views(fresh))) {
    // The controller writes nothing while it cannot watch.
    if (name === "demo") for (const fault of ["failing", "overloaded"]) await armUntilItFires(fresh, fault);
    for (const [colorScheme, page] of Object.entries(pages)) {
      await show(page, fresh.url, view);
      await posed[name]?.(page);
      await page.mouse.move(0, 0);
      const take = () => page.screenshot({ path: join(PICTURES, `${name}-${colorScheme}.png`), fullPage: true, animations: "disabled" });
      if (name in takers) await until(() => takers[name](page, take), `the picture of ${name} shows what it should`, 60_000);
      else await take();
    }
  }
  await fresh.stop();
});

/// Prepares views for their picture.
const posed = {
  overview: async (page) => {
    await until(() => isWatching(page), "every informer watches", 60_000);
    await until(() => hasSlots(page), "every replica has slots", 60_000);
  },
  changes: async (page) => {
    await selectForPicture(page);
    await until(async () => /^Paused; [1-9]/.test(await page.locator("main > .hint").innerText()), "a newer change waits");
  },
};

/// Views whose picture can show too little: each takes it, and returns whether it is good.
const takers = { object: takeWithLastChange, objects: takeMixedPods };

async function armUntilItFires(program, fault) {
  await program.api(`demo/faults/${fault}`, { method: "PUT" });
  await until(async () => (await program.api("demo")).faults.some(({ name, fired }) => name === fault && fired > 0), `${fault} affects requests`);
}

/// Lets a fresh demo run for a while, with a short back-off and a broken connection on the way.
async function interrupt(program, page) {
  const fault = (name, method) => program.api(`demo/faults/${name}`, { method });
  await until(() => hasSlots(page), "every replica has slots", 60_000);
  await nextStatus(page, 20);
  await fault("unavailable", "PUT");
  const backsOff = ({ timeline }) => timeline.some(({ state }) => state === "backing off");
  await until(async () => (await program.api("informers")).informers.every(backsOff), "every informer backs off");
  await fault("unavailable", "DELETE");
  await until(() => isWatching(page), "every informer watches", 60_000);
  await nextStatus(page, 20);
  await fault("disconnect", "PUT");
  await nextStatus(page, 20);
}

/// Takes a picture of pods in several namespaces and phases; returns whether they are in the picture.
async function takeMixedPods(page, take) {
  for (const app of ["worker", "queue", "cache", "web", "gateway", "api"]) {
    await page.getByLabel("Text").fill(app);
    await page.getByLabel("Text").blur();
    await until(async () => (await visiblePods(page)).every(([, name]) => name.startsWith(`${app}-`)), "only these pods are listed");
    if (!(await isMixed(page))) continue;
    await take();
    if (await isMixed(page)) return true;
  }
  return false;
}

async function isMixed(page) {
  const pods = await visiblePods(page);
  const [namespaces, phases] = [0, 2].map((column) => new Set(pods.map((cells) => cells[column])));
  return namespaces.size >= 3 && phases.size >= 3;
}

/// The cells of the rows that are visible in full.
function visiblePods(page) {
  return page.evaluate(() => {
    const list = document.querySelector(".rows").getBoundingClientRect();
    const rows = [...document.querySelectorAll(".rows .row")].filter((row) => row.getBoundingClientRect().bottom <= list.bottom + 1);
    return rows.map((row) => [...row.children].map((cell) => cell.textContent));
  });
}

/// Takes a picture of an object's last change; returns whether it is in the picture. The browser resizes a page that it takes
/// completely, which can scroll the list.
async function takeWithLastChange(page, take) {
  await page.getByRole("button", { name: "Show the last change" }).click();
  await page.mouse.move(0, 0);
  if (!(await showsLastChange(page))) return false;
  await take();
  return showsLastChange(page);
}

function showsLastChange(page) {
  return page.evaluate(() => {
    const { top, bottom } = document.querySelector(".yaml").getBoundingClientRect();
    const rows = [...document.querySelectorAll('.yaml .row[data-changed="true"]')].map((row) => row.getBoundingClientRect());
    return rows.some((row) => row.top >= top && row.bottom <= bottom);
  });
}

/// Whether every informer of the overview watches.
async function isWatching(page) {
  const states = await page.locator("tbody tr[data-resource] .state").allInnerTexts();
  return states.length > 0 && states.every((state) => state === "watching");
}

/// Whether every replica of the overview has slots.
async function hasSlots(page) {
  const slots = await page.locator('tr[data-replica] [data-figure="slots"]').allInnerTexts();
  return slots.length > 0 && slots.every((number) => Number(number) > 0);
}

/// Selects a change with several differences, of which none is cut off, in a list that no longer moves. Rows outside of the visible
/// part are reused while the list is scrolled, so only a visible one is clicked.
async function selectForPicture(page) {
  await page.getByRole("button", { name: "Pause" }).click();
  const place = await page.evaluate(() => {
    const list = document.querySelector(".changes .rows").getBoundingClientRect();
    const rows = [...document.querySelectorAll(".changes .row")].map((row) => ({ text: row.innerText, box: row.getBoundingClientRect() }));
    const visible = rows.filter(({ box }) => box.top > list.top + 40 && box.bottom < list.bottom);
    const { box } = visible.find(({ text }) => /MODIFIED[^]*deployments[^]*→[^]*→/.test(text) && !text.includes("…")) ?? visible.find(({ text }) => text.includes("→"));
    return { x: box.left + 100, y: box.top + box.height / 2 };
  });
  await page.mouse.click(place.x, place.y);
  await page.locator('.row[aria-selected="true"]').waitFor();
  await page.locator(".diff-table dt").first().waitFor();
}

test("requests are counted by client and verb", async (t) => {
  const page = await visit(t, "#/demo");
  for (let at = 0; at < 3; at += 1) await fetch(new URL("/api/v1/namespaces/default/configmaps", demo.server), { headers: { "user-agent": "browser-test/1" } });
  const table = page.getByRole("region", { name: "Requests by client" });
  await until(async () => (await table.locator("tbody tr", { hasText: "browser-test/1" }).allInnerTexts()).some((text) => /^browser-test\/1\s+list\s+3$/.test(text)), "requests of a new client are shown");
  const counts = async () => Object.fromEntries((await demo.api("demo")).clients.map(({ name, verb, requests }) => [`${name} ${verb ?? "discovery"}`, requests]));
  const earlier = await counts();
  await nextStatus(page, 2);
  const rows = await table.locator("tbody tr").evaluateAll((rows) => rows.map((row) => [...row.cells].map((cell) => cell.innerText)));
  const later = await counts();
  const shown = Object.fromEntries(rows.map(([client, verb, requests]) => [`${client} ${verb}`, Number(requests.replaceAll(",", ""))]));
  for (const [client, requests] of Object.entries(shown)) {
    assert.ok((earlier[client] ?? 0) <= requests && requests <= later[client], `${client}: ${earlier[client]}, ${requests}, ${later[client]}`);
  }
  const clients = rows.map(([client]) => client).filter((client, at, all) => client !== all[at - 1]);
  assert.equal(new Set(clients).size, clients.length, `the rows of a client follow each other: ${clients}`);
  const { informers } = await demo.api("informers");
  assert.ok(shown["informers watch"] >= informers.length, JSON.stringify(shown));
  assert.ok(shown["cluster create"] > 0 && shown["controller patch"] > 0, JSON.stringify(shown));
});

test("the theme button chooses a theme, and the page keeps it", async (t) => {
  const page = await visit(t, "", { colorScheme: "dark" });
  const button = page.getByRole("button", { name: /^Theme: / });
  const look = () => page.evaluate(() => [document.documentElement.dataset.theme, getComputedStyle(document.body).backgroundColor]);
  const colours = {};
  for (const [choice, theme] of [["system", "dark"], ["light", "light"], ["dark", "dark"]]) {
    assert.equal(await button.innerText(), `Theme: ${choice}`);
    const [shown, colour] = await look();
    assert.equal(shown, theme, choice);
    assert.equal((colours[theme] ??= colour), colour, choice);
    await button.click();
  }
  assert.notEqual(colours.light, colours.dark);
  // The system's theme can change while the page is open.
  assert.equal(await button.innerText(), "Theme: system");
  await page.emulateMedia({ colorScheme: "light" });
  await until(async () => (await look())[0] === "light", "the page follows the system");
  await button.click();
  await button.click();
  await page.reload();
  await page.locator('#link[data-state="live"]').waitFor();
  assert.equal(await button.innerText(), "Theme: dark");
  assert.deepEqual(await look(), ["dark", colours.dark]);
});

test("the page works if the browser blocks site data", async (t) => {
  const serve = await Program.serve("pods", "-A", "--port", "0", "--token", "right", "--kubeconfig", demo.kubeconfig);
  const page = await openPage(browser, serve.url, { colorScheme: "dark" });
  t.after(() => page.context().close());
  await page.addInitScript(() => {
    for (const area of ["localStorage", "sessionStorage"]) {
      Object.defineProperty(window, area, { get: () => { throw new DOMException("site data is blocked", "SecurityError"); } });
    }
  });
  await page.reload();
  await page.getByLabel("Token").fill("right");
  await page.getByRole("button", { name: "Continue" }).click();
  await page.locator('#link[data-state="live"]').waitFor();
  await until(async () => (await number(page.locator(".tile .figure").first())) > 0, "objects are shown");
  const button = page.getByRole("button", { name: /^Theme: / });
  await button.click();
  assert.equal(await button.innerText(), "Theme: light");
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "light");
  assert.deepEqual(page.problems, []);
  await serve.stop();
});

test("every view fits on a phone", async (t) => {
  const phone = await visit(t, "", { viewport: { width: 390, height: 844 } });
  for (const [name, view] of Object.entries(await views())) {
    await show(phone, demo.url, view);
    const width = await phone.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(width <= 390, `${name} is ${width} pixels wide on a phone`);
  }
});

test(`with ${OBJECTS} objects it stays small and smooth`, async (t) => {
  const large = await Program.demo("--objects", String(OBJECTS), "--rate", String(RATE));
  const page = await visit(t, "", {}, large.url);
  /// The events that the informers have received.
  const received = async () => (await large.api("informers")).informers.reduce((sum, informer) => sum + informer.received.events, 0);
  const frames = () =>
    page.evaluate(async () => {
      const times = [];
      let last = performance.now();
      for (let at = 0; at < 120; at += 1) {
        await new Promise((resolve) => requestAnimationFrame(resolve));
        const now = performance.now();
        times.push(now - last);
        last = now;
        const rows = document.querySelector(".rows");
        if (rows) rows.scrollTop += 400;
      }
      times.sort((a, b) => a - b);
      return { median: times[60], p95: times[114], longest: times[119] };
    });
  const report = {};
  const { items } = await large.api("objects/deployments?limit=1&column=spec.replicas");
  const object = `#/object/deployments.apps/${items[0].namespace}/${items[0].name}`;
  const selectors = { "#/": "tr[data-controller]", "#/changes": ".changes .row", "#/objects/pods": ".rows .row a", [object]: ".graph svg rect", [query]: "tbody tr" };
  const beginning = { events: await received(), time: Date.now() };
  for (const [view, selector] of Object.entries(selectors)) {
    await show(page, large.url, { hash: view, shown: [selector] });
    const before = await page.evaluate(() => window.kubeInformer.streamBytes());
    const started = Date.now();
    const frame = await frames();
    await nextStatus(page, 3);
    const bytes = (await page.evaluate(() => window.kubeInformer.streamBytes())) - before;
    const perSecond = Math.round((bytes / (Date.now() - started)) * 1000);
    const nodes = await countNodes(page);
    report[view] = { nodes, perSecond, frame };
    assert.ok(nodes <= NODES_MAX, `${view}: ${nodes} nodes`);
    assert.ok(perSecond <= BYTES_PER_SECOND_MAX, `${view}: ${perSecond} bytes per second`);
  }
  const rate = Math.round((((await received()) - beginning.events) / (Date.now() - beginning.time)) * 1000);
  console.log(`${rate} changes per second, of ${RATE} that were asked for`);
  for (const [view, { nodes, perSecond, frame }] of Object.entries(report)) {
    const milliseconds = (value) => `${value.toFixed(1)} ms`;
    console.log(`${view}: ${nodes} nodes, ${perSecond} bytes per second, frames: median ${milliseconds(frame.median)}, p95 ${milliseconds(frame.p95)}, longest ${milliseconds(frame.longest)}`);
  }
  assert.ok(rate >= RATE_MIN, `only ${rate} changes per second`);
  await large.stop();
});
