// The color of a load: pale to strong on light, dark to bright on dark. Lightness changes in one direction only, so
// that the order is visible without color vision, too.

const STOPS = {
  light: [[0, "#e6f3f1"], [0.25, "#a8d8cf"], [0.45, "#f1dc8f"], [0.65, "#f2ab57"], [0.8, "#e0603a"], [1, "#97161f"]],
  dark: [[0, "#17303a"], [0.25, "#1d5c63"], [0.45, "#6b8a4e"], [0.65, "#d99a32"], [0.8, "#ff7a45"], [1, "#ffb3a6"]],
};

const channels = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

function ramp(stops) {
  return Array.from({ length: 101 }, (_, index) => {
    const load = index / 100;
    const above = Math.max(1, stops.findIndex(([at]) => at >= load));
    const [[low, from], [high, to]] = [stops[above - 1], stops[above]];
    const part = (load - low) / (high - low), start = channels(from), end = channels(to);
    const rgb = start.map((value, each) => Math.round(value + part * (end[each] - value)));
    const linear = rgb.map((value) => (value / 255 <= 0.04045 ? value / 3294.6 : ((value / 255 + 0.055) / 1.055) ** 2.4));
    const luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
    return { fill: `rgb(${rgb.join(" ")})`, text: luminance > 0.19 ? "#0b1215" : "#ffffff" }; // the higher contrast of both
  });
}

const RAMPS = { light: ramp(STOPS.light), dark: ramp(STOPS.dark) };

export const dark = matchMedia("(prefers-color-scheme: dark)");
export const scheme = () => (dark.matches ? "dark" : "light");
// For many loads at once: whether the system is dark is slow to find out.
export function colors() {
  const ramp = RAMPS[scheme()];
  return (load) => ramp[Math.max(0, Math.min(100, Math.round(100 * load)))];
}
export const legend = () => RAMPS[scheme()].filter((_, index) => index % 5 === 0).map(({ fill }) => fill);

// A custom property as a color that a canvas accepts: it has no light-dark().
export function token(name) {
  const probe = document.createElement("i");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}
