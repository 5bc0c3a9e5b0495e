// The page: what is looked at stands in the address, what is known comes from /api/v1 again and again.

import { Chart } from "./charts.js";
import { $, element, keyed, say, shape, visible } from "./dom.js";
import { LATE_SECONDS, showHealth, showVariants } from "./panels.js";
import { showMetrics, showSegments } from "./tables.js";
import { basis, isWhole, named, seconds, strength, time, verdict } from "./words.js";

const EVERY_MS = 3000;
const HIDDEN_EVERY_MS = 20000;
const PATIENCE_MS = 10000;
const RETRY_MS = [1000, 2000, 4000, 8000, 15000];
const FIRST_ROWS = 12;
const SHORTEST_S = 300;
const LIKED = ["RR", "Success", "nDCG", "P"];
const WHOLE = { grouping: "all", segment: "all" };
const THEMES = ["auto", "light", "dark"];

const charts = new Map();
const known = { health: null, paths: [], failures: 0, lostSince: null, round: 0, timer: null, rows: FIRST_ROWS };

// ---- what is looked at: the address ----

const wished = () => new URLSearchParams(location.hash.slice(1));

function look(change) {
  const wish = wished();
  for (const [name, value] of Object.entries(change)) wish.set(name, value);
  history.replaceState(null, "", `#${wish}`);
  start();
}

