// The variants of experiments side by side, and the state of the pipeline.

import { byDay } from "./days.js";
import { $, element, keyed, setText, visible } from "./dom.js";
import { outcomes } from "./outcomes.js";
import { estimate, interval } from "./tables.js";
import { LATE_SECONDS, count, instant, percent, score, seconds, signed, zone } from "./words.js";

const CONTROL = ["control", "baseline", "a"];

function controlOf(names) {
  return names.find((name) => CONTROL.includes(name.toLowerCase())) ?? names[0];
}

// The difference of two means as a share of the control's mean, with its 95 % interval.
function compared(one, control) {
  if (!one || !control || one.mean === null || !control.mean || one.stderr === null || control.stderr === null) return null;
  const half = (1.96 * Math.hypot(one.stderr, control.stderr)) / Math.abs(control.mean);
  const share = (one.mean - control.mean) / Math.abs(control.mean);
  return { share, low: share - half, high: share + half, verdict: "", words: "" };
}

// The variants over one window. The intervals take impressions as independent, and one look as the only one.
function overWindow(scores) {
  const names = [...new Set(scores.map((one) => one.segment))].filter((name) => name !== "(none)").sort();
  const control = controlOf(names);
  const mean = (metric, name) => scores.find((one) => one.metric === metric && one.segment === name);
  return {
    names, control, mean, metrics: [...new Set(scores.map((one) => one.metric))],
    difference: (metric, name) => compared(mean(metric, name), mean(metric, control)),
  };
}

// The result of the experiment's own test. Means and differences are of the same, settled impressions.
function ofExperiment(experiment) {
  const arm = (name) => experiment.variants.find((one) => one.variant === name);
  const finding = (metric, name) => arm(name)?.metrics.find((one) => one.metric === metric);
  return {
    names: experiment.variants.map((one) => one.variant), control: experiment.control,
    metrics: experiment.variants[0].metrics.map((one) => one.metric),
    mean: (metric, name) => arm(name) && { impressions: arm(name).impressions, mean: finding(metric, name)?.mean ?? null, stderr: null },
    difference(metric, name) {
      const found = finding(metric, name);
      if (!found || found.difference === null || found.difference === undefined) return null;
      if (found.relative_difference === null) return { difference: found.difference, verdict: found.verdict, words: `${found.words}; ${found.relative_words}` };
      return { share: found.relative_difference, low: found.relative_lower, high: found.relative_upper, verdict: found.verdict, words: found.words };
    },
  };
}

function variantTable(title, about) {
  const { metrics, control, mean: of } = about;
  const others = about.names.filter((name) => name !== control);
  const rows = metrics.map((metric) => others.map((name) => about.difference(metric, name)));
  const relative = rows.flat().filter((one) => one && one.share !== undefined);
  const reach = Math.max(0.02, ...relative.flatMap((one) => [Math.abs(one.low), Math.abs(one.high)]));
  const head = [control, ...others].map((name) => element("th", { scope: "col", class: "number" }, visible(name)));
  const against = others.map((name) => element("th", { scope: "col", class: "bars", colspan: 2 }, `${visible(name)} against ${visible(control)}`));
  return element("table", {},
    element("caption", {}, title),
    element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "Metric"), ...head, ...against)),
    element("tbody", {}, ...metrics.map((metric, index) => variantRow(metric, [control, ...others].map((name) => of(metric, name)), rows[index], reach))));
}

function variantRow(metric, means, differences, reach) {
  const cells = means.map((one) => {
    const cell = element("td", { class: "number" });
    if (one) estimate(cell, one);
    return cell;
  });
  const bars = differences.flatMap((one) => {
    if (!one) return [element("td", { class: "bars" }), element("td", { class: "number quiet" }, "undefined")];
    const tone = one.verdict === "better" || one.verdict === "worse" ? one.verdict : "";
    if (one.share === undefined) {
      const plain = `${one.difference < 0 ? "" : "+"}${score(one.difference)}`;
      return [element("td", { class: "bars" }), element("td", { class: `number ${tone}`, title: one.words }, plain)];
    }
    const label = `${signed(one.share)}, from ${signed(one.low)} to ${signed(one.high)}`;
    const bar = interval((one.low + one.high) / 2, (one.high - one.low) / 2, reach, tone, label);
    const known = element("small", {}, [`${signed(one.low)} to ${signed(one.high)}`, one.words].filter(Boolean).join(": "));
    return [element("td", { class: "bars" }, bar), element("td", { class: `number said ${tone}` }, signed(one.share), known)];
  });
  return element("tr", {}, element("td", {}, metric), ...cells, ...bars);
}

