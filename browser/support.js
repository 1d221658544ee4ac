// Starts the program and a browser, and cleans up after a test.

import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import http from "node:http";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const PROGRAM = process.env.KUBE_INFORMER_PROGRAM;
export const PICTURES = process.env.PICTURES;
/// How long the program may take to say that it is ready: a large cluster takes a while to be made.
const START_TIME_MAX = 240_000;

const running = new Set();

/// A run of the program.
export class Program {
  static async start(args, mark) {
    const child = spawn(PROGRAM, args, { stdio: ["ignore", "pipe", "pipe"] });
    const program = new Program(child);
    running.add(program);
    program.lines = [];
    const errors = [];
    child.stderr.on("data", (data) => errors.push(data.toString()));
    const line = await new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`no "${mark}" in ${program.lines.join("\n")}`)), START_TIME_MAX);
      createInterface(child.stdout).on("line", (text) => {
        program.lines.push(text);
        if (text.includes(mark)) {
          clearTimeout(timer);
          resolve(text);
        }
      });
      child.on("exit", (code) => reject(new Error(`it ended with ${code}: ${errors.join("")}`)));
    });
    program.line = line;
    return program;
  }

  constructor(child) {
    this.child = child;
    this.ended = new Promise((resolve) => child.on("exit", resolve));
  }

  /// The demo, with a kubeconfig that other programs can use.
  static async demo(...args) {
    const directory = mkdtempSync(join(tmpdir(), "kube-informer-browser-"));
    const kubeconfig = join(directory, "kubeconfig");
    const program = await Program.start(["demo", "--quiet", "--write-kubeconfig", kubeconfig, ...args], "mirrored in");
    program.directory = directory;
    program.kubeconfig = kubeconfig;
    program.url = program.lines.find((text) => text.startsWith("page: ")).slice(6);
    program.server = readFileSync(kubeconfig, "utf8").match(/server: ['"]?([^'"\s]+)/)[1];
    return program;
  }

  /// An API server on a port of the caller's choice. Its objects are lost when it ends.
  static async apiserver(port, kubeconfig) {
    const program = await Program.start(["apiserver", "--port", String(port), "--write-kubeconfig", kubeconfig], "serving on");
    program.server = `http://127.0.0.1:${port}`;
    return program;
  }

  static async serve(...args) {
    const program = await Program.start(["serve", ...args], "mirroring");
    program.url = program.line.match(/http:\/\/\S+\//)[0];
    return program;
  }

  /// An answer of the program's API.
  async api(path, options) {
    const response = await fetch(new URL(`/api/v1/${path}`, this.url), options);
    return response.json();
  }

  /// Writes to the API server.
  async write(method, path, object) {
    const type = method === "PATCH" ? "application/merge-patch+json" : "application/json";
    const response = await fetch(new URL(path, this.server), { method, headers: { "content-type": type }, body: JSON.stringify(object) });
    if (!response.ok) throw new Error(`${method} ${path}: ${await response.text()}`);
    return response.json();
  }

  async stop() {
    running.delete(this);
    this.child.kill("SIGINT");
    const late = setTimeout(() => this.child.kill("SIGKILL"), 10_000);
    await this.ended;
    clearTimeout(late);
    if (this.directory) rmSync(this.directory, { recursive: true, force: true });
  }

  static async stopAll() {
    await Promise.all([...running].map((program) => program.stop()));
  }
}

/// Relays connections to a program. A test can break or silence them while the program runs.
export class Relay {
  static async start(url) {
    const relay = new Relay(Number(new URL(url).port));
    await new Promise((resolve) => relay.server.listen(0, "127.0.0.1", resolve));
    relay.url = `http://127.0.0.1:${relay.server.address().port}/`;
    running.add(relay);
    return relay;
  }

  constructor(port) {
    this.mode = "open";
    this.clients = new Set();
    /// The program's end of each connection that works.
    this.upstreams = new Map();
    this.server = createServer((client) => this.accept(client, port));
  }

  accept(client, port) {
    client.on("error", () => client.destroy());
    if (this.mode === "broken") return client.destroy();
    this.clients.add(client);
    client.on("close", () => {
      this.clients.delete(client);
      this.upstreams.delete(client);
    });
    if (this.mode === "silent") return;
    const upstream = connect(port, "127.0.0.1");
    client.pipe(upstream).pipe(client);
    upstream.on("error", () => upstream.destroy());
    upstream.on("close", () => this.upstreams.has(client) && client.destroy());
    client.on("close", () => upstream.destroy());
    this.upstreams.set(client, upstream);
  }

  /// Ends all connections and refuses new ones.
  sever() {
    this.mode = "broken";
    for (const client of this.clients) client.destroy();
  }

  /// Nothing passes through any connection, and none ends, as if packets were lost.
  silence() {
    this.mode = "silent";
    for (const [client, upstream] of this.upstreams) {
      client.unpipe(upstream);
      upstream.unpipe(client);
    }
    this.upstreams.clear();
  }

  /// New connections work; silent ones stay silent.
  restore() {
    this.mode = "open";
  }

  async stop() {
    running.delete(this);
    this.sever();
    await new Promise((resolve) => this.server.close(resolve));
  }
}

export async function launch(...args) {
  return chromium.launch({
    executablePath: process.env.CHROMIUM,
    args: ["--no-sandbox", "--disable-dev-shm-usage", "--force-color-profile=srgb", ...args],
  });
}

/// A page that fails its test if the browser reports an error, or if it asks for anything from elsewhere.
export async function openPage(browser, url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, ...options });
  const page = await context.newPage();
  page.problems = [];
  page.bodies = [];
  const origin = new URL(url).origin;
  page.on("request", (request) => {
    if (new URL(request.url()).origin !== origin) page.problems.push(`a request to ${request.url()}`);
  });
  page.on("pageerror", (error) => page.problems.push(String(error)));
  page.on("console", (message) => {
    // A refused or broken request is part of some tests; the page shows it.
    if (message.type() === "error" && !message.text().includes("Failed to load resource")) page.problems.push(message.text());
  });
  await page.goto(url);
  return page;
}

