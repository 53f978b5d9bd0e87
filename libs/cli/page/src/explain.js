// The drawer: what the command `equipoise explain` prints, with the facts and pods of the object.
import { html } from "htm/preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { clock, cores, gib, percent, shortName } from "./format.js";
import { CPU, CPU_REQUESTS, MEMORY, MEMORY_REQUESTS, PODS, STATE, UNKNOWN } from "./model.js";

// The escape sequences that the command writes on a terminal, as spans with classes.
export function spans(text) {
  const found = [];
  let style = [];
  for (const [part, codes] of [...text.matchAll(/\x1b\[([\d;]*)m|[^\x1b]+/g)].map((match) => [match[0], match[1]])) {
    if (codes !== undefined) style = codes === "0" || codes === "" ? [] : codes.split(";").map((code) => `sgr${code}`);
    else found.push(html`<span class=${style.join(" ")}>${part}</span>`);
  }
  return found;
}

function Facts({ row, facts }) {
  const entries = [
    ["CPU", `${percent(row[CPU], 1)}${facts.baseCpu ? ` of ${cores(facts.baseCpu)} cores` : ""}`],
    ["Memory", `${percent(row[MEMORY], 1)}${facts.baseMemory ? ` of ${gib(facts.baseMemory)} GiB` : ""}`],
    ["CPU requested", percent(row[CPU_REQUESTS], 1)], ["Memory requested", percent(row[MEMORY_REQUESTS], 1)],
    ["Pods", row[PODS] ?? "?"], ["Evaluation", row[STATE] ?? "none received"],
    ["Measured over", facts.window || "?"], ["Newest sample", facts.sampledAt ? clock(facts.sampledAt) : "?"],
  ];
  return html`<dl class="facts">${entries.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
    ${row[UNKNOWN] && html`<p class="notice">Unknown: ${row[UNKNOWN]}</p>`}`;
}

function Pods({ pods, kind, open }) {
  const other = kind === "node" ? ["workload", (pod) => pod.workload, (pod) => shortName(pod.workload || "–")] : ["node", (pod) => pod.node, (pod) => pod.node];
  return html`<h3>Pods</h3><div class="scroll" tabindex="0" role="region" aria-label="Pods"><table>
    <thead><tr><th scope="col">pod</th><th scope="col">${other[0]}</th><th scope="col" class="number">cores</th><th scope="col" class="number">requested</th><th scope="col" class="number">GiB</th><th scope="col" class="number">requested</th></tr></thead>
    <tbody>${pods.slice(0, 100).map((pod) => html`<tr key=${`${pod.namespace}/${pod.pod}`}>
      <td><button class="link" onClick=${() => open("pod", `${pod.namespace}/${pod.pod}`)}>${pod.namespace}/${pod.pod}</button>${pod.detached && " (detached)"}</td>
      <td>${other[1](pod) ? html`<button class="link" onClick=${() => open(other[0], other[1](pod))}>${other[2](pod)}</button>` : "–"}</td>
      <td class="number">${cores(pod.cpu)}</td><td class="number">${pod.cpu_requests == null ? "–" : cores(pod.cpu_requests)}</td>
      <td class="number">${gib(pod.memory)}</td><td class="number">${pod.memory_requests == null ? "–" : gib(pod.memory_requests)}</td>
    </tr>`)}</tbody></table></div>
    ${pods.length > 100 && html`<p class="quiet">The 100 largest of ${pods.length}.</p>`}`;
}

export function Drawer({ subject, open, close }) {
  const dialog = useRef();
  const [result, setResult] = useState(null);
  useEffect(() => {
    if (!subject) return undefined;
    if (!dialog.current.open) dialog.current.showModal();
    dialog.current.scrollTop = 0;
    setResult(null);
    const request = new AbortController();
    fetch(`explain/${subject.kind}?name=${encodeURIComponent(subject.name)}`, { signal: request.signal })
      .then(async (response) => (response.ok ? response.json() : { problem: await response.text() }))
      .catch((error) => ({ problem: error.name === "AbortError" ? "" : "the server does not respond: is `equipoise dashboard` still running?" }))
      .then((found) => request.signal.aborted || setResult(found));
    return () => request.abort();
  }, [subject]);
  return html`<dialog ref=${dialog} class="drawer" aria-labelledby="drawer-title" onClose=${close}
      onClick=${(event) => event.target === dialog.current && dialog.current.close()}>
    ${subject && html`<div class="sheet">
      <header><p class="kind">${subject.kind}</p><h2 id="drawer-title">${subject.name}</h2>
        <button class="close" aria-label="Close" onClick=${() => dialog.current.close()}>✕</button></header>
      ${!result && html`<p class="quiet" role="status">reading …</p>`}
      ${result?.row && html`<${Facts} row=${result.row} facts=${result.facts ?? {}} />`}
      ${result?.problem && html`<p class="notice">${result.problem}</p>`}
      ${result?.text && html`<h3>Explanation</h3><pre class="scroll" tabindex="0">${spans(result.text)}</pre>`}
      ${result?.pods?.length > 0 && html`<${Pods} pods=${result.pods} kind=${subject.kind} open=${open} />`}
      ${result?.command && html`<p class="quiet">The same on a terminal: <code>${result.command}</code></p>`}
    </div>`}
  </dialog>`;
}