function chosen(health) {
  const wish = wished();
  const names = health.metrics.map((one) => one.metric);
  const windows = health.windows.map((one) => one.window);
  const liked = LIKED.map((family) => names.find((name) => name.split(/[@(]/)[0] === family)).find(Boolean);
  const long = health.windows.find((one) => one.seconds >= SHORTEST_S);
  return {
    metric: names.includes(wish.get("metric")) ? wish.get("metric") : liked ?? names[0],
    window: windows.includes(wish.get("window")) ? wish.get("window") : (long ?? health.windows.at(-1)).window,
    view: wish.get("view") === "live" ? "live" : "settled",
    segment: wish.has("segment") ? { grouping: wish.get("grouping") ?? "all", segment: wish.get("segment") } : null,
  };
}

function showControls(health, look_at) {
  keyed($("metric"), health.metrics, (one) => one.metric, (one) => element("option", { value: one.metric }, one.metric), () => {});
  if (document.activeElement !== $("metric")) $("metric").value = look_at.metric;
  const label = ({ window }) => element("label", {}, element("input", { type: "radio", name: "window", value: window }), element("span", {}, window));
  const [legend, ...old] = $("window").children;
  if (old.map((one) => one.textContent).join() !== health.windows.map((one) => one.window).join()) {
    $("window").replaceChildren(legend, ...health.windows.map(label));
  }
  for (const name of ["window", "view"]) {
    for (const input of $("controls").querySelectorAll(`input[name=${name}]`)) input.checked = input.value === look_at[name];
  }
  const settling = seconds(health.settling_seconds);
  say($("view-note"), look_at.view === "live"
    ? `Live reads up to now and still gathers feedback for ${settling}: a segment is called only where it moved against the rest as well.`
    : `Settled ends ${settling} ago: complete, nothing in it can change any more.`);
}

// ---- questions ----

async function ask(path, parameters = []) {
  const query = new URLSearchParams(parameters);
  const answer = await fetch(`api/v1/${path}${parameters.length ? `?${query}` : ""}`, { cache: "no-cache", signal: AbortSignal.timeout(PATIENCE_MS) });
  if (answer.ok) return answer.json();
  const said = await answer.json().catch(() => ({}));
  throw new Error(said.error ?? `${path}: status ${answer.status}`);
}

const pairs = ({ grouping, segment }) => [["grouping", grouping], ["segment", segment]];

// The strongest call of both views, as long as nobody chose a segment.
function mostMoved(settled, live) {
  const called = [...settled.changes, ...live.changes].filter((one) => ["worse", "better"].includes(one.verdict) && !isWhole(one));
  const [first] = called.sort((a, b) => strength(b) - strength(a));
  return first ? { grouping: first.grouping, segment: first.segment } : WHOLE;
}

async function questions(health, at) {
  const compared = (view) => ask("changes", [["window", at.window], ["view", view], ["metric", at.metric]]);
  const [settled, live, listed] = await Promise.all([compared("settled"), compared("live"), ask("segments")]);
  const segment = at.segment ?? mostMoved(settled, live);
  const exists = listed.groupings.some((one) => one.grouping === segment.grouping && one.segments.some((named_) => named_.segment === segment.segment));
  const of = (whose, { window }) => ask("history", [["metric", at.metric], ["window", window], ...pairs(whose)]);
  const groupings = listed.groupings.map((one) => one.grouping).filter((name) => /^experiment:[^,]*$/.test(name));
  const [metrics, own, whole, variants, experiments] = await Promise.all([
    ask("changes", [["window", at.window], ["view", at.view], ...pairs(segment)]),
    Promise.all(exists ? health.windows.map((one) => of(segment, one)) : []),
    Promise.all(exists && !isWhole(segment) ? health.windows.map((one) => of(WHOLE, one)) : []),
    Promise.all(groupings.map(async (grouping) => ({ grouping, scores: (await ask("scores", [["grouping", grouping], ["window", at.window], ["view", at.view]])).scores }))),
    known.paths.includes("/api/v1/experiments") ? ask("experiments") : { experiments: [] },
  ]);
  return { settled, live, segment, exists, metrics, own, whole, variants, experiments: experiments.experiments };
}

// ---- answers ----

function showVerdict(at, found) {
  const shown = found[at.view];
  const { text, tone, second } = verdict(found.settled, found.live);
  say($("headline"), visible(text));
  $("headline").className = tone;
  say($("second"), visible(second));
  $("second").hidden = !second;
  say($("basis"), `${at.metric} over ${at.window}. ${basis(shown, at.view)}`);
  document.title = `${tone === "worse" ? "▼ " : ""}${visible(text)} · relevanced`;
}

function showScores(health, at, found) {
  const shown = found[at.view];
  showVerdict(at, found);
  showSegments($("movers").querySelector("tbody"), shown.changes, shown.beyond, found.segment, known.rows);
  const more = shown.changes.length - FIRST_ROWS;
  $("more").hidden = more <= 0;
  say($("more"), known.rows > FIRST_ROWS ? "Show fewer" : `Show ${more} more`);
  const title = isWhole(found.segment) ? "everything" : visible(found.segment.segment);
  const grouping = isWhole(found.segment) ? " " : ` ${visible(found.segment.grouping)}, `;
  $("metrics-title").replaceChildren(`Every metric of ${title}`, element("small", {}, `${grouping}${at.window} ${at.view}`));
  showMetrics($("metrics").querySelector("tbody"), found.metrics.changes, found.metrics.beyond, at.metric);
  $("lines-title").replaceChildren(`${at.metric} of ${title}`, element("small", {}, `${grouping}as each window slid`));
  showCharts(health, at, found);
  showVariants($("experiments"), found.variants, found.experiments, at);
}

function showCharts(health, at, found) {
  const names = health.windows.map((one) => one.window);
  for (const name of names) if (!charts.has(name)) charts.set(name, new Chart(name));
  if (!found.exists) {
    $("charts").replaceChildren(element("p", { class: "quiet" }, "No traffic: this segment is not shown any more."));
    say($("lines-key"), "");
    return;
  }
  if ($("charts").childElementCount !== names.length || !$("charts").querySelector("figure")) {
    $("charts").replaceChildren(...names.map((name) => charts.get(name).node));
  }
  const own = found.metrics.changes.find((one) => one.metric === at.metric);
  names.forEach((name, place) => {
    const before = name === at.window ? own?.before.mean ?? null : null;
    charts.get(name).show(found.own[place], found.whole[place], before, `${at.metric} of ${named(found.segment)}`);
  });
  say($("lines-key"), `Band: 95 %. ${isWhole(found.segment) ? "" : "Thin line: everything. "}Dotted, over ${at.window}: what it is compared with. `
    + "Shaded: still gathering feedback. Bars below: traffic. Dots at the foot: undefined. Hatched: no traffic.");
}

function showLink() {
  const away = known.failures > 0;
  document.body.classList.toggle("away", away);
  $("lost").hidden = !away;
  const late = known.health?.behind_seconds > LATE_SECONDS ? `${seconds(known.health.behind_seconds)} late` : "";
  $("link").className = away ? "away" : known.health?.ready && !late ? "" : "ill";
  say($("link"), away ? "daemon lost" : !known.health?.ready ? "not well" : late || "up to date");
  if (!away) return;
  const wait = RETRY_MS[Math.min(known.failures, RETRY_MS.length) - 1];
  say($("lost"), `No answer from the daemon since ${time(known.lostSince, true)} (${known.reason}). What you see is from before. It is asked again every ${seconds(wait / 1000)}.`);
}

function showNothing(health) {
  const ill = health.conditions.filter((one) => !one.ok).map((one) => one.detail || one.name);
  const elsewhere = health.scores === "elsewhere";
  say($("headline"), elsewhere ? "This process writes lanes; the scores are served by another" : "No scores yet");
  const standby = "All is well here: another process holds the exporter's lease and serves them, or the first are on their way.";
  say($("basis"), elsewhere ? "Ask a process of role exporter or all." : ill.join("; ") || standby);
}

// ---- rounds ----

async function once(round) {
  const health = await ask("health");
  if (!known.paths.length) known.paths = Object.keys((await ask("openapi.json")).paths);
  const served = health.scores === "served";
  const at = served ? chosen(health) : null;
  const found = served && health.as_of ? await questions(health, at) : null;
  if (round !== known.round) return;
  known.health = health;
  showHealth(health);
  for (const name of ["controls", "movers", "metrics", "lines", "variants"]) $(name).hidden = !found;
  if (!found) return showNothing(health);
  showControls(health, at);
  showScores(health, at, found);
}

async function start() {
  clearTimeout(known.timer);
  const round = (known.round += 1);
  try {
    await once(round);
    if (round !== known.round) return;
    known.failures = 0;
    known.lostSince = null;
  } catch (error) {
    if (round !== known.round) return;
    known.failures += 1;
    known.lostSince ??= Date.now();
    known.reason = error.name === "TypeError" ? "no connection" : error.message;
  }
  showLink();
  const retry = RETRY_MS[Math.min(known.failures, RETRY_MS.length) - 1];
  known.timer = setTimeout(start, known.failures ? retry : document.hidden ? HIDDEN_EVERY_MS : EVERY_MS);
}

// ---- theme and wiring ----

function useTheme(theme) {
  document.documentElement.dataset.theme = theme;
  say($("theme"), `Theme: ${theme}`);
}

function nextTheme() {
  const theme = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length];
  localStorage.setItem("theme", theme);
  useTheme(theme);
}

function pick(event) {
  const { grouping, segment, metric } = event.target.closest("button")?.dataset ?? {};
  if (segment !== undefined) look({ grouping, segment });
  else if (metric !== undefined) look({ metric });
}

document.body.append(shape("svg", { id: "definitions", "aria-hidden": "true" }, shape("defs", {},
  shape("pattern", { id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    shape("path", { d: "M0 0V6" })))));
useTheme(THEMES.includes(localStorage.getItem("theme")) ? localStorage.getItem("theme") : "auto");
$("theme").addEventListener("click", nextTheme);
$("controls").addEventListener("submit", (event) => event.preventDefault());
$("controls").addEventListener("change", (event) => look({ [event.target.name]: event.target.value }));
$("movers").addEventListener("click", pick);
$("metrics").addEventListener("click", pick);
$("more").addEventListener("click", () => {
  known.rows = known.rows > FIRST_ROWS ? FIRST_ROWS : Infinity;
  start();
});
addEventListener("hashchange", start);
document.addEventListener("visibilitychange", () => document.hidden || start());
start();