const SOME = "Means are over all impressions of a variant; one for which a metric is undefined counts as its worst value.";

// What stands beside the table: averages over defined lists alone, and which ranker won interleaved lists.
function beside(experiment) {
  const lines = experiment.variants.flatMap((variant) => variant.metrics.filter((one) => one.defined).map((one) => {
    const { mean, control_mean: before, share, control_share: former, shares_differ: differ } = one.defined;
    const of = (name, value, part) => `${value === null ? "undefined" : score(value)} in ${visible(name)} (${percent(100 * (part ?? 0))} of its lists)`;
    return `${one.metric} over defined lists alone: ${of(experiment.control, before, former)}, ${of(variant.variant, mean, share)}; no verdict: ${differ ? "the shares differ, so these are different lists" : "no difference of the shares has been found"}.`;
  }));
  if (lines.length) lines.unshift(SOME);
  const lists = experiment.interleaving;
  if (lists) {
    const bounds = lists.lower === null ? "too few for a statement" : `from ${score(lists.lower)} to ${score(lists.upper)}: ${lists.verdict}`;
    lines.push(`Interleaved lists: won ${count(lists.wins)}, tied ${count(lists.ties)}, lost ${count(lists.losses)}; preference ${lists.delta === null ? "undefined" : score(lists.delta)}, ${bounds}.`);
  }
  return lines.map((text) => element("p", { class: "quiet" }, text));
}

const kept = new Map();

// One line, and what is known of it when somebody opens it: the same element at every refresh, so that it stays open.
function folded(experiment, kind, summary, lines) {
  const key = JSON.stringify([experiment.experiment, kind]);
  if (!kept.has(key)) kept.set(key, element("details", { class: `days ${kind}` }, element("summary"), element("div")));
  const details = kept.get(key);
  setText(details.firstChild, summary);
  keyed(details.lastChild, lines, (line) => line, () => element("p", { class: "quiet" }), setText);
  return details;
}

// In which days the shares of the variants were constant, and which units have much of a variant.
function conditions(experiment) {
  const { busiest } = experiment;
  const parts = [];
  const shares = experiment.variants.flatMap(({ variant, periods, mixed_days: mixed }) => {
    const lines = periods.map((one) => `${one.first_day} to ${one.last_day}: ${Object.entries(one.shares).map(([name, share]) => `${visible(name)} ${percent(100 * share)}`).join(", ")}`);
    return mixed.length ? [...lines, `Left out of ${visible(variant)}, because the shares changed within them: ${mixed.join(", ")}`] : lines;
  });
  if (shares.length) {
    const changed = experiment.variants.filter((one) => one.periods.length || one.mixed_days.length).map((one) => visible(one.variant));
    parts.push(folded(experiment, "periods", `The shares of ${changed.join(", ")} and the control changed: differences are those within periods of constant shares (UTC days).`, shares));
  }
  if (busiest.length) {
    const lines = busiest.map((one) => `${one.unit} has ${percent(100 * one.share)} of ${visible(one.variant)}`);
    const without = (one, name) => `${one.metric} of ${visible(name)} without the 64ths of users that they are in: ${plain(one.without_busiest.difference)}, from ${plain(one.without_busiest.lower)} to ${plain(one.without_busiest.upper)}: ${one.without_busiest.verdict}; with all: ${plain(one.difference)}`;
    for (const { variant, metrics } of experiment.variants) {
      lines.push(...metrics.filter((one) => (one.without_busiest?.difference ?? null) !== null).map((one) => without(one, variant)));
    }
    parts.push(folded(experiment, "busiest", `${count(busiest.length)} ${busiest.length === 1 ? "unit has" : "units have"} more than 1\u202f% of the impressions of a variant.`, lines));
  }
  return parts;
}

const plain = (value) => (value === null ? "undefined" : `${value < 0 ? "−" : "+"}${score(Math.abs(value))}`);

