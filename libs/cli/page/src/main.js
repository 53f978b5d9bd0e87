// The page: connects to the server, keeps the model, and draws it at most once per frame.
import { render } from "preact";
import { html } from "htm/preact";
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Spread } from "./chart.js";
import { legend } from "./colors.js";
import { useTheme } from "./element.js";
import { Drawer } from "./explain.js";
import { clock, count, duration, money, percent, points, shortName, shortNode } from "./format.js";
import { EarlierMap, HeatMap } from "./heatmap.js";
import { CPU, MEMORY, NODE, PODS, CPU_REQUESTS, EMPTIED, MEMORY_REQUESTS, RESOURCES, SET_APART, STATE, UNKNOWN, applyChanges, describe, emptyModel, orderedNames } from "./model.js";

const SILENCE = 60_000; // milliseconds without an event after which the stream is opened again
const RETRY = 5_000;
const AGES = [[900, "15 min"], [3600, "1 h"], [10800, "3 h"], [21000, "6 h"]];
const SHOWN_MOVES = 60, SHOWN_ROWS = 100;

// What tests and `docs/benchmarks.md` read: milliseconds of the main thread.
window.equipoise = { updates: 0, lastUpdate: 0, snapshots: 0, firstPaint: 0 };

class Stream {
  constructor(onChanges, onState) {
    Object.assign(this, { onChanges, onState, last: "", receivedAt: 0, source: null });
    setInterval(() => this.check(), 5_000);
    document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && this.check());
    this.open();
  }

  open() {
    this.source?.close();
    this.source = new EventSource(`events${this.last ? `?last=${encodeURIComponent(this.last)}` : ""}`);
    this.receivedAt = Date.now();
    const receive = (whole) => (event) => {
      this.last = event.lastEventId;
      this.receivedAt = Date.now();
      this.onState("live");
      this.onChanges(event.data, whole);
    };
    this.source.addEventListener("snapshot", receive(true));
    this.source.addEventListener("change", receive(false));
    this.source.onopen = () => this.onState("live");
    this.source.onerror = () => this.onState("lost");
  }

  // After a sleep of the machine, or if the connection is dead without the browser noticing.
  check() {
    const silent = Date.now() - this.receivedAt;
    if (silent > SILENCE || (this.source.readyState === EventSource.CLOSED && silent > RETRY)) this.open();
  }
}

function useModel() {
  const model = useRef(emptyModel());
  const [view, setView] = useState({ version: 0, state: "connecting" });
  useEffect(() => {
    let frame = 0, waiting = [];
    const draw = () => {
      frame = 0;
      const begin = performance.now();
      for (const [data, whole] of waiting) {
        if (whole) {
          model.current = emptyModel();
          window.equipoise.snapshots += 1;
        }
        applyChanges(model.current, JSON.parse(data));
      }
      waiting = [];
      setView((before) => ({ ...before, version: before.version + 1 }));
      setTimeout(() => { // after the layout effects, which paint the canvas
        const stats = window.equipoise, took = performance.now() - begin;
        stats.updates += 1;
        stats.lastUpdate = took;
        if (stats.firstPaint === 0) stats.firstPaint = performance.now();
      });
    };
    new Stream((data, whole) => {
      waiting.push([data, whole]);
      // A hidden page gets no frames: its changes are applied at once, so that they do not pile up.
      if (document.visibilityState === "hidden") draw();
      else if (!frame) frame = requestAnimationFrame(draw);
    }, (state) => setView((before) => (before.state === state ? before : { ...before, state })));
  }, []);
  return [model.current, view];
}

// The loads of before, read again when they are five minutes older than wanted.
function useBefore(age, ready) {
  const [frame, setFrame] = useState(null);
  useEffect(() => {
    if (!ready) return undefined;
    const request = new AbortController();
    const read = () => fetch(`before?at=${Date.now() / 1000 - age}`, { signal: request.signal })
      .then(async (response) => response.ok && setFrame(await response.json())).catch(() => {});
    read();
    const timer = setInterval(read, 60_000);
    return () => {
      request.abort();
      clearInterval(timer);
    };
  }, [age, ready]);
  return frame;
}

