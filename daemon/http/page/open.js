// The list of changes: those that are open, long standing ones, and those that are over.

import { element, keyed, setText, visible } from "./dom.js";
import { began } from "./onset.js";
import { NARROW, percent, score, signed } from "./words.js";

const MOST_OTHERS = 6;
const NEARLY_ALL = 0.95;
const WORDS = {
  worse: { called: "worse", move: "fall" },
  better: { called: "better", move: "rise" },
};

const isEverywhere = (one) => one.grouping === "all";
export const segmentsOf = (one) => one.segments ?? [one.segment];
const names = (one) => (isEverywhere(one) ? "everything" : segmentsOf(one).map(visible).join(", "));

function listed(others, name) {
  const shown = others.slice(0, MOST_OTHERS).map((one) => `${name(one)} ${one.change_ratio === null ? "" : signed(one.change_ratio)}`.trim());
  const more = others.length - shown.length;
  return shown.join(", ") + (more > 0 ? `, and ${more} more` : "");
}

function level(one) {
  if (!one || one.mean === null) return "unknown";
  return score(one.mean) + (one.stderr === null ? "" : `${NARROW}±${NARROW}${score(one.stderr)}`);
}

function carries({ explained_by: found, segments, direction }) {
  if (!found) return "";
  const share = found.carried >= NEARLY_ALL ? "nearly all" : percent(found.carried * 100, 0);
  return ` ${(segments ?? []).length > 1 ? "They carry" : "Carries"} ${share} of the ${WORDS[direction].move} of the whole.`;
}

// Since when, how much, and whose part of the whole it is.
function facts(change, now) {
  const { onset, level_before: before, level_now: after, change_ratio: ratio } = change;
  const size = ratio === null ? "" : ` (${signed(ratio)})`;
  return `Since ${began(onset, now)}: ${level(after)}, was ${level(before)}${size}.${carries(change)}`;
}

// What else is said of a change, a line each. What the headline's detail says is not said twice.
function lines(change, now, detail) {
  if (change.state === "recovered") return [];
  const found = [facts(change, now)];
  const { pattern, also = [], diluted = [], segment } = change;
  const { called } = WORDS[change.direction];
  if (pattern && !detail.includes(pattern.words)) {
    found.push(`Looks like ${pattern.name}: ${pattern.words}. Look at: ${pattern.look_at}.`);
  }
  if (also.length) {
    const name = (one) => one.metric + (one.segment === segment ? "" : ` of ${names(one)}`);
    found.push(`Also ${called}: ${listed(also, name)}.`);
  }
  if (diluted.length) {
    const why = isEverywhere(change) ? "everything is" : `they share traffic with ${names(change)}`;
    found.push(`Only ${called} because ${why}: ${listed(diluted, (one) => visible(one.segment))}.`);
  }
  return found;
}

function make(change) {
  const link = element("button", { type: "button", "data-metric": change.metric, "data-grouping": change.grouping, "data-segment": change.segment });
  return element("li", {}, element("span", { class: "state" }, change.state), link, element("div", {}));
}

export function showOpen(section, { open, standing, closed, as_of: now }, headline) {
  const shown = [...open, ...standing, ...closed];
  section.hidden = !shown.length;
  keyed(section.querySelector("ul"), shown, (one) => `${one.id} ${one.state} ${one.metric}`, make, (item, change) => {
    item.className = change.state + (change.direction === "better" ? " rise" : "");
    setText(item.children[1], visible(change.text));
    const detail = change.id === headline.change ? headline.detail : "";
    item.lastElementChild.replaceChildren(...lines(change, now, detail).map((line) => element("p", {}, visible(line))));
  });
}

// The change that is open on this metric of this segment, if there is one.
export function openOn({ open, standing }, metric, { grouping, segment }) {
  const names = ({ also = [] }) => also.some((one) => one.metric === metric && one.grouping === grouping && one.segment === segment);
  return [...open, ...standing].find((one) =>
    (one.metric === metric && one.grouping === grouping && segmentsOf(one).includes(segment)) || names(one));
}

// The names of the segments through which a row of the tables is low, "" where that is not known.
export function sharedWith({ open, standing }, row) {
  const same = (one) => one.grouping === row.grouping && one.segment === row.segment;
  const all = [...open, ...standing];
  const found = all.find((one) => (one.diluted ?? []).some((other) => same(other) && other.metric === row.metric))
    ?? all.find((one) => (one.diluted ?? []).some(same))
    ?? (all.length === 1 ? all[0] : null);
  return found ? names(found) : "";
}
