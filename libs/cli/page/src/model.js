// The view as the server sends it: a snapshot, then changes. Pure but for the object it changes.

export const NODE = 0, CPU = 1, MEMORY = 2, UNKNOWN = 3, CPU_REQUESTS = 4, MEMORY_REQUESTS = 5, PODS = 6, STATE = 7, SET_APART = 8, EMPTIED = 9, FURTHER = 10, WAITS = 11;

export const RESOURCES = {
  cpu: { title: "CPU", column: CPU, requests: CPU_REQUESTS },
  memory: { title: "Memory", column: MEMORY, requests: MEMORY_REQUESTS },
};

const MAX_MOVES = 500, MAX_POINTS = 1500;
const byName = new Intl.Collator("en", { numeric: true }).compare;

export function emptyModel() {
  return {
    nodes: new Map(), names: [], moves: new Map(), points: [], summary: null, plan: null, savings: null, limits: null, connection: null,
  };
}

export function applyChanges(model, changes) {
  let members = false;
  for (const name of changes.removed ?? []) members = model.nodes.delete(name) || members;
  for (const row of changes.nodes ?? []) {
    members ||= !model.nodes.has(row[NODE]);
    model.nodes.set(row[NODE], row);
  }
  if (members) model.names = [...model.nodes.keys()].sort(byName);
  for (const move of changes.moves ?? []) model.moves.set(move.id, move);
  if (changes.moves?.length) {
    const newest = [...model.moves.values()].sort((a, b) => b.decided_at - a.decided_at).slice(0, MAX_MOVES);
    model.moves = new Map(newest.map((move) => [move.id, move]));
  }
  const last = model.points.at(-1)?.[0] ?? 0;
  model.points.push(...(changes.points ?? []).filter((point) => point[0] > last));
  if (model.points.length > MAX_POINTS) model.points.splice(0, model.points.length - MAX_POINTS);
  for (const part of ["summary", "plan", "savings", "limits", "connection"]) {
    if (changes[part] != null) model[part] = changes[part];
  }
}

export function orderedNames(model, order, column) {
  if (order === "name") return model.names;
  const load = (name) => model.nodes.get(name)[column] ?? -1;
  return [...model.names].sort((a, b) => load(b) - load(a));
}

// One sentence, for the tooltip and for screen readers.
export function describe(row, before, ago) {
  const value = (share) => (share == null ? "unknown" : `${(100 * share).toFixed(1)} %`);
  const was = before ? `, ${ago} ago CPU ${value(before[0])}, memory ${value(before[1])}` : "";
  const parts = [`CPU ${value(row[CPU])}, memory ${value(row[MEMORY])} used${was}`];
  const further = Object.entries(row[FURTHER] ?? {}).sort().map(([name, share]) => `${name} ${value(share)}`);
  if (further.length) parts.push(further.join(", "));
  if (row[WAITS]) parts.push(`processes wait for ${row[WAITS]} of the time`);
  if (row[PODS] != null) parts.push(`${value(row[CPU_REQUESTS])} of CPU, ${value(row[MEMORY_REQUESTS])} of memory requested by ${row[PODS]} pods`);
  else parts.push("requests unknown");
  if (row[STATE] === "hot") parts.push("hot: above its threshold");
  else if (row[STATE] === "idle") parts.push("idle: takes moved pods");
  if (row[SET_APART]) parts.push(`not counted for the spread: ${row[SET_APART]}`);
  if (row[EMPTIED]) parts.push(row[EMPTIED]);
  if (row[UNKNOWN]) parts.push(`unknown: ${row[UNKNOWN]}`);
  return parts.join(". ");
}