function Choice({ label, value, options, onChange }) {
  return html`<fieldset class="choice"><legend class="reader">${label}</legend>${options.map(([key, text]) => html`
    <label><input type="radio" name=${label} checked=${key === value} onChange=${() => onChange(key)} /><span>${text}</span></label>`)}</fieldset>`;
}

function Tile({ name, value, unit, note, tone }) {
  return html`<div class=${`tile ${tone ?? ""}`}><dt>${name}</dt><dd><b>${value}</b>${unit && html`<span>${unit}</span>`}</dd>${note && html`<dd class="note">${note}</dd>`}</div>`;
}

function evictionMode(summary, limits) {
  if (limits?.evictions === "paused") return ["paused", "Evictions paused", limits.why];
  if (limits?.evictions === "closed") return ["paused", "Evictions closed", limits.why];
  if (!summary?.evictions) return ["unknown", "Evictions unknown", "No heartbeat of a binder was received."];
  if (summary.evictions === "real") return ["real", "Evictions are real", limits?.why ?? ""];
  if (summary.evictions === "dry run") return ["dry", "Dry run", "Evictions are validated and not executed."];
  return ["unknown", "Nothing is evicted", summary.evictions];
}

function Header({ model, view }) {
  const problem = model.connection?.problem;
  const [tone, text] = view.state === "lost" ? ["lost", "connection lost, trying again"] : view.state !== "live" ? ["lost", "connecting"] : problem ? ["warn", problem] : ["live", "live"];
  const [mode, title, why] = evictionMode(model.summary, model.limits);
  const cluster = (model.connection?.cluster ?? "").replace(/^cluster: /, "");
  return html`<header class="top">
    <svg class="logo" viewBox="0 0 32 32" aria-hidden="true"><rect x="2" y="11" width="7" height="19" rx="2.5" /><rect class="middle" x="12.5" y="7" width="7" height="23" rx="2.5" /><rect x="23" y="11" width="7" height="19" rx="2.5" /><path d="M2 4.5h28" /></svg>
    <h1>Equipoise</h1><p class="cluster" title=${cluster}>${cluster}</p>
    <p class=${`pill ${mode}`} title=${why}>${title}</p>
    <p class=${`pill status ${tone}`} role="status" title=${text}><i aria-hidden="true"></i>${text}</p>
  </header>`;
}

// What an owner of the cluster asks first.
function Overview({ model }) {
  const { summary, savings } = model;
  if (!summary) return null;
  const rows = [...model.nodes.values()], loads = rows.filter((row) => row[CPU] != null && !row[SET_APART]).map((row) => row[CPU]);
  const extremes = loads.length ? `CPU from ${percent(loads.reduce((a, b) => Math.min(a, b)))} on the idlest to ${percent(loads.reduce((a, b) => Math.max(a, b)))} on the hottest node` : "no load is known";
  return html`<dl class="tiles" aria-label="Overview">
    <${Tile} name="What is uneven" value=${summary.evaluated_at ? summary.hot : "?"} unit=${`hot ${summary.hot === 1 ? "node" : "nodes"} of ${summary.nodes.toLocaleString("en")}`} tone=${summary.hot ? "hot" : ""} note=${`${extremes}; ${summary.evaluated_at ? `evaluated at ${clock(summary.evaluated_at)}` : "no evaluation received"}`} />
    <${Cost} savings=${savings} /><${Saved} savings=${savings} /><${Running} model=${model} rows=${rows} />
  </dl>`;
}

