// What the browser keeps for this page. It may refuse any access, for example if the user blocks site data. The page then works, and
// remembers values until it is loaded again.

const held = new Map();

/// A kept value, or null. `area` is "localStorage" (all tabs) or "sessionStorage" (this tab).
export function load(area, name) {
  try {
    return window[area].getItem(name) ?? held.get(name) ?? null;
  } catch {
    return held.get(name) ?? null;
  }
}

export function save(area, name, value) {
  held.set(name, value);
  try {
    window[area].setItem(name, value);
  } catch {
    // It stays in memory.
  }
}