export function showVariants(parent, found, experiments, at) {
  const scoresOf = new Map(found.map(({ grouping, scores }) => [grouping.slice("experiment:".length), scores]));
  // An experiment that was discovered, or just declared, may have no grouping.
  const names = [...new Set([...scoresOf.keys(), ...experiments.filter((one) => one.impressions).map((one) => one.experiment)])];
  const experimentOf = (name) => experiments.find((one) => one.experiment === name);
  const shown = names.filter((name) => scoresOf.get(name)?.length || experimentOf(name)?.impressions);
  const tables = shown.map((name) => {
    const [experiment, scores] = [experimentOf(name), scoresOf.get(name)];
    const warnings = (experiment?.warnings ?? []).map((text) => element("p", { class: "worse" }, text));
    const table = experiment?.impressions
      ? variantTable(`${visible(name)}: all ${count(experiment.impressions)} settled impressions; the intervals stay valid however often you look.`, ofExperiment(experiment))
      : variantTable(`${visible(name)} over ${at.window}, ${at.view}: 95 % intervals that take impressions as independent: not a test.`, overWindow(scores));
    return element("div", {}, table, ...warnings, ...(experiment?.impressions ? [...beside(experiment), ...conditions(experiment), byDay(experiment)] : []));
  });
  const focused = parent.contains(document.activeElement) ? document.activeElement : null;
  const none = element("p", { class: "quiet" }, "No experiment has settled impressions yet, and no grouping experiment:NAME has traffic.");
  parent.replaceChildren(...(tables.length ? tables : [element("div", {}, none)]));
  if (focused?.isConnected) focused.focus();
}

// What anybody may want to know of the data.
function tiles(health) {
  const { events } = health;
  const lost = health.gap_records + health.segment_overflow;
  const refused = Object.values(events?.rejected ?? {}).reduce((sum, one) => sum + one, 0);
  const all = [
    ["behind the clock", health.behind_seconds === null ? "no events yet" : seconds(Math.max(1, health.behind_seconds)), health.behind_seconds > LATE_SECONDS],
    ["impressions", events ? count(events.impressions) : "elsewhere"],
    ["feedback", events ? count(events.feedback) : "elsewhere"],
    ["rejected", events ? count(refused) : "elsewhere", refused > 0],
  ];
  if (lost) all.push(["lost, or without a segment", `${count(health.gap_records)}, ${count(health.segment_overflow)}`, true]);
  return all;
}

// What whoever runs this process wants to know of it.
function operators(health) {
  const { work } = health;
  const all = [["snapshot", seconds(health.snapshot_seconds), health.snapshot_errors > 0]];
  if (health.role === "exporter") return all;
  return all.concat([
    ["lag, records", count(work.lag_records)],
    ["commits", count(work.commits.applied ?? 0)],
    ["commits lost", count(work.commits.lost ?? 0), work.commits.lost > 0],
    ["per batch", work.batch_seconds === null ? "none yet" : seconds(work.batch_seconds)],
    ["lanes written", work.stopped_lanes.length ? `${work.owned_lanes}, stopped ${work.stopped_lanes.join(" ")}` : count(work.owned_lanes), work.stopped_lanes.length > 0],
    ["open impressions", count(work.open_impressions)],
    ["waiting feedback", count(work.waiting_feedback)],
  ]);
}

export function showHealth(health) {
  keyed($("conditions"), health.conditions, (one) => one.name, () => element("li"), (line, one) => {
    line.className = one.ok ? "" : "ill";
    setText(line, `${one.name.replaceAll("_", " ")}${one.detail ? `: ${one.detail}` : ""}`);
  });
  for (const [id, shown] of [["tiles", tiles(health)], ["operators", operators(health)]]) {
    keyed($(id), shown, ([name]) => name, ([name]) => element("div", {}, element("dt", {}, name), element("dd")), (tile, [, text, ill]) => {
      setText(tile.lastElementChild, text);
      tile.lastElementChild.className = ill ? "worse" : "";
    });
  }
  const row = (one) => element("tr", {}, element("td", {}, one.name), element("td", { class: "number" }), element("td", { class: "number" }), element("td", { class: "meaning" }));
  keyed($("outcomes").tBodies[0], outcomes(health.events), (one) => one.name, row, (line, one) => {
    setText(line.cells[1], count(one.number));
    setText(line.cells[2], percent(one.share * 100));
    line.cells[2].className = `number ${one.unusual ? "worse" : "quiet"}`;
    setText(line.cells[3], one.unusual ? `${one.meaning}; more than ${percent(one.most * 100)} is not usual` : one.meaning);
  });
  $("outcomes").hidden = !health.events;
  setText($("version"), `relevanced ${health.version}, role ${health.role}`);
  const late = health.recording ? `a recording: ${health.recording}` : health.as_of ? `${instant(health)}, ${zone()}` : "no events yet";
  setText($("fresh"), health.scores === "elsewhere" ? "this process serves no scores" : late);
}

