// The page. What is selected is kept in the address; the rest is requested from /api/v1 every few seconds.

import { showAcknowledged, wireAcknowledging } from "./acknowledge.js";
import { openFolds, select, selection } from "./address.js";
import { Chart } from "./charts.js";
import { clockText } from "./clock.js";
import { $, element, keyed, setText, shape, visible } from "./dom.js";
import { showFolds, unfold, wireFolds } from "./folds.js";
import { absentText, headlineAlert, headlineMetric, linkedChange, showHeadline, toldChange } from "./headline.js";
import { showOpen, whyLow } from "./open.js";
import { SPANS } from "./hours.js";
import { BEYOND } from "./judged.js";
import { JudgedPanel } from "./judgedpanel.js";
import { showHealth, showVariants } from "./panels.js";
import { QueryPanel } from "./querypanel.js";
import { NoAnswer, ask, reasonOf, requestAll } from "./requests.js";
import { findsClick, plain, subject } from "./headlinewords.js";
import { RANGES, beginOf, levelBefore, stepsOf, usualOf } from "./steps.js";
import { firstRows, ordered, restOf, showMetrics, showSegments } from "./tables.js";
import { nextTheme, theme } from "./theme.js";
import { WideChart } from "./widechart.js";
import { LATE_SECONDS, early, isWhole, named, seconds, spoken, stale, time } from "./words.js";

const EVERY_MS = 3000;
const HIDDEN_EVERY_MS = 20000;
const RETRY_MS = [1000, 2000, 4000, 8000, 15000];
const FILTER_FROM = 12; // so many segments can be filtered

const charts = new Map();
const wide = new WideChart();
const hourly = new Chart("an hour", "hour by hour");
const queries = new QueryPanel();
const judged = new JudgedPanel();
const state = { health: null, failures: 0, failure: null, lostSince: null, headlined: undefined, onlyLive: false, round: 0, timer: null };

// ---- display ----

// `graded`: a change that judgements alone show, whose metric is shown until another one is selected.
function showControls(health, selected, graded) {
  const byJudgements = graded ? [{ metric: "", text: `${graded.metric} by judgements` }] : [];
  const words = (metric) => (plain(metric) ? `${plain(metric)} (${metric})` : metric);
  keyed($("metric"), [...byJudgements, ...health.metrics], (one) => one.metric, ({ metric }) => element("option", { value: metric }),
    (option, { metric, text }) => setText(option, text ?? words(metric)));
  // Only a new selection is set: the list may be open, and the user about to choose.
  const shown = graded ? "" : selected.metric;
  if ($("metric").dataset.shown !== shown) $("metric").value = $("metric").dataset.shown = shown;
  const label = ({ window }) => element("label", {}, element("input", { type: "radio", name: "window", value: window }), element("span", {}, window));
  const [legend, ...old] = $("window").children;
  if (old.map((one) => one.textContent).join() !== health.windows.map((one) => one.window).join()) {
    $("window").replaceChildren(legend, ...health.windows.map(label));
  }
  for (const name of ["window", "view"]) {
    for (const input of $("controls").querySelectorAll(`input[name=${name}]`)) input.checked = input.value === selected[name];
  }
  for (const input of $("range").querySelectorAll("input")) input.checked = input.value === (RANGES[selected.range] ? selected.range : "6h");
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
  const why = (change) => whyLow(found.settled, change);
  showHeadline(health, at, found);
  showAcknowledged(toldChange(health, found), found.settled.as_of, health);
  setText($("absent"), absentText(at, found));
  $("absent").hidden = !$("absent").textContent;
  showOpen($("open"), found.settled);
  showWide(health, at, found);
  showWhere(at, found, why);
  const title = isWhole(found.segment) ? "everything" : visible(spoken(found.segment.segment));
  const grouping = isWhole(found.segment) ? " " : ` ${visible(found.segment.grouping)}, `;
  $("metrics-title").replaceChildren(`Every metric of ${title}`, element("small", {}, `${grouping}${at.window} ${at.view}`));
  showMetrics($("metrics").querySelector("tbody"), found.metrics.changes, found.metrics.beyond, at.metric, why, new Map(health.metrics.map((one) => [one.metric, one.meaning])));
  $("lines-title").replaceChildren(`${at.metric} of ${title}`, element("small", {}, `${grouping}as each window slid`));
  showCharts(health, at, found);
  showVariants($("experiments"), found.variants, found.experiments, at);
}

