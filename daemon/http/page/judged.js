// Scores by judgements in words and rows. Pure, but for the elements that it makes.

import { element, keyed, setText, visible } from "./dom.js";
import { estimate, interval, reachOf } from "./tables.js";
import { call, clock, count, percent, relative, score, signed } from "./words.js";

export const BEYOND = 4; // as the alert rules
const LITTLE = 0.6; // a smaller judged share is said beside the numbers
const COMPARED = [["1h", 3600], ["6h", 21600], ["24h", 86400]];

// The hours that a window is compared over: the fewest that are as long as it, or a day.
export function comparedWindow(windows, name) {
  const { seconds: length } = windows.find((one) => one.window === name);
  return (COMPARED.find(([, hours]) => hours >= length) ?? COMPARED.at(-1))[0];
}

// One row for each metric: its change against earlier hours, or its score alone where there are none yet.
export function rowsOf(judged, windows, name) {
  const over = comparedWindow(windows, name);
  return judged.judged_metrics.map((metric) => {
    const is = (one) => one.judged_metric === metric;
    const own = judged.scores.find((one) => is(one) && one.window === name) ?? null;
    return { metric, score: own, change: judged.compared.find((one) => is(one) && one.window === over) ?? null };
  }).filter((row) => row.score);
}

const share = (value) => (value === null ? "nothing" : percent(value * 100, 0));

// What the numbers are made of, and what is wrong with that.
export function note(judged, rows, health) {
  const file = (name) => visible(name);
  if (!judged.judgements) return ["No file of judgements is in force in all lanes yet."];
  const said = [];
  if (judged.judgements === "mixed") {
    said.push(element("b", {}, `Lanes grade by different files: ${judged.files.map((one) => file(one.name)).join(", ")}.`), " Nothing is compared with these scores.");
  } else {
    said.push(`Graded by ${file(judged.judgements)}, since ${clock(judged.since, health.as_of)}. No clicks are in these scores, so they wait for none: they are final up to ${clock(judged.until, health.as_of, true)}.`);
  }
  const items = rows[0]?.score.items_share ?? null;
  if (items !== null) {
    const words = ` Judged are ${share(items)} of the first ${judged.depth} places of the ${count(rows[0].score.impressions)} searches whose query is judged.`;
    const why = judged.unjudged === "zero" ? " All other items count as irrelevant, so these scores are lower bounds; … says what they would be with items as good as judged ones." : " All other items are left out, so little is known of these lists.";
    said.push(items < LITTLE ? element("b", {}, words + why) : words);
  }
  if (judged.refused.length) said.push(element("b", {}, ` Some lanes refused ${judged.refused.map((one) => file(one.name)).join(", ")}, which came too late for them.`));
  return said;
}

const UNITS = { week: "week", day: "day", hour: "period just before" };

// What is usual here: hours that the same file graded; of an open change the level before it.
export function basis(rows, asOf) {
  const changes = rows.map((row) => row.change).filter(Boolean);
  const [change] = changes.filter((one) => one.unit);
  const [since] = changes.map((one) => one.since).filter(Boolean);
  const open = since ? `What fell at ${clock(since, asOf)} is shown since then, beside what it was before. ` : "";
  return open + (change || !open ? usual(change) : "");
}

function usual(change) {
  if (!change) return "Nothing to compare with yet: what is usual is known once the file has graded an hour more than what is compared.";
  const unit = UNITS[change.unit];
  const many = change.unit === "hour" ? "periods just before" : `${unit}s`;
  return `The table is over the last ${change.window}. Usual: the same file, ${change.unit === "hour" ? "" : "at the same time "}in ${change.periods === 1 ? `the ${change.unit === "hour" ? unit : `${unit} before`}` : `${change.periods} ${many}`}. `
    + "A change is called beyond 4 times its noise.";
}

function make(row) {
  const button = element("button", { type: "button", "data-judged": row.metric }, row.metric);
  return element("tr", {}, element("td", {}, button),
    ...["number", "number before", "bars", "number", "call", "number"].map((kind) => element("td", { class: kind })));
}

// Behind a score, what it would be if what nobody has judged were as good as judged items.
function bound(cell, one, best) {
  if (one.mean === null || !Number.isFinite(best) || one.mean.toFixed(4) === best.toFixed(4)) return;
  cell.append(element("span", { class: "error", title: "if items without a judgement were as good as judged ones" }, ` … ${score(best)}`));
}

function fill(line, row, reach, beyond, selected) {
  const [now, before, bars, changed, verdict, items] = [...line.children].slice(1);
  const { change } = row;
  const isCounted = row.score.scored !== null;
  estimate(now, change?.now ?? row.score, isCounted ? null : row.score.since);
  bound(now, change?.now ?? row.score, change ? change.best_case_now : row.score.best_case);
  if (change) estimate(before, change.before);
  if (change) bound(before, change.before, change.best_case_before);
  else setText(before, "not known yet");
  before.classList.toggle("quiet", !change);
  const part = change && relative(change);
  bars.replaceChildren(part === null || change.noise === null ? "" : interval(part, (beyond * change.noise) / Math.abs(change.before.mean), reach, change.verdict, signed(part)));
  setText(changed, part === null ? "" : signed(part));
  const tone = ["better", "worse"].includes(change?.verdict) ? change.verdict : "quiet";
  changed.className = `number ${tone}`;
  verdict.className = `call ${tone}`;
  setText(verdict, change ? call(change) : "");
  setText(items, isCounted ? share(row.score.items_share) : "");
  items.className = `number ${row.score.items_share !== null && row.score.items_share < LITTLE ? "few" : ""}`;
  line.classList.toggle("selected", row.metric === selected);
  line.querySelector("button").setAttribute("aria-pressed", row.metric === selected);
}

export function showRows(body, rows, beyond, selected) {
  const changes = rows.map((row) => row.change).filter(Boolean);
  const reach = reachOf(changes, beyond);
  keyed(body, rows, (row) => row.metric, make, (line, row) => fill(line, row, reach, beyond, selected));
}
