// A JSON value as lines of YAML, each with the path that it shows, so that changed fields can be highlighted.

const PLAIN = /^[A-Za-z_./][A-Za-z0-9_./ @%+=:-]*$/;
const WORDS = new Set(["true", "false", "null", "yes", "no", "on", "off", "y", "n", "~"]);
/// The fields by which the server identifies elements of a list: the first that all of them have, each with another value.
const IDENTITIES = ["name", "type", "containerPort", "port", "ip", "key"];

/// Lines as { indent, name, text, path }, with the segments of the path: a name can contain dots and brackets.
export function lines(value) {
  const out = [];
  write(value, 0, [], out, "");
  return out;
}

function scalar(value) {
  if (typeof value !== "string") return String(value);
  if (PLAIN.test(value) && !/[ :]$/.test(value) && !value.includes(": ") && !WORDS.has(value.toLowerCase())) return value;
  return JSON.stringify(value);
}

function isEmpty(value) {
  return typeof value === "object" && value !== null && Object.keys(value).length === 0;
}

function write(value, indent, path, out, lead) {
  if (Array.isArray(value)) {
    const identity = IDENTITIES.find((name) => identifies(name, value));
    value.forEach((element, at) => {
      const own = [...path, String(identity ? element[identity] : at)];
      const isFirst = at === 0;
      entry(element, indent + (isFirst ? 0 : lead.length), own, out, `${isFirst ? lead : ""}- `);
    });
    return;
  }
  let first = lead;
  for (const [name, member] of Object.entries(value)) {
    const own = [...path, name];
    const shown = PLAIN.test(name) && !/[ :]$/.test(name) && !name.includes(": ") && !WORDS.has(name.toLowerCase()) ? name : JSON.stringify(name);
    if (member !== null && typeof member === "object" && !isEmpty(member)) {
      out.push({ indent, lead: first, name: `${shown}:`, text: "", path: own });
      const inner = Array.isArray(member) ? indent + first.length : indent + first.length + 2;
      write(member, inner, own, out, "");
    } else {
      text(member, indent, own, out, first, `${shown}:`);
    }
    if (first) {
      indent += first.length;
      first = "";
    }
  }
}

/// Whether each element of a list has another value in this field.
function identifies(name, list) {
  const values = list.map((element) => element?.[name]);
  return values.every((value) => ["string", "number"].includes(typeof value)) && new Set(values).size === list.length;
}

/// One element of a list.
function entry(value, indent, path, out, lead) {
  if (value !== null && typeof value === "object" && !isEmpty(value)) write(value, indent, path, out, lead);
  else text(value, indent, path, out, lead, "");
}

function text(value, indent, path, out, lead, name) {
  if (typeof value === "string" && value.includes("\n")) {
    out.push({ indent, lead, name, text: name ? " |" : "|", path });
    for (const line of value.replace(/\n$/, "").split("\n")) {
      out.push({ indent: indent + lead.length + 2, lead: "", name: "", text: line, path });
    }
    return;
  }
  const shown = isEmpty(value) ? (Array.isArray(value) ? "[]" : "{}") : scalar(value);
  out.push({ indent, lead, name, text: name ? ` ${shown}` : shown, path });
}

/// Whether a path is one of these, or below one.
export function isChanged(path, changed) {
  return changed.some((one) => one.length <= path.length && one.every((segment, at) => segment === path[at]));
}
