// Numbers and times as text. Unknown is "?", never 0.

export const percent = (share, digits = 0) => (share == null ? "?" : `${(100 * share).toFixed(digits)} %`);
export const points = (share) => (share == null ? "?" : (100 * share).toFixed(1));
export const count = (number, one, many = `${one}s`) => `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
export const money = (amount, currency) => `${amount.toLocaleString("en", { maximumFractionDigits: amount < 100 ? 2 : 0 })}${currency ? ` ${currency}` : ""}`;
export const cores = (value) => (value == null ? "?" : value.toFixed(2));
export const gib = (value) => (value == null ? "?" : (value / 2 ** 30).toFixed(2));

export function clock(seconds) {
  return new Date(1000 * seconds).toLocaleTimeString("en-GB");
}

export function duration(seconds) {
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60]]) {
    if (seconds >= 2 * size) return `${Math.round(seconds / size)} ${unit}`;
  }
  return `${Math.max(0, Math.round(seconds))} s`;
}

// deployment/shop/web → web
export const shortName = (workload) => workload.split("/").at(-1);
export const shortNode = (node) => node.split(".")[0];
