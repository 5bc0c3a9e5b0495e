// Tables of changes: the segments that moved, and every metric of one segment.

import { element, keyed, setText, shape, visible } from "./dom.js";
import { NARROW, call, clock, count, isWhole, relative, score, signed, spoken, strength } from "./words.js";

const URGENCY = { worse: 0, better: 1, moved: 1, diluted: 2, recovered: 2, unripe: 3, level: 4, too_few: 5, undefined: 6, no_traffic: 7 };
const LEAST_REACH = 0.02;
const MOST_REACH = 1;

export const keyOf = (one) => `${one.grouping}\n${one.segment}`;

// Called segments first, by urgency and strength; all traffic leads segments of the same urgency.
export function ordered(changes) {
  const rank = (one) => [URGENCY[one.verdict], isWhole(one) ? 0 : 1, -strength(one)];
  return changes
    .map((one) => ({ one, rank: rank(one) }))
    .sort((a, b) => a.rank.map((value, index) => value - b.rank[index]).find((gap) => gap) ?? 0)
    .map(({ one }) => one);
}

// The share at the end of the widest bar. All rows have this one scale, so that lengths can be compared.
export function reachOf(changes, beyond) {
  const reach = changes.map((one) => {
    const share = relative(one);
    return share === null ? 0 : Math.abs(share) + (beyond * (one.noise ?? 0)) / Math.abs(one.before.mean);
  });
  return Math.min(MOST_REACH, Math.max(LEAST_REACH, ...reach));
}

// A dot for the change and a bar for its noise. A change is called if its bar does not contain 0.
export function interval(middle, half, reach, tone, label) {
  const at = (share) => 50 + 50 * Math.max(-1, Math.min(1, share / reach));
  const [left, right] = [at(middle - half), at(middle + half)];
  return shape("svg", { class: `interval ${tone}`, role: "img", "aria-label": label },
    shape("line", { class: "zero", x1: "50%", x2: "50%", y1: 0, y2: 20 }),
    shape("rect", { class: "reach", x: `${left}%`, width: `${Math.max(right - left, 0.4)}%`, y: 7, height: 6, rx: 2 }),
    shape("circle", { class: "dot", cx: `${at(middle)}%`, cy: 10, r: 4 }));
}

function bar(change, reach, beyond, tone) {
  const share = relative(change);
  if (share === null || change.noise === null) return "";
  const half = (beyond * change.noise) / Math.abs(change.before.mean);
  return interval(share, half, reach, tone, `${signed(share)}, noise ±${signed(half).slice(1)}`);
}

// No traffic, undefined and 0 are three different states, and look different. `from`: a metric that counts since then only;
// `inHundred`: in plain words, without its error.
export function estimate(cell, one, from = null, inHundred = false) {
  cell.className = cell.className.replace(/ ?(undefined|none)/g, "");
  if (one.impressions === 0) {
    cell.className += " none";
    setText(cell, "no traffic");
  } else if (one.mean === null) {
    cell.className += " undefined";
    setText(cell, from ? `from ${clock(from, new Date().toISOString())}` : "undefined");
  } else if (inHundred) {
    setText(cell, (one.mean * 100).toFixed(0));
  } else {
    const error = one.stderr === null ? "" : `${NARROW}±${NARROW}${score(one.stderr).replace(/^0\./, ".")}`;
    cell.replaceChildren(score(one.mean), element("span", { class: "error" }, error));
  }
}

function fill(row, change, reach, beyond, why, inHundred = false) {
  const [now, before, bars, share, verdict] = [...row.children].slice(1);
  estimate(now, change.now, change.counts_from, inHundred);
  estimate(before, change.before, change.counts_from, inHundred);
  const part = relative(change);
  const tone = change.verdict === "better" || (change.verdict === "worse" && !why) ? change.verdict : "quiet";
  bars.replaceChildren(bar(change, reach, beyond, tone));
  setText(share, part === null ? (change.difference === null ? "" : score(change.difference)) : signed(part));
  share.className = `number ${tone}`;
  verdict.className = `call ${change.verdict === "diluted" ? "diluted" : tone}`;
  setText(verdict, call(change, why));
}

function blank(head, cells) {
  const kinds = ["number", "number before", "bars", "number", "call", "number count"].slice(0, cells);
  return element("tr", {}, head, ...kinds.map((kind) => element("td", { class: kind })));
}

function segmentRow(change) {
  const name = isWhole(change) ? "everything" : visible(spoken(change.segment));
  const button = element("button", { type: "button", "data-grouping": change.grouping, "data-segment": change.segment },
    name);
  return blank(element("td", {}, button, element("small", {}, isWhole(change) ? "" : ` ${visible(change.grouping)}`)), 6);
}

const CALLED = ["worse", "better", "moved", "diluted"];
const FEW = 4;
const MOST_CALLED = 4;

// The rows that are shown first: what moved, else everything and what is selected; all where there are few.
export function firstRows(changes, selected) {
  if (changes.length <= FEW) return ordered(changes);
  const called = ordered(changes).filter((one) => CALLED.includes(one.verdict)).slice(0, MOST_CALLED);
  return called.length ? called : changes.filter((one) => isWhole(one) || keyOf(one) === keyOf(selected));
}

// What is not shown, in words.
export function restOf(changes, shown) {
  const rest = changes.filter((one) => !shown.includes(one));
  const are = `${rest.length} more segment${rest.length === 1 ? "" : "s"}`;
  const verb = rest.length === 1 ? "is" : "are";
  return rest.every((one) => one.verdict === "level") ? `${are} ${verb} steady` : are;
}

// `why(change)`: why it is low, "" where that is not known; `inHundred`: the means are told as so many of 100 searches.
export function showSegments(body, shown, beyond, selected, why, inHundred) {
  const reach = reachOf(shown, beyond);
  keyed(body, shown, keyOf, segmentRow, (row, change) => {
    fill(row, change, reach, beyond, why(change), inHundred);
    setText(row.lastElementChild, count(change.now.impressions));
    const isSelected = keyOf(change) === keyOf(selected);
    row.classList.toggle("selected", isSelected);
    row.querySelector("button").setAttribute("aria-pressed", isSelected);
  });
}

// `meanings`: metric → what a value of it says.
export function showMetrics(body, changes, beyond, metric, why, meanings) {
  const reach = reachOf(changes, beyond);
  const make = (change) => blank(element("td", {}, element("button", { type: "button", "data-metric": change.metric }, change.metric),
    element("small", { class: "meaning" }, meanings.get(change.metric) ?? "")), 5);
  keyed(body, changes, (one) => one.metric, make, (row, change) => {
    fill(row, change, reach, beyond, why(change));
    row.classList.toggle("selected", change.metric === metric);
    row.querySelector("button").setAttribute("aria-pressed", change.metric === metric);
  });
}