function Cost({ savings }) {
  if (savings?.cost == null) return html`<${Tile} name="What it costs" value="?" note=${!savings ? "requesting an answer" : savings.problem || "No prices: set descheduler.consolidation.prices, or use --prices."} />`;
  const all = savings.considered ?? 0, missing = savings.without_price ?? 0;
  return html`<${Tile} name="What it costs" value=${money(savings.cost, savings.currency)} unit="a month" note=${missing ? `${all - missing} of ${count(all, "node")}; the price of the others is unknown` : count(all, "node")} />`;
}

function Saved({ savings }) {
  const name = "What could be saved";
  if (!savings || savings.problem) return html`<${Tile} name=${name} value="?" note=${savings?.problem ?? "requesting an answer"} />`;
  const nodes = savings.emptiable ?? 0, parts = [];
  if (nodes && savings.saved != null) parts.push(`${money(savings.saved, savings.currency)} a month`);
  if (nodes) parts.push(savings.pods ? `${count(savings.pods, "pod")} to move` : "no pod to move");
  if (nodes && savings.hottest_before != null && savings.hottest_after != null) parts.push(`hottest hour from ${percent(savings.hottest_before)} to ${percent(savings.hottest_after)}`);
  return html`<${Tile} name=${name} value=${nodes.toLocaleString("en")} unit=${nodes === 1 ? "node" : "nodes"} note=${parts.join(", ") || "No node could go: `equipoise consolidate` shows why."} />`;
}

function Running({ model, rows }) {
  const emptied = rows.filter((row) => row[EMPTIED]).length, moves = [...model.moves.values()].filter((move) => !move.outcome).length;
  const unit = [emptied && `${count(emptied, "node")} being emptied`, moves && `${count(moves, "move")} in progress`].filter(Boolean);
  const campaign = model.summary.campaign, value = campaign ? "Campaign" : unit.length ? unit.shift() : "Nothing";
  return html`<${Tile} name="What is running" value=${value} note=${[campaign, ...unit].filter(Boolean).join("; ") || (value === "Nothing" ? "no campaign, no node being emptied, no open move" : "")} />`;
}

function Tiles({ summary }) {
  if (!summary) return null;
  const { nodes, known, expected, spread, mean } = summary, missing = nodes - known;
  const measured = summary.measured_at ? `measured at ${clock(summary.measured_at)}` : "no measurement cycle received";
  return html`<dl class="tiles three" aria-label="Measurement">
    <${Tile} name="CPU spread" value=${points(spread.cpu)} unit="points" note=${`mean ${percent(mean.cpu)}`} />
    <${Tile} name="Memory spread" value=${points(spread.memory)} unit="points" note=${`mean ${percent(mean.memory)}`} />
    <${Tile} name="Nodes with known load" value=${known.toLocaleString("en")} unit=${`of ${Math.max(nodes, expected ?? 0).toLocaleString("en")}`} tone=${missing ? "warn" : ""} note=${measured} />
  </dl>`;
}

function Legend() {
  useTheme();
  return html`<div class="legend"><span>0 %</span><span class="ramp" aria-hidden="true">${legend().map((fill) => html`<i style=${{ background: fill }}></i>`)}</span><span>100 %</span>
    <span class="entry"><i class="corner" aria-hidden="true"></i>hot</span><span class="entry"><i class="hatch" aria-hidden="true"></i>unknown</span></div>`;
}

