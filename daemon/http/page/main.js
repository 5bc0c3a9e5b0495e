// The page. What is selected is kept in the address; the rest is requested from /api/v1 every few seconds.

import { select, selection } from "./address.js";
import { Chart } from "./charts.js";
import { $, element, keyed, setText, shape, visible } from "./dom.js";
import { headlineChange, showHeadline } from "./headline.js";
import { sharedWith, showOpen } from "./open.js";
import { SPANS } from "./hours.js";
import { JudgedPanel } from "./judgedpanel.js";
import { showHealth, showVariants } from "./panels.js";
import { QueryPanel } from "./querypanel.js";
import { ask, requestAll } from "./requests.js";
import { showMetrics, showSegments } from "./tables.js";
import { LATE_SECONDS, isWhole, named, seconds, stale, time } from "./words.js";

const EVERY_MS = 3000;
const HIDDEN_EVERY_MS = 20000;
const RETRY_MS = [1000, 2000, 4000, 8000, 15000];
const FIRST_ROWS = 12;
const THEMES = ["auto", "light", "dark"];

const charts = new Map();
const hourly = new Chart("an hour", "hour by hour");
const queries = new QueryPanel();
const judged = new JudgedPanel();
const state = { health: null, failures: 0, lostSince: null, headlined: undefined, unsettled: false, round: 0, timer: null, rows: FIRST_ROWS };

// ---- display ----

function showControls(health, selected) {
  keyed($("metric"), health.metrics, (one) => one.metric, (one) => element("option", { value: one.metric }, one.metric), () => {});
  // Only a new selection is set: the list may be open, and the user about to choose.
  if ($("metric").dataset.shown !== selected.metric) $("metric").value = $("metric").dataset.shown = selected.metric;
  const label = ({ window }) => element("label", {}, element("input", { type: "radio", name: "window", value: window }), element("span", {}, window));
  const [legend, ...old] = $("window").children;
  if (old.map((one) => one.textContent).join() !== health.windows.map((one) => one.window).join()) {
    $("window").replaceChildren(legend, ...health.windows.map(label));
  }
  for (const name of ["window", "view"]) {
    for (const input of $("controls").querySelectorAll(`input[name=${name}]`)) input.checked = input.value === selected[name];
  }
  $("view").disabled = selected.ofHours;
  $("against").value = selected.against;
  const settling = seconds(health.settling_seconds);
  if (selected.ofHours) return setText($("view-note"), "The last settled hours as a whole: 1, 6 or 24 of them, the fewest that are as long as the window.");
  setText($("view-note"), selected.view === "live"
    ? `Live ends now, and feedback for it still arrives for ${settling}. A segment is called only if it also changed against the rest.`
    : `Settled ends ${settling} ago and is complete: nothing in it can change any more.`);
}

function showScores(health, at, found) {
  const { shown } = found;
  const shared = (change) => (change.verdict === "diluted" ? sharedWith(found.settled, change) : "");
  showHeadline(at, found, health.runbook);
  showOpen($("open"), found.settled, found.settled.headline);
  showSegments($("movers").querySelector("tbody"), shown.changes, shown.beyond, found.segment, state.rows, shared);
  const more = shown.changes.length - FIRST_ROWS;
  $("more").hidden = more <= 0;
  setText($("more"), state.rows > FIRST_ROWS ? "Show fewer" : `Show ${more} more`);
  const title = isWhole(found.segment) ? "everything" : visible(found.segment.segment);
  const grouping = isWhole(found.segment) ? " " : ` ${visible(found.segment.grouping)}, `;
  $("metrics-title").replaceChildren(`Every metric of ${title}`, element("small", {}, `${grouping}${at.window} ${at.view}`));
  showMetrics($("metrics").querySelector("tbody"), found.metrics.changes, found.metrics.beyond, at.metric, shared);
  $("lines-title").replaceChildren(`${at.metric} of ${title}`, element("small", {}, `${grouping}as each window slid`));
  showCharts(health, at, found);
  showVariants($("experiments"), found.variants, found.experiments, at);
}

// Hour by hour, as far back as selected.
function showHours(at, { byHour, change, markers, segment, metrics }) {
  const hasHours = Boolean(byHour?.own.panes.length);
  $("hours").hidden = !hasHours;
  if (!hasHours) return;
  for (const input of $("span").querySelectorAll("input")) input.checked = SPANS[input.value] === byHour.span;
  const before = at.ofHours ? metrics.changes.find((one) => one.metric === at.metric)?.before.mean ?? null : null;
  hourly.show(byHour.own, byHour.whole, before, change, markers, `${at.metric} of ${named(segment)}`);
}

function showCharts(health, at, found) {
  const names = health.windows.map((one) => one.window);
  for (const name of names) if (!charts.has(name)) charts.set(name, new Chart(name));
  if (!found.exists) {
    $("charts").replaceChildren(element("p", { class: "quiet" }, "No traffic: this segment is not shown any more."));
    setText($("lines-key"), "");
    $("hours").hidden = true;
    return;
  }
  if ($("charts").childElementCount !== names.length || !$("charts").querySelector("figure")) {
    $("charts").replaceChildren(...names.map((name) => charts.get(name).node));
  }
  const own = found.metrics.changes.find((one) => one.metric === at.metric);
  const { change } = found;
  names.forEach((name, index) => {
    const before = name === at.window && !at.ofHours ? own?.before.mean ?? null : null;
    charts.get(name).show(found.own[index], found.whole[index], before, change, found.markers, `${at.metric} of ${named(found.segment)}`);
  });
  showHours(at, found);
  setText($("lines-key"), `Band: 95 %. ${isWhole(found.segment) ? "" : "Thin line: everything. "}Dotted${at.ofHours ? "" : `, over ${at.window}`}: the mean that it is compared with. `
    + `${change ? "Upright line: since when the change is open, in a band for its interval. " : ""}`
    + `${found.markers.length ? "Dashed upright lines: releases and plans. " : ""}`
    + "Shaded and dashed: still gathering feedback. Bars below: traffic. Dots at the foot: undefined. Hatched: no traffic, or lost.");
}