// The segments that moved, and in a line what the others are; all of them once that is opened.
function showWhere(at, { shown, graded, segment }, why) {
  const { changes, beyond } = graded ? { changes: graded.rows, beyond: BEYOND } : shown;
  const wanted = $("filter").value.trim().toLowerCase();
  const first = firstRows(changes, segment);
  const matching = changes.filter((one) => `${named(one)} ${one.grouping}`.toLowerCase().includes(wanted));
  const rows = wanted ? ordered(matching) : at.showsAll ? ordered(changes) : first;
  showSegments($("movers").querySelector("tbody"), rows, beyond, segment, why, !graded && findsClick(at.metric) && !at.showsAll);
  $("sift").hidden = changes.length < FILTER_FROM;
  $("movers").classList.toggle("full", at.showsAll);
  $("more").hidden = Boolean(wanted) || first.length === changes.length;
  setText($("more"), at.showsAll ? "Show fewer" : restOf(changes, first));
  $("more").setAttribute("aria-expanded", at.showsAll);
}

// What the wide chart is of: the score of a change that judgements alone show, else the selected metric.
function charted(health, at, found) {
  const { segment, graded, own, byHour } = found;
  if (graded) {
    const row = graded.rows.find((one) => one.grouping === segment.grouping && one.segment === segment.segment);
    return { metric: `${graded.metric} by judgements`, change: graded.change, own: graded.panes, hours: null, before: row?.before.mean ?? null };
  }
  const meaning = plain(at.metric) ? null : health.metrics.find((one) => one.metric === at.metric)?.meaning;
  const before = found.metrics.changes.find((one) => one.metric === at.metric)?.before.mean ?? null;
  return { metric: at.metric, change: found.change, meaning, own, hours: byHour?.all, before };
}

// The subject of the headline, or what has been selected, over time; the change's onset is in view.
function showWide(health, at, found) {
  const { segment, settled, markers } = found;
  const { metric, meaning, own, hours, before, change: open } = charted(health, at, found);
  const { parts } = settled.headline;
  const isTold = ["open", "partly", "planned", "repaired"].includes(parts?.state) && parts.grouping === segment.grouping && parts.segments.includes(segment.segment);
  const change = open ?? (isTold ? { onset: parts.onset, direction: "worse" } : null);
  const ended = isTold ? parts.ended ?? parts.better : null;
  const history = own.at(-1);
  $("wide").hidden = !history;
  if (!history) return;
  const begin = beginOf(at.range, change?.onset, history.as_of);
  const steps = stepsOf([...own, hours], begin, history.as_of);
  const usual = usualOf(steps, hours, change?.onset, levelBefore(steps, change?.onset) ?? before);
  const name = isWhole(segment) ? "Everything" : visible(spoken(segment.segment));
  setText($("subject"), name);
  setText($("means"), meaning ? `${metric}: ${meaning}` : "");
  wide.showSteps({
    history, begin, steps, usual, change, ended, markers, isShare: findsClick(metric),
    label: `${metric} of ${named(segment)}`, title: isTold ? `${subject(parts)} is what the headline tells` : "",
  });
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
  const isLost = state.failure instanceof NoAnswer;
  document.body.classList.toggle("away", away);
  $("lost").hidden = !away;
  const late = state.health?.behind_seconds > LATE_SECONDS ? `${seconds(state.health.behind_seconds)} late` : "";
  $("link").className = away ? "away" : state.health?.ready && !late ? "" : "ill";
  setText($("link"), away ? (isLost ? "daemon lost" : "cannot be shown") : !state.health?.ready ? "not ready" : late || (state.health.recording ? "recorded" : "up to date"));
  if (!away) return;
  const wait = RETRY_MS[Math.min(state.failures, RETRY_MS.length) - 1];
  const why = reasonOf(state.failure);
  const text = isLost ? `No answer from the daemon since ${time(state.lostSince, true)} (${why}). The page shows the last answer and tries` : `${why} It tries`;
  setText($("lost"), `${text} again every ${seconds(wait / 1000)}.`);
}

function showNothing(health) {
  // A topic that cannot be read is no fault of the process, but it is why there are no scores.
  const why = (one) => !one.ok || (one.name === "events" && one.detail);
  const ill = health.conditions.filter(why).map((one) => one.detail || one.name);
  const elsewhere = health.scores === "elsewhere";
  $("verdict").className = "wait";
  setText($("headline"), elsewhere ? "This process is a worker: others serve the scores" : "No scores yet");
  setText($("second"), elsewhere ? "Open the page of a process of role exporter or all." : ill.join("; ") || "The first ones are still being computed.");
}