function Loads({ model, view, open }) {
  const [resource, setResource] = useState("cpu");
  const [kind, setKind] = useState("used");
  const [order, setOrder] = useState("name");
  const [age, setAge] = useState(3600);
  const before = useBefore(age, model.names.length > 0);
  const { column, requests, title } = RESOURCES[resource];
  const shown = kind === "used" ? column : requests;
  const names = useMemo(() => orderedNames(model, order, shown), [model.names, order, shown, order === "load" ? view.version : 0]);
  const now = useCallback((name) => {
    const row = model.nodes.get(name);
    return { name, load: row?.[shown], hot: row?.[STATE] === "hot" };
  }, [model, shown]);
  const earlier = useCallback((name) => ({ name, load: before?.loads[name]?.[resource === "cpu" ? 0 : 1], hot: false }), [before, resource]);
  const ago = before ? duration(Date.now() / 1000 - before.at) : "";
  const text = (name) => describe(model.nodes.get(name), before?.loads[name], ago);
  if (!model.names.length) return html`<section class="card wide"><h2>Load of the nodes</h2><p class="empty">No node is known yet. ${model.connection?.problem ? `${model.connection.problem}.` : "The collector publishes each node with its next cycle."}</p></section>`;
  return html`<section class="card wide" aria-labelledby="loads-title">
    <div class="title"><h2 id="loads-title">Load of the nodes</h2>
      <${Choice} label="resource" value=${resource} onChange=${setResource} options=${[["cpu", "CPU"], ["memory", "Memory"]]} />
      <${Choice} label="value" value=${kind} onChange=${setKind} options=${[["used", "Used"], ["requested", "Requested"]]} />
      <${Choice} label="order" value=${order} onChange=${setOrder} options=${[["name", "By name"], ["load", "By load"]]} /><${Legend} /></div>
    <div class=${`maps ${kind === "used" ? "" : "single"}`}>
      ${kind === "used" && html`<figure><figcaption><label>Before: <select aria-label="Time of the earlier map" value=${String(age)} onChange=${(event) => setAge(Number(event.target.value))}>${AGES.map(([seconds, label]) => html`<option value=${String(seconds)}>${label} ago</option>`)}</select></label>
        <span class="quiet">${before ? `at ${clock(before.at)}${Date.now() / 1000 - before.at < age - 600 ? ", the oldest known" : ""}` : "reading"}</span></figcaption>
        <${EarlierMap} title=${before ? `${title} load of ${count(names.length, "node")}, ${ago} ago. The table below has all values of now.` : "not read yet"} names=${names} cellOf=${earlier} version=${before?.at} /></figure>`}
      <figure><figcaption><b>Now</b><span class="quiet">${count(names.length, "node")}, ${title} ${kind} in %</span></figcaption>
        <${HeatMap} title=${`${title} ${kind} of ${count(names.length, "node")}, now`} names=${names} cellOf=${now} describe=${text} onOpen=${(name) => open("node", name)} version=${view.version} /></figure>
    </div>
    <${Table} model=${model} version=${view.version} open=${open} />
  </section>`;
}

function Table({ model, version, open }) {
  const [shown, setShown] = useState(false);
  const [filter, setFilter] = useState("");
  const [order, setOrder] = useState(CPU);
  const rows = useMemo(() => {
    if (!shown) return [];
    const found = [...model.nodes.values()].filter((row) => row[NODE].includes(filter));
    return order === NODE ? found.sort((a, b) => (a[NODE] < b[NODE] ? -1 : 1)) : found.sort((a, b) => (b[order] ?? -1) - (a[order] ?? -1));
  }, [shown, filter, order, version]);
  const head = (column, text) => html`<th scope="col" class=${column === NODE ? "" : "number"} aria-sort=${order === column ? (column === NODE ? "ascending" : "descending") : "none"}><button class="link" onClick=${() => setOrder(column)}>${text}</button></th>`;
  return html`<details class="table" onToggle=${(event) => setShown(event.target.open)}><summary>All nodes as a table</summary>
    ${shown && html`<p><label>Name contains <input type="search" value=${filter} onInput=${(event) => setFilter(event.target.value)} /></label> <span class="quiet">${count(rows.length, "node")}${rows.length > SHOWN_ROWS ? `, the first ${SHOWN_ROWS} are shown` : ""}</span></p>
    <div class="scroll" tabindex="0" role="region" aria-label="Nodes"><table><thead><tr>${head(NODE, "node")}${head(CPU, "CPU used")}${head(CPU_REQUESTS, "CPU requested")}${head(MEMORY, "memory used")}${head(MEMORY_REQUESTS, "memory requested")}${head(PODS, "pods")}<th scope="col">state</th></tr></thead>
      <tbody>${rows.slice(0, SHOWN_ROWS).map((row) => html`<tr key=${row[NODE]}><td><button class="link" onClick=${() => open("node", row[NODE])}>${row[NODE]}</button></td>
        <td class="number">${percent(row[CPU], 1)}</td><td class="number">${percent(row[CPU_REQUESTS], 1)}</td><td class="number">${percent(row[MEMORY], 1)}</td><td class="number">${percent(row[MEMORY_REQUESTS], 1)}</td><td class="number">${row[PODS] ?? "?"}</td><td>${row[UNKNOWN] ? `unknown: ${row[UNKNOWN]}` : (row[STATE] ?? "")}</td></tr>`)}</tbody></table></div>`}
  </details>`;
}