/// Adds `show(isShown)` to the pages of this context: it hides or shows a page, because the browser of a test never hides one.
/// With `?hidden` a page begins like a tab that was opened in the background.
export async function simulateVisibility(context) {
  await context.addInitScript(() => {
    let hidden = location.search === "?hidden";
    Object.defineProperty(document, "hidden", { get: () => hidden });
    window.show = (isShown) => {
      hidden = !isShown;
      document.dispatchEvent(new Event("visibilitychange"));
    };
  });
}

/// Records the event streams that a page opens from now on; the result returns what has arrived. A response's body is available
/// only at its end, which a stream does not have.
export async function recordStream(page) {
  const session = await page.context().newCDPSession(page);
  const streams = new Map();
  const add = (id, data) => streams.get(id)?.push(Buffer.from(data ?? "", "base64"));
  session.on("Network.responseReceived", async ({ requestId, response }) => {
    if (!response.url.includes("/api/v1/stream")) return;
    streams.set(requestId, []);
    // A stream that has ended meanwhile cannot be recorded.
    const { bufferedData } = await session.send("Network.streamResourceContent", { requestId }).catch(() => ({}));
    streams.get(requestId).unshift(Buffer.from(bufferedData ?? "", "base64"));
  });
  session.on("Network.dataReceived", ({ requestId, data }) => add(requestId, data));
  await session.send("Network.enable");
  return () => [...streams.values()].map((parts) => Buffer.concat(parts).toString()).join("");
}

/// A free port, for a program that is started twice on it.
export async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/// The status of a request with any Host.
export function statusWithHost(url, host) {
  return new Promise((resolve, reject) => {
    http.get(url, { headers: { host } }, (response) => {
      response.resume();
      resolve(response.statusCode);
    }).on("error", reject);
  });
}
