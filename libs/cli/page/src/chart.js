// The spread over the last hours.
import { html } from "htm/preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { token } from "./colors.js";
import { useElement } from "./element.js";
import { points } from "./format.js";

const HEIGHT = 256;

function options(width, onCursor) {
  const axis = { stroke: token("--quiet"), grid: { stroke: token("--line"), width: 1 }, ticks: { show: false }, font: "11px ui-sans-serif, system-ui, sans-serif" };
  const series = (label, color, dash) => ({ label, stroke: token(color), width: 2, dash, spanGaps: false, points: { show: false } });
  return {
    width, height: HEIGHT, legend: { show: false }, padding: [8, 8, 0, 0],
    cursor: { y: false, points: { size: 7 } },
    scales: { y: { range: (_, low, high) => [0, Math.max(20, Math.ceil((high ?? 0) / 10) * 10)] } },
    axes: [{ ...axis, size: 26, values: [[3600, "{HH}:{mm}"], [60, "{HH}:{mm}"], [1, "{HH}:{mm}:{ss}"]].map(([step, text]) => [step, text, null, null, null, null, null, null, 1]) }, { ...axis, size: 34 }],
    series: [{}, series("CPU", "--cpu"), series("Memory", "--memory", [6, 4])],
    hooks: { setCursor: [(chart) => onCursor(chart.cursor.idx)] },
  };
}

export function Spread({ data }) {
  const chart = useRef();
  const { box, width, theme } = useElement();
  const [cursor, setCursor] = useState(null);
  const shown = [0, 1, 2].map((column) => data.map((point) => (column === 0 || point[column] == null ? point[column] : 100 * point[column])));
  useLayoutEffect(() => {
    if (width === 0) return undefined;
    chart.current = new uPlot(options(width, setCursor), shown, box.current);
    return () => chart.current.destroy();
  }, [width, theme]);
  useLayoutEffect(() => {
    chart.current?.setData(shown);
  }, [data.length, data.at(-1)?.[0]]);
  const point = data[cursor ?? data.length - 1];
  const when = point ? new Date(1000 * point[0]).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" }) : "";
  const text = point ? `CPU ${points(point[1])}, memory ${points(point[2])}` : "no value yet";
  return html`<div class="key"><span class="line cpu"></span>CPU <b>${points(point?.[1])}</b><span class="line memory"></span>memory <b>${points(point?.[2])}</b><span class="quiet">${when}</span></div>
    <div ref=${box} class="chart" role="img" aria-label=${`Spread over the last hours, in points of percent. Last: ${text}.`}></div>`;
}
