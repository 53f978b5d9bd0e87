// Writes the page into the Python package, or into the folder that is given: node build.mjs [FOLDER].
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2] ?? join(here, "../src/equipoise/cli/views/page/static");
mkdirSync(out, { recursive: true });

// A test compares this hash with the sources: it needs no Node.
const sources = ["package.json", "build.mjs", ...readdirSync(join(here, "src")).sort().map((name) => `src/${name}`)];
const hash = createHash("sha256");
for (const name of sources) hash.update(`${name}\0`).update(readFileSync(join(here, name))).update("\0");
const banner = `/* Built from libs/cli/page (npm run build), sources sha256 ${hash.digest("hex")}. Licenses: licenses.txt. */`;

const options = { bundle: true, minify: true, legalComments: "none", absWorkingDir: here, charset: "utf8" };
await build({ ...options, entryPoints: ["src/main.js"], outfile: join(out, "app.js"), format: "esm", target: "es2022", banner: { js: banner } });
await build({ ...options, entryPoints: ["src/app.css"], outfile: join(out, "app.css"), target: "chrome123", banner: { css: banner } });
writeFileSync(join(out, "index.html"), readFileSync(join(here, "src/index.html")));

const license = (name) => {
  const file = readdirSync(join(here, "node_modules", name)).find((each) => /^licen[cs]e/i.test(each));
  const { version } = JSON.parse(readFileSync(join(here, "node_modules", name, "package.json")));
  return `${name} ${version}\n\n${readFileSync(join(here, "node_modules", name, file), "utf8").trim()}\n`;
};
const line = `\n${"-".repeat(80)}\n\n`;
const intro = "The page of `equipoise dashboard` contains these libraries.\n";
writeFileSync(join(out, "licenses.txt"), [intro, ...["preact", "htm", "uplot"].map(license)].join(line));
