// The headline in plain words and in the reader's zone, from the parts that the daemon gives. Pure.

import { clock, day, score, seconds, spoken, time } from "./words.js";

const NARROW_MS = 600000; // an onset whose interval is at most this long is said as one time
const MOST_NAMES = 3;
const LIKE = {
  MIX: "another mix of searches", TRACKING: "clicks that are not counted", RETRIEVAL: "missing results",
  RANKING: "the ranking: good results stand lower", "RANKING or RETRIEVAL": "the ranking, or missing results",
  "TRACKING or RETRIEVAL": "clicks that are not counted, or missing results",
};
const GOOD = { hour: "before", day: "in the last days", weeks: "in the last weeks" };

const family = (metric) => metric.split(/[@(]/)[0];
export const findsClick = (metric) => /^Success@/.test(metric);

// What a metric measures, in plain words: "" where only its meaning of the catalog says it.
export function plain(metric) {
  if (findsClick(metric)) return "of 100 searches, those that find a click";
  return { RR: "how high the first click stands", Abandonment: "searches without a click" }[family(metric)] ?? "";
}

const isEverywhere = (one) => one.grouping === "all";
const several = (names) => (names.length < 2 ? names.join() : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`);
const named = (segments) => {
  const names = segments.map(spoken);
  return several(names.length > MOST_NAMES ? [...names.slice(0, MOST_NAMES - 1), `${names.length - MOST_NAMES + 1} more`] : names);
};
export const subject = (one) => (isEverywhere(one) ? "Search" : `Search in ${named(one.segments)}`);

// `at 21:40`, `between 21:35 and 21:50`, or `before 12:00`.
export function when({ at, earliest, latest }, now) {
  if (!at) return `before ${clock(latest, now)}`;
  if (Date.parse(latest) - Date.parse(earliest) <= NARROW_MS) return `at ${clock(at, now)}`;
  return `between ${clock(earliest, now)} and ${day(earliest) === day(latest) ? time(latest) : clock(latest, now)}`;
}

const worse = ({ size }) => (size === "slightly" || size === "much" ? `${size} worse` : "worse");

// Both means in as few digits as tell them apart.
function pair(one, other) {
  const digits = [0, 1, 2].find((places) => other === null || (one * 100).toFixed(places) !== (other * 100).toFixed(places)) ?? 2;
  return [one, other].map((mean) => (mean === null ? null : (mean * 100).toFixed(digits)));
}

// `43 of 100 searches find a click; 73 did before.`
function levels(metric, now, before, past = "before") {
  if (now === null || now === undefined) return "";
  if (findsClick(metric)) {
    const [is, was] = pair(now, before);
    return `${is} of 100 searches find a click${was === null ? "" : `; ${was} did ${past}`}.`;
  }
  return `${metric} is ${score(now)}${before === null ? "" : `, was ${score(before)} ${past}`}.`;
}

const ago = (instant, now) => `${seconds((Date.parse(now) - Date.parse(instant)) / 1000)} ago`;
const percent = (share) => `${Math.round(share * 100)} %`;

function cause(parts, now) {
  const { marker, pattern, onset, traffic_share: share } = parts;
  const where = isEverywhere(parts) ? "Everywhere." : `Only ${named(parts.segments)}${share === null ? "" : `, ${percent(share)} of all searches`}.`;
  const like = pattern ? `Looks like ${LIKE[pattern.name] ?? pattern.name}.` : "";
  const after = marker && `“${marker.text}”`;
  const beside = !marker || !onset.at ? "" : marker.before_seconds < 0 ? `Began at about the time of ${after}.` : `Began ${seconds(Math.max(60, marker.before_seconds))} after ${after}.`;
  return [where, like, beside].filter(Boolean).join(" ");
}

// ` and in JP at 22:10`: another change that is open.
function also(others, now) {
  if (!others.length) return "";
  if (others.length > 1) return `, and ${others.length} more changes are open`;
  const [one] = others;
  return `, and ${isEverywhere(one) ? "everywhere" : `in ${named(one.segments ?? [one.segment])}`} ${when(one.onset, now)}`;
}

// `A fall of RR@10 by 6 % that began before yesterday, 11:29, or by 13 % before 08:29, would have been noticed.`
function noticed(falls, now) {
  const said = falls.map(({ drop, began_before: began }) => `by ${Math.ceil(drop * 100)} % that began before ${clock(began, now)}`);
  return `A fall of ${falls[0].metric} ${said.length === 1 ? said[0] : `${said.join(", or ")},`} would have been noticed.`;
}

function inPartitions(partitions) {
  if (!partitions?.length) return "";
  const shown = partitions.slice(0, MOST_NAMES).join(", ");
  const more = partitions.length - MOST_NAMES;
  return ` in partition${partitions.length > 1 ? "s" : ""} ${shown}${more > 0 ? ` and ${more} more` : ""}`;
}

const perHour = (usual) => (usual < 1 ? usual.toFixed(1) : Math.round(Number(usual.toPrecision(2))).toLocaleString("en"));
const began = ({ onset }) => onset.at ?? onset.latest;

// The daemon calls the end once enough has settled after it: that is later than the settling of its first searches.
function provisional(final, now) {
  const isDue = Date.parse(final) <= Date.parse(now);
  return `By live traffic. ${isDue ? "This is final soon." : `Late clicks are counted until ${clock(final, now)}; soon after, this is final.`}`;
}

const STATES = {
  open: ({ parts, now, judged, isAlone, others, settled }) => ({
    tone: "worse",
    title: `${subject(parts)} got ${worse(parts)} ${when(parts.onset, now)}${also(others, now)}`,
    line: `${ago(began(parts), now)}. ${judged ? "By judgements: " : ""}${levels(parts.metric, parts.now, parts.before)}`,
    cause: `${cause(parts, now)}${isAlone && settled ? ` Clicks show no such fall so far; they are known up to ${clock(settled, now)}.` : ""}`,
  }),
  partly: ({ parts, now }) => ({
    tone: "worse",
    title: `${subject(parts)} is better since ${clock(parts.better, now)}, not yet normal`,
    line: levels(parts.metric, parts.now, parts.before, `before ${clock(began(parts), now)}`),
    cause: cause(parts, now),
  }),
  planned: ({ parts, now }) => ({
    tone: "wait",
    title: `${subject(parts)} is ${worse(parts)} since ${clock(began(parts), now)}, as planned`,
    line: levels(parts.metric, parts.now, parts.before),
    cause: parts.marker ? `Planned: “${parts.marker.text}”.` : "",
  }),
  repaired: ({ parts, now, level }) => ({
    tone: "good",
    title: `${subject(parts)} is back to normal since ${clock(parts.ended, now)}`,
    line: `It was ${worse(parts)} from ${clock(began(parts), now)} on, for ${seconds((Date.parse(parts.ended) - Date.parse(began(parts))) / 1000)}. ${levels(parts.metric, level, null)}`.trim(),
    cause: parts.final ? provisional(parts.final, now) : "",
  }),
  good: ({ parts, now, level, metric, settled }) => ({
    tone: "good",
    title: `Up to ${clock(parts.known_until ?? settled, now)} search was as good as ${GOOD[parts.noticed[0].lane]}`,
    line: levels(metric, level, null),
    cause: noticed(parts.noticed, now),
  }),
  silent: ({ parts, now }) => (!parts.usual_per_hour ? {
    tone: "worse",
    title: `No ${parts.stopped} has joined a search so far`,
    line: `Searches come since ${clock(parts.onset.at, now)}. Scores say nothing.`,
    cause: "relevanced doctor looks for the cause.",
  } : {
    tone: "worse",
    title: `No ${parts.stopped}${inPartitions(parts.partitions)} since ${clock(parts.onset.at, now)}`,
    line: `${ago(parts.onset.at, now)}. Up to ${perHour(parts.usual_per_hour)} an hour are usual.`,
    cause: parts.rejected ? `${parts.rejected.toLocaleString("en")} records were rejected since then: the log of the workers names the reason.`
      : parts.stopped === "searches" ? "Look at the producers of searches, and at the topic." : "Scores say nothing since then. Look at what collects clicks.",
  }),
  first: ({ parts, now, level, metric, isCalled }) => ({
    tone: "wait",
    title: parts.watching_since ? `Watching since ${clock(parts.watching_since, now)}` : "Nothing has settled yet",
    line: `${levels(metric, level, null)}${isCalled ? "" : " No change so far."}`.trim(),
    cause: "There is nothing to compare with yet.",
  }),
};

// `Acknowledged by bob until 14:30: rolled back to v7, waiting.`
export function acknowledgedText({ acknowledged }, now) {
  if (!acknowledged) return "";
  const { text, until, by } = acknowledged;
  return `Acknowledged${by ? ` by ${by}` : ""} until ${clock(until, now)}: ${text.trimEnd()}${/[.!?…]\s*$/.test(text) ? "" : "."}`;
}

// While what happened before is still being read, nothing is judged.
export const early = (catching, asOf) => ({
  tone: "wait",
  title: `Still reading what happened ${asOf ? `after ${clock(asOf, new Date().toISOString())}` : "before"}`,
  line: catching.remaining_seconds === null ? "" : `The picture is complete in about ${seconds(catching.remaining_seconds)}.`,
  cause: "Nothing is judged until then.",
});

// A number of all searches that is far from usual goes before a state that alarms nobody, whose cause is none of it.
function withFar(told, { far, parts }) {
  if (!far) return told;
  const cause = parts.state === "good" ? told.cause : "";
  return { tone: "worse", title: far.replace(/\.$/, ""), line: `Scores: ${told.title}. ${told.line}`.trim(), cause };
}

// `level`: the mean of now of what the parts are about; `metric`: that of the level where the parts name none;
// `isAlone`: whether only judgements show it; `others`: the other changes that are open; `settled`: the end of what is judged; `isCalled`: whether
// a row of the tables is called worse; `far`: what is told of all searches before the state; `now`: the instant of the answer.
export function said(given) {
  const { parts, now } = given;
  const told = withFar(STATES[parts.state](given), given);
  if (!parts.no_feedback) return told;
  const { start, end } = parts.no_feedback;
  return { ...told, cause: `${told.cause} No feedback came from ${clock(start, now)} to ${clock(end, now)}: scores say nothing of that time.`.trim() };
}
