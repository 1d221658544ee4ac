// Builds elements. Text goes in as text nodes only, so nothing from a cluster can become markup.

import { pathParts } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";

/// An element with attributes and children. Names that begin with "on" are listeners; null and false are left out.
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/// The same for SVG.
export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/// A path that a narrow line breaks before a dot or a bracket.
export function breakable(path) {
  return pathParts(path).flatMap((part, at) => (at > 0 ? [h("wbr"), part] : [part]));
}

/// Sets a text only if it differs, so that an unchanged page costs no layout.
export function setText(element, text) {
  const value = String(text);
  if (element.textContent !== value) element.textContent = value;
}

/// Sets an attribute only if it differs.
export function setAttribute(element, name, value) {
  if (value === null || value === undefined) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
  } else if (element.getAttribute(name) !== String(value)) {
    element.setAttribute(name, String(value));
  }
}

let fields = 0;

/// A labelled control for a form.
export function field(label, control, className = "") {
  fields += 1;
  control.id = `field-${fields}`;
  return h("div", { class: `field ${className}` }, h("label", { for: control.id }, label), control);
}

/// Calls a function once the caller has been quiet for a while.
export function debounce(milliseconds, action) {
  let timer = 0;
  return (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...args), milliseconds);
  };
}

/// Calls a function at most once per frame.
export function perFrame(action) {
  let pending = false;
  return () => {
    if (pending) return;
    pending = true;
    requestAnimationFrame(() => {
      pending = false;
      action();
    });
  };
}
