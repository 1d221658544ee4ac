// A list of any length that has only as many elements as fit on the screen. With columns it is a grid: it has a header row, arrow
// keys move the active row, and Enter opens it. Without columns it is scrolled text.

import { h, perFrame, setAttribute, setText } from "./dom.js";
import { count } from "./format.js";

/// Rows above and below the visible part.
const SPARE = 4;
/// Browsers limit the height of an element; a longer list is scrolled in larger steps.
const HEIGHT_MAX = 8_000_000;
/// A short list has at least this many rows.
const ROWS_MIN = 3;

let grids = 0;

export class Rows {
  /// `create()` returns the cells of a new row, `render(row, index)` fills it. `columns` are the titles of a grid. The list takes a
  /// `share` of the window's height, up to `heightMax` pixels; if it `shrinks`, a short list is smaller. `onOpen(index)` is called
  /// for a click and for Enter, `onMove(index)` when the active row changes. While the list is longer than its visible part, `range`
  /// is a line such as `Lines 1–20 of 300`, with this `unit`.
  constructor({ label, unit = "Rows", columns = null, share, heightMax, shrinks = false, rowHeight, create, render, className = "", onOpen = null, onMove = null }) {
    Object.assign(this, { unit, columns, share, heightMax, shrinks, rowHeight, createCells: create, renderRow: render, onOpen, onMove });
    grids += 1;
    this.id = `rows-${grids}`;
    this.created = 0;
    this.count = 0;
    this.pool = [];
    this.selected = -1;
    this.space = h("div", { class: "space", role: columns ? "rowgroup" : null });
    this.range = h("p", { class: "range", hidden: true });
    this.head = columns && h("div", { class: "row-head", role: "row", "aria-rowindex": 1 });
    const role = columns ? { role: "grid", "aria-rowcount": 1 } : { role: "region" };
    this.element = h(
      "div",
      { class: `rows ${className}`, tabindex: 0, "aria-label": label, ...role },
      columns && h("div", { class: "row-heads", role: "rowgroup" }, this.head),
      this.space,
    );
    if (columns) this.setColumns(columns);
    this.draw = perFrame(() => this.paint());
    this.element.addEventListener("scroll", this.draw, { passive: true });
    if (columns) this.element.addEventListener("keydown", (event) => this.key(event));
    window.addEventListener("resize", this.draw);
    this.observer = new ResizeObserver(this.draw);
    this.observer.observe(this.element);
  }

  setColumns(titles) {
    this.head.replaceChildren(...titles.map((title) => h("span", { role: "columnheader" }, title)));
  }

  setCount(count) {
    this.count = count;
    if (this.columns) setAttribute(this.element, "aria-rowcount", count + 1);
    this.draw();
  }

  scrollToTop() {
    this.element.scrollTop = 0;
    this.draw();
  }

  scrollTo(index) {
    this.element.scrollTop = (index * this.rowHeight) / this.ratio();
    this.draw();
  }

  /// Pixels of rows per pixel of scrolling. The last row is at the end.
  ratio() {
    const height = this.count * this.rowHeight;
    const visible = this.element.clientHeight - this.headHeight();
    return height > HEIGHT_MAX ? (height - visible) / (HEIGHT_MAX - visible) : 1;
  }

  headHeight() {
    return this.head?.offsetHeight ?? 0;
  }

  /// The height of whole rows, so that none is cut off at the bottom.
  fit() {
    const available = Math.min(this.share * window.innerHeight, this.heightMax) - this.headHeight();
    const fitting = Math.max(Math.floor(available / this.rowHeight), ROWS_MIN);
    const rows = this.shrinks ? Math.min(Math.max(this.count, ROWS_MIN), fitting) : fitting;
    const height = `${rows * this.rowHeight + this.headHeight()}px`;
    if (this.element.style.height !== height) this.element.style.height = height;
  }

  paint() {
    this.fit();
    const ratio = this.ratio();
    this.space.style.height = `${Math.min(Math.max(this.count * this.rowHeight, 1), HEIGHT_MAX)}px`;
    const visible = Math.ceil((this.element.clientHeight - this.headHeight()) / this.rowHeight);
    const position = this.element.scrollTop * ratio;
    const first = Math.max(0, Math.floor(position / this.rowHeight) - SPARE);
    const last = Math.min(this.count, first + visible + 2 * SPARE);
    const offset = this.element.scrollTop - position;
    while (this.pool.length < last - first) this.pool.push(this.newRow());
    while (this.pool.length > Math.max(last - first, 0)) this.pool.pop().element.remove();
    let active = null;
    this.pool.forEach((row, at) => {
      const index = first + at;
      row.index = index;
      row.element.style.transform = `translateY(${Math.round(index * this.rowHeight + offset)}px)`;
      if (this.columns) {
        setAttribute(row.element, "aria-rowindex", index + 2);
        setAttribute(row.element, "aria-selected", String(index === this.selected));
        if (index === this.selected) active = row.element.id;
      }
      this.renderRow(row, index);
    });
    if (this.columns) setAttribute(this.element, "aria-activedescendant", active);
    this.paintRange(position / this.rowHeight);
  }

  /// Which rows are visible, from this one on: a list that is cut off looks complete without it.
  paintRange(position) {
    const fitting = Math.floor((this.element.clientHeight - this.headHeight()) / this.rowHeight);
    const first = Math.min(Math.round(position), Math.max(this.count - fitting, 0));
    setText(this.range, `${this.unit} ${count(first + 1)}–${count(Math.min(first + fitting, this.count))} of ${count(this.count)}`);
    this.range.hidden = this.count <= fitting;
  }

  newRow() {
    this.created += 1;
    const row = { index: 0, cells: this.createCells() };
    const role = this.columns ? { role: "row", id: `${this.id}-${this.created}` } : {};
    if (this.columns) row.cells.forEach((cell) => cell.setAttribute("role", "gridcell"));
    row.element = h("div", { class: "row", ...role }, row.cells);
    row.element.style.height = `${this.rowHeight}px`;
    if (this.onOpen) row.element.addEventListener("click", (event) => this.click(event, row.index));
    this.space.append(row.element);
    return row;
  }

  /// Opens a row, unless the browser follows the link in it, or the user selects text.
  click(event, index) {
    const isBrowsers = event.target.closest("a") || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey;
    if (!isBrowsers && getSelection().isCollapsed) this.open(index);
  }

  open(index) {
    this.selected = index;
    this.draw();
    this.onOpen?.(index);
  }

  key(event) {
    if (event.target !== this.element || this.count === 0) return;
    const page = Math.max(1, Math.floor((this.element.clientHeight - this.headHeight()) / this.rowHeight) - 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -this.count, End: this.count };
    if (event.key === "Enter" && this.selected >= 0) {
      event.preventDefault();
      this.open(this.selected);
    } else if (event.key in steps) {
      event.preventDefault();
      this.move(Math.min(Math.max(this.selected + steps[event.key], 0), this.count - 1));
    }
  }

  /// Makes a row the active one, and shows it.
  move(index) {
    const ratio = this.ratio();
    const position = this.element.scrollTop * ratio;
    const top = index * this.rowHeight;
    const bottom = top + this.rowHeight - (this.element.clientHeight - this.headHeight());
    if (top < position) this.element.scrollTop = top / ratio;
    else if (bottom > position) this.element.scrollTop = bottom / ratio;
    this.selected = index;
    this.draw();
    this.onMove?.(index);
  }

  close() {
    window.removeEventListener("resize", this.draw);
    this.observer.disconnect();
  }
}