const OUTCOMES = {
  "": ["…", "proposed", "wait"], evicted: ["✓", "evicted", "good"], dry_run: ["○", "dry run", "dry"], rejected_limit: ["⏸", "limit reached", "warn"],
  blocked_pdb: ["⏸", "PodDisruptionBudget", "warn"], rejected_policy: ["✕", "protected", "warn"], rejected_fit: ["✕", "fits nowhere", "warn"],
  rejected_stale: ["✕", "data too old", "warn"], paused: ["⏸", "paused", "warn"], expired: ["✕", "expired", "warn"], already_gone: ["–", "already gone", "wait"],
  uid_changed: ["–", "replaced before", "wait"], failed: ["!", "failed", "bad"], unknown: ["?", "outcome unknown", "bad"],
};

function Became({ move }) {
  const parts = [];
  if (move.detail) parts.push(move.detail);
  if (move.placed_on) parts.push(move.placed_on === move.target ? "replacement placed as expected" : `replacement placed on ${shortNode(move.placed_on)}`);
  if (move.reduced != null) parts.push(move.reduced ? "load fell as expected" : "load did not fall as expected");
  return parts.length ? html`<p class="became">${parts.join("; ")}</p>` : null;
}

function Moves({ model, open }) {
  const moves = [...model.moves.values()].sort((a, b) => b.decided_at - a.decided_at);
  const waiting = moves.filter((move) => !move.outcome).length;
  return html`<section class="card moves" aria-labelledby="moves-title"><div class="title"><h2 id="moves-title">Moves</h2><span class="quiet" role="status">${waiting ? `${waiting} in progress` : ""}</span></div>
    ${moves.length === 0 ? html`<p class="empty">No move in the last 24 hours.</p>` : html`<ol class="feed" tabindex="0" aria-label="Moves, newest first">${moves.slice(0, SHOWN_MOVES).map((move) => {
      const [sign, text, tone] = OUTCOMES[move.outcome ?? ""] ?? ["?", move.outcome, "bad"];
      const name = `${move.namespace}/${move.pod}`;
      return html`<li key=${move.id}><span class=${`badge ${tone}`}><span aria-hidden="true">${sign} </span>${text}${move.limit ? `: ${move.limit}` : ""}</span><time>${clock(move.decided_at)}</time>
        <p class="what"><button class="link strong" onClick=${() => open("eviction", name)} aria-label=${`Explain the eviction of ${name}`}>${name}</button></p>
        <p class="way"><button class="link" onClick=${() => open("node", move.node)}>${shortNode(move.node)}</button><span aria-label="to"> → </span>${move.target ? html`<button class="link" onClick=${() => open("node", move.target)}>${shortNode(move.target)}</button>` : "any node"}
          ${move.workload && html`<span class="quiet"> · </span><button class="link quiet" onClick=${() => open("workload", move.workload)}>${shortName(move.workload)}</button>`}</p>
        <p class="reason">${move.without_gap ? "without a gap: " : ""}${move.reason}</p>${move.gain_and_cost && html`<p class="reason"><b>gain and cost</b>: ${move.gain_and_cost}</p>`}<${Became} move=${move} /></li>`;
    })}</ol>`}</section>`;
}

