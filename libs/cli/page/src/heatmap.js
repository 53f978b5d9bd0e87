// One cell per node on a canvas: 5,000 elements would take longer to lay out than an update may.
import { html } from "htm/preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { colors, scheme } from "./colors.js";
import { useElement } from "./element.js";
import { shortNode } from "./format.js";

const FONT = "ui-sans-serif, system-ui, sans-serif";

export function layout(count, width, height) {
  for (let size = 68; size > 4; size--) {
    const gap = size > 24 ? 4 : size > 12 ? 2 : 1;
    const columns = Math.max(1, Math.floor((width + gap) / (size + gap)));
    const rows = Math.ceil(count / columns);
    const tall = size > 40 ? Math.round(0.8 * size) : size;
    if (rows * (tall + gap) <= height || size === 5) return fit({ size, tall, gap, columns, rows, width });
  }
}

// Wider cells fill the width: no ragged right edge.
function fit(cells) {
  const wide = (cells.width + cells.gap) / cells.columns - cells.gap;
  return { ...cells, wide: cells.rows > 1 ? wide : Math.min(wide, 2 * cells.size), height: cells.rows * (cells.tall + cells.gap) };
}

export function place(cells, index) {
  const column = index % cells.columns, row = Math.floor(index / cells.columns);
  return { x: column * (cells.wide + cells.gap), y: row * (cells.tall + cells.gap) };
}

let pattern = {};
function hatch(context) {
  const name = scheme();
  if (pattern.name !== name) {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 8;
    const draw = tile.getContext("2d");
    const back = name === "dark" ? "#20282d" : "#eef1f2";
    draw.fillStyle = back;
    draw.fillRect(0, 0, 8, 8);
    draw.strokeStyle = name === "dark" ? "#5c6a73" : "#98a5ad";
    draw.lineWidth = 1.4;
    for (const shift of [-8, 0, 8]) {
      draw.beginPath();
      draw.moveTo(shift, 8);
      draw.lineTo(shift + 8, 0);
      draw.stroke();
    }
    pattern = { name, fill: context.createPattern(tile, "repeat"), back, text: name === "dark" ? "#c4ced4" : "#39454c" };
  }
  return pattern;
}

