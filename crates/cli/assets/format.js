// Numbers, sizes and times as people read them.

const whole = new Intl.NumberFormat("en");
const UNITS = ["B", "kB", "MB", "GB", "TB"];
/// Longest path that a row of changes shows in full, and the longest part of any path.
const PATH_CHARS_MAX = 32;

export function count(number) {
  return number === null || number === undefined ? "–" : whole.format(number);
}

/// `1 change`, `2 changes`.
export function counted(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}

export function bytes(number) {
  if (number === null || number === undefined) return "–";
  let unit = 0;
  let value = number;
  while (value >= 1000 && unit < UNITS.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${UNITS[unit]}`;
}

/// The sum of one member of several objects.
export function total(objects, name) {
  return objects.reduce((sum, object) => sum + (object[name] ?? 0), 0);
}

const two = (number) => String(number).padStart(2, "0");

export function clock(milliseconds) {
  const date = new Date(milliseconds);
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/// With milliseconds, because many changes can happen within a second.
export function preciseClock(milliseconds) {
  return `${clock(milliseconds)}.${String(Math.floor(milliseconds % 1000)).padStart(3, "0")}`;
}

/// Date, time and zone: `2030-01-31 23:59:59 UTC+01:00`.
export function dateTime(milliseconds) {
  const date = new Date(milliseconds);
  const offset = -date.getTimezoneOffset();
  const zone = offset === 0 ? "" : `${offset < 0 ? "-" : "+"}${two(Math.floor(Math.abs(offset) / 60))}:${two(Math.abs(offset) % 60)}`;
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${clock(milliseconds)} UTC${zone}`;
}

/// The time, with its date if that is not today.
export function clockOrDate(milliseconds) {
  const isToday = new Date(milliseconds).toDateString() === new Date().toDateString();
  return isToday ? clock(milliseconds) : dateTime(milliseconds);
}

export function duration(seconds) {
  if (seconds < 60) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}

/// The age of an object, as kubectl prints it: `45s`, `3m10s`, `5h`, `12d`.
export function age(milliseconds) {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  const [minutes, hours, days] = [60, 3600, 86_400].map((unit) => Math.floor(seconds / unit));
  if (seconds < 120) return `${seconds}s`;
  if (minutes < 10) return seconds % 60 === 0 ? `${minutes}m` : `${minutes}m${seconds % 60}s`;
  if (minutes < 180) return `${minutes}m`;
  if (hours < 8) return minutes % 60 === 0 ? `${hours}h` : `${hours}h${minutes % 60}m`;
  if (hours < 48) return `${hours}h`;
  if (days < 8) return hours % 24 === 0 ? `${days}d` : `${days}d${hours % 24}h`;
  return days < 730 ? `${days}d` : `${Math.floor(days / 365)}y`;
}

/// The colour of a state: one for each kind of work, and one for errors.
export function tone(state) {
  if (["watching", "listing", "streaming", "opening"].includes(state)) return state;
  return ["backing off", "degraded", "stopped"].includes(state) ? "bad" : "pending";
}

const STATE_TONES = new Map(
  Object.entries({ Running: "good", Succeeded: "good", Active: "good", True: "good", Pending: "wait", Terminating: "wait", Failed: "bad", Unknown: "bad", False: "bad" }),
);

/// The tone of a phase, or of the status of a condition: "good", "wait", "bad" or "pending".
export function stateTone(text) {
  return STATE_TONES.get(text) ?? "pending";
}

export function objectPath(resource, namespace, name) {
  return [resource, namespace, name].filter(Boolean).map(encodeURIComponent).join("/");
}

export function objectLink(resource, namespace, name) {
  return `#/object/${objectPath(resource, namespace, name)}`;
}

/// What changed if no field is listed.
export function changeNote(change) {
  return change.note ?? { ADDED: "new object", DELETED: "object deleted" }[change.type] ?? "no visible field differs";
}

/// The parts of a path, each with the dot or the bracket before it.
export function pathParts(path) {
  return path.split(/(?<=.)(?=[.[])/);
}

/// A path for a row. `…` replaces the middle of a long one, and the beginning of a long last part.
export function shortPath(path) {
  if (path.length <= PATH_CHARS_MAX) return path;
  const [first, ...parts] = pathParts(path);
  let end = parts.pop() ?? "";
  while (parts.length > 0 && first.length + 1 + parts.at(-1).length + end.length <= PATH_CHARS_MAX) end = parts.pop() + end;
  const begin = first.length > PATH_CHARS_MAX ? `${first.slice(0, PATH_CHARS_MAX - 1)}…` : first;
  return `${begin}${parts.length > 0 || end.length > PATH_CHARS_MAX ? "…" : ""}${end.slice(-PATH_CHARS_MAX)}`;
}

/// `path: before → after`; `+path: after` of an added field, `-path: before` of a removed one.
export function differenceText(d) {
  if (d.before === undefined) return `+${d.path}: ${d.after}`;
  if (d.after === undefined) return `-${d.path}: ${d.before}`;
  return `${d.path}: ${d.before} → ${d.after}`;
}

/// The differences for a row. No line ends between the sign, the parts of a shortened path and the value.
export function rowText(change) {
  const joined = (path) => shortPath(path).replace("…", "…\u2060");
  const short = (d) => differenceText({ ...d, path: joined(d.path) }).replace(/^-/, "-\u2060").replace(": ", ":\u00a0");
  return diffLines(change, short).join(", ");
}

/// One text per difference.
export function diffLines(change, text = differenceText) {
  const lines = change.differences.map(text);
  if (lines.length === 0) return [changeNote(change)];
  return change.more > 0 ? [...lines, `${counted(change.more, "more field")}`] : lines;
}