function Limits({ limits }) {
  if (!limits) return html`<section class="card"><h2>Limits in use</h2><p class="empty">Reading the eviction ledger.</p></section>`;
  if (limits.problem) return html`<section class="card"><h2>Limits in use</h2><p class="notice">Unknown: ${limits.problem}</p></section>`;
  return html`<section class="card" aria-labelledby="limits-title"><div class="title"><h2 id="limits-title">Limits in use</h2><span class="quiet">${count(limits.last_day ?? 0, "eviction")}, ${count(limits.dry_runs_last_day ?? 0, "dry run")} in 24 h</span></div>
    ${limits.halved_until && html`<p class="notice">Limits are halved until ${clock(limits.halved_until)}.</p>`}
    ${limits.usage_of_dry_runs && html`<p class="quiet">Used by dry runs, which take nothing from the limits of evictions.</p>`}
    ${(limits.configuration ?? []).map((line) => html`<p class="reason">${line}</p>`)}
    ${(limits.usage ?? []).length === 0 ? html`<p class="empty">No limit counts anything now.</p>` : html`<ul class="limits">${limits.usage.slice(0, 12).map((each) => {
      const most = each.allowed ?? (/^\d+$/.test(each.max) ? Number(each.max) : null);
      const share = most > 0 ? Math.min(1, each.counted / most) : null;
      return html`<li><span class="name">${each.limit}</span><span class="quiet">${each.scope}${each.window ? ` · ${each.window}` : ""}</span><span class="number">${each.counted} of ${most ?? each.max}${each.freeAt ? `, free again at ${clock(each.freeAt)}` : ""}</span>
        ${share != null && html`<span class=${`bar ${share >= 1 ? "full" : ""}`} aria-hidden="true"><i style=${{ width: `${100 * share}%` }}></i></span>`}</li>`;
    })}</ul>`}</section>`;
}