// The folds that have nothing to show.
function hiddenFolds(health, found) {
  if (!found) return ["todo", "changes", "every", "searches", "judgements", "compared", "basis"];
  const { open, standing, undecided = [], closed } = found.settled;
  const hidden = [];
  if (!headlineAlert(health, found)) hidden.push("todo");
  if (![...open, ...standing, ...undecided, ...closed].length) hidden.push("changes");
  if (!health.judged_metrics?.length) hidden.push("judgements");
  return hidden;
}

// ---- updates ----

async function update(round) {
  const health = await ask("health");
  const served = health.scores === "served";
  let at = served ? selection(health, state) : null;
  let found = served && health.as_of ? await requestAll(health, at) : null;
  if (found) {
    const linked = linkedChange(found.settled, at.change);
    state.headlined = linked && !linked.judged ? linked.metric : headlineMetric(found.settled);
    state.onlyLive = Boolean(early(found.live, found.settled)) || (Boolean(health.recording) && !found.settled.settled_until);
    const now = selection(health, state);
    if (now.metric !== at.metric || now.view !== at.view) {
      at = now;
      found = await requestAll(health, at);
    }
  }
  if (round !== state.round) return;
  state.health = health;
  showHealth(health);
  for (const [id, text] of [["stale", stale(health)], ["skew", clockText()]]) {
    setText($(id), text);
    $(id).hidden = !text;
  }
  showFolds(openFolds(), hiddenFolds(health, found));
  for (const name of ["controls", "movers", "metrics", "lines", "variants"]) $(name).hidden = !found;
  queries.show(health, at, found);
  judged.show(health, at, found);
  if (!found) for (const name of ["open", "wide", "cause", "acknowledged", "acts", "absent"]) $(name).hidden = true;
  $("second").hidden = false;
  if (!found) return showNothing(health);
  showControls(health, at, found.graded);
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
    state.failure = error;
    if (!(error instanceof NoAnswer)) console.error(error);
  }
  showLink();
  const retry = RETRY_MS[Math.min(state.failures, RETRY_MS.length) - 1];
  state.timer = setTimeout(refresh, state.failures ? retry : document.hidden ? HIDDEN_EVERY_MS : EVERY_MS);
}

// ---- wiring ----

const showTheme = () => setText($("theme"), `Theme: ${theme()}`);

function choose(change) {
  select(change);
  refresh();
}

function pick(event) {
  const { grouping, segment, metric, judged: graded } = event.target.closest("button")?.dataset ?? {};
  const wanted = { grouping, segment, metric };
  const given = Object.entries(wanted).filter(([, value]) => value !== undefined);
  if (!given.length) return;
  const leads = Boolean(event.target.closest("#open"));
  if (graded) judged.select(graded, leads);
  choose(Object.fromEntries(given));
  if (!leads) return;
  if (graded) unfold("judgements");
  else $("metric").focus();
}

document.body.append(shape("svg", { id: "definitions", "aria-hidden": "true" }, shape("defs", {},
  shape("pattern", { id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    shape("path", { d: "M0 0V6" })))));
showTheme();
$("theme").addEventListener("click", () => {
  nextTheme();
  showTheme();
});
for (const name of ["lead", "controls"]) $(name).addEventListener("submit", (event) => event.preventDefault());
for (const name of ["lead", "controls", "span"]) $(name).addEventListener("change", (event) => choose({ [event.target.name]: event.target.value || null }));
$("hours").append(hourly.node);
$("wide-chart").append(wide.node);
wireFolds();
wireAcknowledging(refresh);
$("acts").addEventListener("click", (event) => {
  const { unfold: name } = event.target.dataset;
  if (name) unfold(name);
});
for (const name of ["movers", "metrics", "open"]) $(name).addEventListener("click", pick);
queries.wire(choose);
judged.wire();
$("more").addEventListener("click", () => choose({ rows: selection(state.health, state).showsAll ? null : "all" }));
$("filter").addEventListener("input", refresh);
// A jump to the address #movers-title would lose what is selected there.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  $("movers-title").focus();
});
addEventListener("hashchange", refresh);
addEventListener("popstate", refresh);
document.addEventListener("visibilitychange", () => document.hidden || refresh());
refresh();