function showLink() {
  const away = state.failures > 0;
  document.body.classList.toggle("away", away);
  $("lost").hidden = !away;
  const late = state.health?.behind_seconds > LATE_SECONDS ? `${seconds(state.health.behind_seconds)} late` : "";
  $("link").className = away ? "away" : state.health?.ready && !late ? "" : "ill";
  setText($("link"), away ? "daemon lost" : !state.health?.ready ? "not ready" : late || (state.health.recording ? "recorded" : "up to date"));
  if (!away) return;
  const wait = RETRY_MS[Math.min(state.failures, RETRY_MS.length) - 1];
  setText($("lost"), `No answer from the daemon since ${time(state.lostSince, true)} (${state.reason}). The page shows the last answer and tries again every ${seconds(wait / 1000)}.`);
}

function showNothing(health) {
  // A topic that cannot be read is no fault of the process, but it is why there are no scores.
  const why = (one) => !one.ok || (one.name === "events" && one.detail);
  const ill = health.conditions.filter(why).map((one) => one.detail || one.name);
  const elsewhere = health.scores === "elsewhere";
  setText($("headline"), elsewhere ? "This process is a worker: others serve the scores" : "No scores yet");
  setText($("basis"), elsewhere ? "Open the page of a process of role exporter or all." : ill.join("; ") || "The first ones are still being computed.");
}

// ---- updates ----

async function update(round) {
  const health = await ask("health");
  const served = health.scores === "served";
  let at = served ? selection(health, state) : null;
  let found = served && health.as_of ? await requestAll(health, at) : null;
  if (found) {
    const headlined = headlineChange(found.settled);
    state.headlined = headlined?.judged ? undefined : headlined?.metric;
    state.unsettled = Boolean(health.recording) && !found.settled.settled_until;
    const now = selection(health, state);
    if (now.metric !== at.metric || now.view !== at.view) {
      at = now;
      found = await requestAll(health, at);
    }
  }
  if (round !== state.round) return;
  state.health = health;
  showHealth(health);
  setText($("stale"), stale(health));
  $("stale").hidden = !$("stale").textContent;
  for (const name of ["controls", "movers", "metrics", "lines", "variants"]) $(name).hidden = !found;
  queries.show(health, at, found);
  judged.show(health, at, found);
  if (!found) for (const name of ["open", "second"]) $(name).hidden = true;
  if (!found) return showNothing(health);
  showControls(health, at);
  showScores(health, at, found);
}

async function refresh() {
  clearTimeout(state.timer);
  const round = (state.round += 1);
  try {
    await update(round);
    if (round !== state.round) return;
    state.failures = 0;
    state.lostSince = null;
  } catch (error) {
    if (round !== state.round) return;
    state.failures += 1;
    state.lostSince ??= Date.now();
    state.reason = error.name === "TypeError" ? "no connection" : error.message;
  }
  showLink();
  const retry = RETRY_MS[Math.min(state.failures, RETRY_MS.length) - 1];
  state.timer = setTimeout(refresh, state.failures ? retry : document.hidden ? HIDDEN_EVERY_MS : EVERY_MS);
}

// ---- theme and wiring ----

function useTheme(theme) {
  document.documentElement.dataset.theme = theme;
  setText($("theme"), `Theme: ${theme}`);
}

function nextTheme() {
  const theme = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length];
  localStorage.setItem("theme", theme);
  useTheme(theme);
}

function choose(change) {
  select(change);
  refresh();
}

function pick(event) {
  const { grouping, segment, metric, judged: graded } = event.target.closest("button")?.dataset ?? {};
  const wanted = { grouping, segment, metric };
  const given = Object.entries(wanted).filter(([, value]) => value !== undefined);
  if (!given.length) return;
  if (graded) judged.select(graded);
  choose(Object.fromEntries(given));
  if (event.target.closest("#verdict, #open")) $(graded ? "judged-title" : "lines-title").focus(); // below the tables, so it scrolls there
}

document.body.append(shape("svg", { id: "definitions", "aria-hidden": "true" }, shape("defs", {},
  shape("pattern", { id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    shape("path", { d: "M0 0V6" })))));
useTheme(THEMES.includes(localStorage.getItem("theme")) ? localStorage.getItem("theme") : "auto");
$("theme").addEventListener("click", nextTheme);
$("controls").addEventListener("submit", (event) => event.preventDefault());
for (const name of ["controls", "span"]) $(name).addEventListener("change", (event) => choose({ [event.target.name]: event.target.value }));
$("hours").append(hourly.node);
for (const name of ["movers", "metrics", "verdict", "open"]) $(name).addEventListener("click", pick);
queries.wire(choose);
judged.wire();
$("more").addEventListener("click", () => {
  state.rows = state.rows > FIRST_ROWS ? FIRST_ROWS : Infinity;
  refresh();
});
// A jump to the address #movers-title would lose what is selected there.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  $("movers-title").focus();
});
addEventListener("hashchange", refresh);
addEventListener("popstate", refresh);
document.addEventListener("visibilitychange", () => document.hidden || refresh());
refresh();