function Plan({ plan, open }) {
  if (!plan) return html`<section class="card"><h2>Plan</h2><p class="empty">Requesting a plan.</p></section>`;
  const moves = plan.moves ?? [], why = Object.entries(plan.why ?? {}), refusals = plan.refusals ?? {}, refused = Object.keys(refusals).length;
  return html`<section class="card" aria-labelledby="plan-title"><div class="title"><h2 id="plan-title">Plan</h2>${plan.planned_at && html`<span class="quiet">${count(moves.length, "pod")} would move${refused ? `, ${moves.length - refused || "none"} now by the limits` : ""}, at ${clock(plan.planned_at)}</span>`}</div>
    ${plan.problem && html`<p class="notice">Unknown: ${plan.problem}</p>`}
    ${plan.waiting > 0 && html`<p class="quiet">Nothing is proposed from ${count(plan.waiting, "hot node")} for about ${duration(plan.wait)}.</p>`}
    ${moves.length > 0 && html`<ul class="plan">${moves.slice(0, 20).map((move) => html`<li><button class="link strong" onClick=${() => open("pod", `${move.namespace}/${move.pod}`)}>${move.namespace}/${move.pod}</button>
      <span class="way"><button class="link" onClick=${() => open("node", move.node)}>${shortNode(move.node)}</button> → <button class="link" onClick=${() => open("node", move.target)}>${shortNode(move.target)}</button></span><span class="reason">${refusals[`${move.namespace}/${move.pod}`] ? `not now: ${refusals[`${move.namespace}/${move.pod}`]}; ` : ""}${move.later ? "later: " : ""}${move.without_gap ? "without a gap: " : ""}${move.reason}</span>
      ${plan.gains_and_costs?.[`${move.namespace}/${move.pod}`] && html`<span class="reason"><b>gain and cost</b>: ${plan.gains_and_costs[`${move.namespace}/${move.pod}`]}</span>`}</li>`)}</ul>`}
    ${moves.length > 20 && html`<p class="quiet">The first 20 of ${moves.length}: \`equipoise plan\` shows all.</p>`}
    ${plan.sentence && html`<p>${plan.sentence}</p>`}
    ${plan.dry_run_moves > 0 && html`<p class="quiet">Loads in the plan count ${count(plan.dry_run_moves, "dry-run move")} as done.</p>`}
    ${why.map(([strategy, text]) => html`<p class="reason"><b>${strategy}</b>: ${text}</p>`)}</section>`;
}

function UnknownList({ summary, open }) {
  const unknown = summary?.unknown ?? [];
  return html`<section class="card" aria-labelledby="unknown-title"><div class="title"><h2 id="unknown-title">What is unknown</h2></div>
    ${unknown.length === 0 ? html`<p class="empty good">✓ Nothing: all loads, limits and modes are known.</p>` : html`<ul class="unknown">${unknown.map((each) => html`<li><b>${each.count ? `${each.count.toLocaleString("en")} × ` : ""}${each.what}</b><span class="reason">${each.why}</span>
      ${each.nodes?.length > 0 && html`<span class="nodes">${each.nodes.slice(0, 6).map((node) => html`<button class="link" onClick=${() => open("node", node)}>${shortNode(node)}</button>`)}${each.count > 6 ? html`<span class="quiet">and ${(each.count - 6).toLocaleString("en")} more</span>` : ""}</span>`}</li>`)}</ul>`}</section>`;
}

function Services({ services }) {
  if (!services?.length) return null;
  return html`<section class="card wide" aria-labelledby="services-title"><div class="title"><h2 id="services-title">Services</h2></div><ul class="services">${services.map((each) => {
    const problems = each.problems ?? [], tone = !each.ready ? "bad" : problems.length ? "warn" : "good";
    return html`<li class=${tone}><b><span aria-hidden="true">${{ good: "✓", warn: "!", bad: "✕" }[tone]} </span>${each.service}</b><span class="quiet">${each.ready ? "ready" : "not ready"}${each.leading ? ", leads" : each.leading === false ? ", standby" : ""}</span><span class="id">${each.id}</span>${problems.map((text) => html`<span class="reason">${text}</span>`)}</li>`;
  })}</ul></section>`;
}

function App() {
  const [model, view] = useModel();
  const [subject, setSubject] = useState(null);
  const opener = useRef(null); // gets the focus back, also if further objects were opened in the drawer
  const open = useCallback((kind, name) => {
    opener.current ??= document.activeElement;
    setSubject({ kind, name });
  }, []);
  const close = useCallback(() => {
    setSubject(null);
    opener.current?.focus?.();
    opener.current = null;
  }, []);
  return html`<${Header} model=${model} view=${view} />
    <main><${Overview} model=${model} /><${Tiles} summary=${model.summary} />
      <div class="cards"><${Loads} model=${model} view=${view} open=${open} />
        <section class="card spread" aria-labelledby="spread-title"><div class="title"><h2 id="spread-title">Spread</h2><span class="quiet">highest minus lowest load, in points</span></div><${Spread} data=${model.points} /></section>
        <${Moves} model=${model} open=${open} />
        <${Plan} plan=${model.plan} open=${open} /><${Limits} limits=${model.limits} /><${UnknownList} summary=${model.summary} open=${open} />
        <${Services} services=${model.summary?.services} /></div></main>
    <footer><p>Read only. <a href="licenses.txt">Licenses of the libraries in this page</a></p></footer>
    <${Drawer} subject=${subject} open=${open} close=${close} />`;
}

render(html`<${App} />`, document.getElementById("app"));
