// The list of changes: those that are open, long standing ones, and those that are over.

import { element, keyed, setText, visible } from "./dom.js";
import { began } from "./onset.js";
import { acknowledgedText, when } from "./headlinewords.js";
import { NARROW, clock, score, signed, spoken } from "./words.js";

const MOST_OTHERS = 6;
const WORDS = {
  worse: { called: "worse", move: "fall" },
  better: { called: "better", move: "rise" },
};

// A fault by one measure: of feedback, or by judgements.
const by = (one, judged) => [one, one.beside].find((part) => part && Boolean(part.judged) === judged);
const openBy = ({ open, standing }, judged) => [...open, ...standing].map((one) => by(one, judged))
  .filter((one) => one && ["open", "planned", "standing"].includes(one.state));

const isEverywhere = (one) => one.grouping === "all";
export const segmentsOf = (one) => one.segments ?? [one.segment];
const names = (one) => (isEverywhere(one) ? "everything" : segmentsOf(one).map(spoken).map(visible).join(", "));

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
  return ` ${(segments ?? []).length > 1 ? "They carry" : "Carries"} ${found.words} of the ${WORDS[direction].move} of the whole.`;
}

// Since when, how much, and whose part of the whole it is.
function facts(change, now) {
  const { onset, level_before: before, level_now: after, change_ratio: ratio } = change;
  const size = ratio === null ? "" : ` (${signed(ratio)})`;
  return `Since ${began(onset, now)}: ${level(after)}, was ${level(before)}${size}.${carries(change)}`;
}

// What else is said of a change, a line each.
function lines(change, now) {
  if (["recovered", "superseded", "undecided", "unscored"].includes(change.state)) return [];
  const found = [facts(change, now), acknowledgedText(change, now)].filter(Boolean);
  if (change.graded) found.push(`Graded by ${change.graded.judgements}. No clicks are in it. ${change.graded.doubts}`.trim());
  if (change.beside?.graded?.doubts) found.push(change.beside.graded.doubts);
  const { pattern, also = [], diluted = [], segment } = change;
  const { called } = WORDS[change.direction];
  if (pattern) {
    found.push(`Looks like ${pattern.name}: ${pattern.words}. Look at: ${pattern.look_at}.`);
  }
  if (also.length) {
    const name = (one) => one.metric + (one.segment === segment ? "" : ` of ${names(one)}`);
    found.push(`Also ${called}: ${listed(also, name)}.`);
  }
  if (diluted.length) {
    const why = isEverywhere(change) ? "everything is" : `they share traffic with ${names(change)}`;
    found.push(`Only ${called} because ${why}: ${listed(diluted, (one) => visible(spoken(one.segment)))}.`);
  }
  return found;
}

// Both means in as few digits as tell them apart.
function pair(before, after) {
  const text = (mean, digits) => (mean === null ? "unknown" : mean.toFixed(digits));
  const digits = [2, 3, 4, 5].find((places) => text(before, places) !== text(after, places)) ?? 5;
  return [text(before, digits), text(after, digits)];
}

// Why a change ended without having recovered.
function unknownEnd({ state, graded, unscored_since: unscored }, now) {
  const ended = (at, why) => `; ended at ${clock(at, now)}: ${why}, so whether it recovered is not known.`;
  if (state === "unscored") return ended(unscored, "nothing comparable is scored since");
  const other = graded.superseded_by;
  const why = other === "mixed" ? "lanes grade by different judgements since" : other === graded.judgements ? "judged scores began anew then" : `other judgements (${other}) are in force since`;
  return ended(graded.superseded_at, why);
}

// `RR@10 of country DE fell from 0.55 to 0.19 at 16:34, not recovered.`
function sentence(change, now) {
  if (change.state === "undecided") return change.text;
  const { metric, grouping, onset, state, judged, level_before: { mean: before }, level_now: { mean: after } } = change;
  const what = `${judged ? "Judged " : ""}${metric} ${isEverywhere(change) ? "everywhere" : `of ${visible(grouping)} ${names(change)}`}`;
  const [was, is] = pair(before, after);
  const moved = `from ${was} to ${is} ${when(onset, now)}`;
  const isKnown = before !== null || after !== null;
  if (state === "recovered") return `${what} recovered at ${clock(change.recovered, now)}${isKnown ? `; it had gone ${moved}` : ""}.`;
  const verb = before !== null && after > before ? "rose" : "fell";
  const fell = isKnown ? `${what} ${verb} ${moved}` : `${what} got worse ${when(onset, now)}`;
  if (["superseded", "unscored"].includes(state)) return fell + unknownEnd(change, now);
  if (!isKnown) return `${fell}; it has no series now, so its level is not known.`;
  if (state === "planned") return `${fell}, as planned.`;
  const back = change.back_live;
  if (!back) return `${fell}, not recovered.`;
  return `${fell}, not recovered by ${clock(back.known_until, now)}; live it is back at ${back.mean.toFixed(back.mean < 0.1 ? 3 : 2)} since ${clock(back.since, now)}.`;
}

const link = (change) => element("button", {
  type: "button", [change.judged ? "data-judged" : "data-metric"]: change.metric, "data-grouping": change.grouping, "data-segment": change.segment,
});

function make(change) {
  const links = [change, change.beside].filter(Boolean).map(link);
  return element("li", {}, element("span", { class: "state" }, change.state), ...links, element("div", {}));
}

export function showOpen(section, { open, standing, undecided = [], closed, as_of: now }) {
  const shown = [...open, ...standing, ...undecided, ...closed];
  section.hidden = !shown.length;
  const key = (one) => [one.id, one.state, one.metric, one.beside?.metric].join(" ");
  keyed(section.querySelector("ul"), shown, key, make, (item, change) => {
    item.className = change.state + (change.direction === "better" ? " rise" : "") + (change.back_live ? " back" : "");
    setText(item.children[1], visible(sentence(change, now)));
    if (change.beside) setText(item.children[2], visible(sentence(change.beside, now)));
    item.lastElementChild.replaceChildren(...lines(change, now).map((line) => element("p", {}, visible(line))));
  });
}

// The change that is open on this metric of this segment, if there is one: of feedback, unless `judged`.
export function openOn(changes, metric, { grouping, segment }, judged = false) {
  const names = ({ also = [] }) => also.some((one) => one.metric === metric && one.grouping === grouping && one.segment === segment);
  return openBy(changes, judged).find((one) =>
    (one.metric === metric && one.grouping === grouping && segmentsOf(one).includes(segment)) || names(one));
}

// Why a row of the tables is low, as its verdict says it: through whom, or until when; "" where that is not known.
export function whyLow({ as_of: now, ...changes }, row) {
  const back = row.verdict === "worse" ? openOn(changes, row.metric, row)?.back_live : null;
  if (back) return `▼ until ${clock(back.since, now)}`;
  const shared = row.verdict === "diluted" ? sharedWith(changes, row) : "";
  return shared && `because of ${shared}`;
}

// The names of the segments through which a row of the tables is low, "" where that is not known.
function sharedWith(changes, row) {
  const same = (one) => one.grouping === row.grouping && one.segment === row.segment;
  const all = openBy(changes, false);
  const found = all.find((one) => (one.diluted ?? []).some((other) => same(other) && other.metric === row.metric))
    ?? all.find((one) => (one.diluted ?? []).some(same))
    ?? (all.length === 1 ? all[0] : null);
  return found ? names(found) : "";
}
