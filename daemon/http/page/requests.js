// What the page requests from /api/v1.

import { changeTold } from "./headline.js";
import { isWhole, strength } from "./words.js";

const PATIENCE_MS = 10000;

export const WHOLE = { grouping: "all", segment: "all" };

export async function ask(path, parameters = []) {
  const query = new URLSearchParams(parameters);
  const answer = await fetch(`api/v1/${path}${parameters.length ? `?${query}` : ""}`, { cache: "no-cache", signal: AbortSignal.timeout(PATIENCE_MS) });
  if (answer.ok) return answer.json();
  const said = await answer.json().catch(() => ({}));
  throw new Error(said.error ?? `${path}: status ${answer.status}`);
}

const pairs = ({ grouping, segment }) => [["grouping", grouping], ["segment", segment]];

// An older daemon does not know some of these.
const complete = (changes) => ({ headline: null, settled_until: null, open: [], closed: [], standing: [], ...changes });

// What the headline tells, else the segment with the strongest call in either view: shown until the user selects one.
function mostMoved(settled, live) {
  const told = changeTold(settled) ?? settled.open[0];
  if (told) return { grouping: told.grouping, segment: told.segment };
  const called = [...settled.changes, ...live.changes].filter((one) => ["worse", "better"].includes(one.verdict) && !isWhole(one));
  const [first] = called.sort((a, b) => strength(b) - strength(a));
  return first ? { grouping: first.grouping, segment: first.segment } : WHOLE;
}

export async function requestAll(health, at, paths) {
  const compared = async (view) => complete(await ask("changes", [["window", at.window], ["view", view], ["metric", at.metric]]));
  const [settled, live, listed] = await Promise.all([compared("settled"), compared("live"), ask("segments")]);
  const segment = at.segment ?? mostMoved(settled, live);
  const exists = listed.groupings.some((one) => one.grouping === segment.grouping && one.segments.some((listedOne) => listedOne.segment === segment.segment));
  const of = (whose, { window }) => ask("history", [["metric", at.metric], ["window", window], ...pairs(whose)]);
  const groupings = listed.groupings.map((one) => one.grouping).filter((name) => /^experiment:[^,]*$/.test(name));
  const [metrics, own, whole, variants, experiments] = await Promise.all([
    ask("changes", [["window", at.window], ["view", at.view], ...pairs(segment)]),
    Promise.all(exists ? health.windows.map((one) => of(segment, one)) : []),
    Promise.all(exists && !isWhole(segment) ? health.windows.map((one) => of(WHOLE, one)) : []),
    Promise.all(groupings.map(async (grouping) => ({ grouping, scores: (await ask("scores", [["grouping", grouping], ["window", at.window], ["view", at.view]])).scores }))),
    paths.includes("/api/v1/experiments") ? ask("experiments") : { experiments: [] },
  ]);
  return { settled, live, segment, exists, metrics, own, whole, variants, experiments: experiments.experiments };
}