// `cellOf(index)` gives { name, load, hot }.
export function paint(canvas, cells, count, cellOf, active) {
  const ratio = window.devicePixelRatio || 1;
  const [width, height] = [Math.round(cells.width * ratio), Math.round(cells.height * ratio)];
  if (canvas.width !== width || canvas.height !== height) {
    canvas.width = width;
    canvas.height = height;
    canvas.style.height = `${cells.height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, cells.width, cells.height);
  const { wide, tall } = cells, radius = Math.min(7, tall / 5);
  const named = wide >= 54 && tall >= 38, numbered = wide >= 32 && tall >= 22;
  const colorOf = colors(), unknown = hatch(context);
  const write = (text, x, y, color) => {
    if (color.back) context.strokeText(text, x, y); // keeps the lines of the hatching away from the letters
    context.fillText(text, x, y);
  };
  context.strokeStyle = unknown.back;
  context.lineWidth = 4;
  context.lineJoin = "round";
  context.textAlign = "center";
  context.textBaseline = "middle";
  for (let index = 0; index < count; index++) {
    const { name, load, hot } = cellOf(index), { x, y } = place(cells, index);
    const color = load == null ? unknown : colorOf(load);
    context.fillStyle = color.fill;
    if (tall < 12) context.fillRect(x, y, wide, tall);
    else {
      context.beginPath();
      context.roundRect(x, y, wide, tall, radius);
      context.fill();
    }
    if (hot) mark(context, x, y, wide, tall, color.text);
    if (numbered) {
      context.fillStyle = color.text;
      context.font = `600 ${named ? 15 : Math.min(13, tall / 2.2)}px ${FONT}`;
      write(load == null ? "?" : Math.round(100 * load), x + wide / 2, y + tall / 2 - (named ? 6 : 0), color);
    }
    if (named) {
      context.font = `10px ${FONT}`;
      write(clipped(context, shortNode(name), wide - 8), x + wide / 2, y + tall / 2 + 11, color);
    }
  }
  if (active >= 0 && active < count) {
    const { x, y } = place(cells, active);
    context.lineWidth = 2.5;
    context.strokeStyle = scheme() === "dark" ? "#ffffff" : "#0b1215";
    context.beginPath();
    context.roundRect(x - 0.5, y - 0.5, wide + 1, tall + 1, radius);
    context.stroke();
  }
}

// Hot is a triangle in the corner, not only a color.
function mark(context, x, y, wide, tall, color) {
  const side = Math.max(3, Math.min(10, 0.4 * Math.min(wide, tall))), inset = Math.round(0.3 * side);
  const right = x + wide - inset, top = y + inset;
  context.fillStyle = color;
  context.beginPath();
  context.moveTo(right - side, top);
  context.lineTo(right, top);
  context.lineTo(right, top + side);
  context.fill();
}

function clipped(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let end = text.length;
  while (end > 1 && context.measureText(`…${text.slice(text.length - end)}`).width > width) end--;
  return `…${text.slice(text.length - end)}`;
}

const FEW = 400; // so many nodes get a lower map

// None before the width is known, and without nodes.
function cellsOf(names, width) {
  return width > 0 && names.length ? layout(names.length, width, names.length > FEW ? 430 : 300) : null;
}

export function HeatMap({ title, names, cellOf, describe, onOpen, version }) {
  const canvas = useRef();
  const { box, width, theme } = useElement();
  const [active, setActive] = useState(-1);
  const [hover, setHover] = useState(null);
  const [focused, setFocused] = useState(false);
  const cells = cellsOf(names, width);
  useLayoutEffect(() => {
    if (cells) paint(canvas.current, cells, names.length, (index) => cellOf(names[index]), focused ? active : -1);
  }, [names, width, version, active, focused, theme, cellOf]);

  const at = (event) => {
    const rect = canvas.current.getBoundingClientRect();
    const column = Math.floor((event.clientX - rect.left) / (cells.wide + cells.gap));
    const index = Math.floor((event.clientY - rect.top) / (cells.tall + cells.gap)) * cells.columns + column;
    return column >= 0 && column < cells.columns && index >= 0 && index < names.length ? index : -1;
  };
  const onKeyDown = (event) => {
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: cells?.columns, ArrowUp: -cells?.columns };
    let next = active < 0 ? 0 : active;
    if (event.key in steps) next = active < 0 ? 0 : active + steps[event.key];
    else if (event.key === "Home") next = 0;
    else if (event.key === "End") next = names.length - 1;
    else if ((event.key === "Enter" || event.key === " ") && names[next]) onOpen(names[next]);
    else return;
    event.preventDefault();
    setActive(Math.max(0, Math.min(names.length - 1, next)));
  };
  const index = Math.min(active < 0 ? 0 : active, names.length - 1);
  const shown = hover && names[hover.index];
  return html`<div class="map" ref=${box} role="grid" tabindex="0" aria-label=${`${title}. Arrow keys select a node, Enter explains it.`}
      aria-rowcount=${cells?.rows ?? 0} aria-colcount=${cells?.columns ?? 0} aria-activedescendant=${names.length ? "active-cell" : undefined}
      onKeyDown=${onKeyDown} onFocus=${() => setFocused(true)} onBlur=${() => setFocused(false)}
      onPointerMove=${(event) => {
        const found = cells ? at(event) : -1;
        setHover(found < 0 ? null : { index: found, ...tooltipPlace(cells, found) });
      }} onPointerLeave=${() => setHover(null)}
      onClick=${(event) => {
        const found = cells ? at(event) : -1;
        if (found >= 0) {
          setActive(found);
          onOpen(names[found]);
        }
      }}>
    <canvas ref=${canvas} aria-hidden="true"></canvas>
    <div role="row" class="reader" aria-rowindex=${cells ? Math.floor(index / cells.columns) + 1 : 1}>
      <div role="gridcell" id="active-cell" aria-colindex=${cells ? (index % cells.columns) + 1 : 1}>${names[index] ? `${names[index]}: ${describe(names[index])}` : "no node"}</div>
    </div>
    ${shown && html`<${Tooltip} at=${hover} name=${shown} text=${describe(shown)} />`}
    ${focused && !hover && active >= 0 && names[active] && cells && html`<${Tooltip} at=${tooltipPlace(cells, active)} name=${names[active]} text=${describe(names[active])} />`}
  </div>`;
}

function tooltipPlace(cells, index) {
  const { x, y } = place(cells, index);
  return { left: Math.max(0, Math.min(x, cells.width - 280)), top: y + cells.tall + 6 };
}

function Tooltip({ at, name, text }) {
  return html`<div class="tooltip" style=${{ left: `${at.left}px`, top: `${at.top}px` }}><b>${name}</b>${text}</div>`;
}

// The map of an earlier time: without keys.
export function EarlierMap({ title, names, cellOf, version }) {
  const canvas = useRef();
  const { box, width, theme } = useElement();
  useLayoutEffect(() => {
    const cells = cellsOf(names, width);
    if (cells) paint(canvas.current, cells, names.length, (index) => cellOf(names[index]), -1);
  }, [names, width, version, theme, cellOf]);
  return html`<div class="map" ref=${box}><canvas ref=${canvas} role="img" aria-label=${title}></canvas></div>`;
}
