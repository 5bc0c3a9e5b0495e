// What the page requests from /api/v1.

import { noteDate } from "./clock.js";
import { headlineChange, judgedAlone, linkedChange } from "./headline.js";
import { asHistory, hoursOfSpan, lastHours } from "./hours.js";
import { comparedWindow } from "./judged.js";
import { openOn } from "./open.js";
import { early, isWhole } from "./words.js";

const PATIENCE_MS = 10000;

// The hours of a segment change slowly: they are requested once a minute of event time.
const MINUTE_MS = 60000;
const hoursKnown = new Map();
const KEPT_HOURS = 35 * 24;

export const WHOLE = { grouping: "all", segment: "all" };

// The daemon was not reached, or says why it has no answer. Every other error is one of the page itself.
export class NoAnswer extends Error {}

export async function ask(path, parameters = [], patience = PATIENCE_MS) {
  const query = new URLSearchParams(parameters);
  return answer(`${path}${parameters.length ? `?${query}` : ""}`, { cache: "no-cache" }, patience);
}

export async function send(method, path, body) {
  const sent = body === undefined ? {} : { headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  return answer(path, { method, ...sent });
}

async function answer(path, options, patience = PATIENCE_MS) {
  try {
    const found = await fetch(`api/v1/${path}`, { signal: AbortSignal.timeout(patience), ...options });
    noteDate(found.headers.get("Date"));
    if (found.ok) return await found.json();
    const said = await found.json().catch(() => ({}));
    throw new NoAnswer(said.error ?? `${path.split("?")[0]}: status ${found.status}`);
  } catch (error) {
    throw error instanceof NoAnswer ? error : new NoAnswer(error.name === "TypeError" ? "no connection" : error.message);
  }
}

// What to say of an error. The page that is shown may be of another version than the daemon that answers.
export const reasonOf = (error) => (error instanceof NoAnswer ? error.message : `This page cannot show what the daemon answers (${error.message}). After an upgrade of the daemon, reload it.`);

const pairs = ({ grouping, segment }) => [["grouping", grouping], ["segment", segment]];

const segmentOf = (one) => one && { grouping: one.grouping, segment: one.segment };

// What the headline tells, else everything: shown until the user selects.
function subjectOf(settled, live) {
  const { parts } = settled.headline;
  const told = headlineChange(settled) ?? early(live, settled)?.row ?? settled.open[0];
  if (told) return segmentOf(told);
  return parts?.state === "repaired" ? { grouping: parts.grouping, segment: parts.segments[0] } : WHOLE;
}

async function hoursOf(at, whose, asOf) {
  const parameters = [["metric", at.metric], ...pairs(whose), ["from", new Date(Date.parse(asOf) - KEPT_HOURS * 3600000).toISOString()]];
  const key = JSON.stringify([at.metric, whose.grouping, whose.segment]);
  const minute = Math.floor(Date.parse(asOf) / MINUTE_MS);
  const known = hoursKnown.get(key);
  if (known?.minute === minute) return known.found;
  const found = await ask("hours", parameters);
  hoursKnown.set(key, { minute, found });
  return found;
}

// What was released or planned.
async function markersSince(asOf, hours) {
  const from = new Date(Date.parse(asOf) - hours * 3600000).toISOString();
  return (await ask("markers", [["from", from]])).markers;
}

// Where judgements alone show the change in the headline, the metric by which they do: of the segment over time, and of all beside what is usual.
async function gradedOf(segment, health, at, settled) {
  const told = settled && judgedAlone(settled);
  if (!told) return null;
  const metric = ["judged_metric", told.metric];
  const of = ({ window }) => ask("judged/history", [metric, ["window", window], ...pairs(segment)]);
  const [{ compared }, panes] = await Promise.all([ask("judged", [metric]), Promise.all(health.windows.map(of))]);
  const over = comparedWindow(health.windows, at.window);
  return { metric: told.metric, change: openOn(settled, told.metric, segment, true), panes, rows: compared.filter((one) => one.window === over) };
}

export async function requestAll(health, at) {
  const compared = (view, against) => ask("changes", [["window", at.window], ["view", view], ["metric", at.metric], ["against", against]]);
  const [settled, live, listed, table] = await Promise.all([
    compared("settled", "worst"), compared("live", "worst"), ask("segments"), at.against === "worst" ? null : compared(at.view, at.against)]);
  const shown = table ?? (at.view === "live" ? live : settled);
  const segment = at.segment ?? segmentOf(linkedChange(settled, at.change)) ?? subjectOf(settled, live);
  const exists = listed.groupings.some((one) => one.grouping === segment.grouping && one.segments.some((listedOne) => listedOne.segment === segment.segment));
  const of = (whose, { window }) => ask("history", [["metric", at.metric], ["window", window], ...pairs(whose)]);
  const groupings = listed.groupings.map((one) => one.grouping).filter((name) => /^experiment:[^,]*$/.test(name));
  const change = openOn(settled, at.metric, segment);
  const hours = hoursOfSpan(at.span, change, health.as_of);
  const inHours = (whose) => (exists ? hoursOf(at, whose, health.as_of) : null);
  const [metrics, own, whole, graded, variants, experiments, ownHours, wholeHours, markers] = await Promise.all([
    // An address may name any text as a segment: only what exists is requested.
    exists ? ask("changes", [["window", at.window], ["view", at.view], ...pairs(segment), ["against", at.against]]) : { ...shown, changes: [] },
    Promise.all(exists ? health.windows.map((one) => of(segment, one)) : []),
    Promise.all(exists && !isWhole(segment) ? health.windows.map((one) => of(WHOLE, one)) : []),
    gradedOf(segment, health, at, exists && !at.isChosen ? settled : null),
    Promise.all(groupings.map(async (grouping) => ({ grouping, scores: (await ask("scores", [["grouping", grouping], ["window", at.window], ["view", at.view]])).scores }))),
    ask("experiments"),
    inHours(segment),
    isWhole(segment) ? null : inHours(WHOLE),
    markersSince(health.as_of, KEPT_HOURS),
  ]);
  const last = (answer) => answer && asHistory(lastHours(answer, hours));
  const byHour = ownHours && { span: hours, own: last(ownHours), whole: last(wholeHours), all: asHistory(ownHours) };
  return { settled, live, shown, segment, exists, change, metrics, own, whole, graded, byHour, markers, variants, experiments: experiments.experiments };
}
