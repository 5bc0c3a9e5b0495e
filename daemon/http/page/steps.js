// The steps of the wide chart: of all panes that are kept the finest, and what is usual at their time. Pure.

import { counters, point } from "./series.js";

const MINUTE_MS = 60000;
const HOUR_MS = 3600000;
const DAY_MS = 24 * HOUR_MS;
const LENGTHS = [1, 2, 5, 10, 15, 30, 60, 120, 240, 480].map((minutes) => minutes * MINUTE_MS);
const MOST_STEPS = 96;
const WEEKS = [7, 14, 21];
const BEFORE_ONSET = 0.35; // at least so much of the chart lies before the onset
export const RANGES = { "6h": 6 * HOUR_MS, day: DAY_MS, week: 7 * DAY_MS };

// From when on the chart shows: the onset of a change is in view, however long ago.
export function beginOf(range, onset, asOf) {
  const now = Date.parse(asOf);
  const begin = now - (RANGES[range] ?? RANGES["6h"]);
  const began = Date.parse(onset?.earliest ?? onset?.at ?? onset?.latest ?? asOf);
  return Math.min(begin, began - (BEFORE_ONSET / (1 - BEFORE_ONSET)) * (now - began));
}

const startOf = (pane) => Date.parse(pane.start);

// The finest panes at each time: `histories` as /api/v1/history answers, hours among them. Finer ones begin where a coarser one ends.
function finest(histories) {
  const coarsestFirst = histories.filter((one) => one?.panes.length).sort((a, b) => b.pane_seconds - a.pane_seconds);
  return coarsestFirst.filter((one) => one.pane_seconds * 1000 >= MINUTE_MS || one === coarsestFirst.at(-1)).reduce((found, { panes }) => {
    const across = found.find((pane) => startOf(pane) < startOf(panes[0]) && Date.parse(pane.end) > startOf(panes[0]));
    const from = across ? Date.parse(across.end) : startOf(panes[0]);
    const finer = panes.filter((pane) => startOf(pane) >= from);
    return finer.length ? [...found.filter((pane) => Date.parse(pane.end) <= from), ...finer] : found;
  }, []);
}

// Panes joined to steps that are as long as the chart can show, each with its start.
export function stepsOf(histories, begin, asOf) {
  const span = Date.parse(asOf) - begin;
  const length = LENGTHS.find((one) => span / one <= MOST_STEPS) ?? LENGTHS.at(-1);
  const bins = new Map();
  for (const pane of finest(histories).filter((one) => Date.parse(one.end) > begin)) {
    const bin = Math.floor(startOf(pane) / length);
    bins.set(bin, [...(bins.get(bin) ?? []), pane]);
  }
  const steps = [...bins.values()].map((panes) => {
    const total = [0, 0, 0, 0];
    for (const pane of panes) counters(pane).forEach((value, index) => (total[index] += value));
    return { start: Math.max(begin, startOf(panes[0])), ...point(Date.parse(panes.at(-1).end), total), lost: panes.some((one) => one.lost), unlisted: 0 };
  });
  // Before the first search there is nothing to hatch.
  const first = steps.findIndex((one) => one.impressions || one.lost);
  return first > 0 ? steps.slice(first) : steps;
}

// The level of the steps before an onset; null where there are none.
export function levelBefore(steps, onset) {
  const began = Date.parse(onset?.earliest ?? onset?.at ?? onset?.latest ?? NaN);
  const before = steps.filter((one) => one.end <= began && one.scored);
  const scored = before.reduce((sum, one) => sum + one.scored, 0);
  return scored ? before.reduce((sum, one) => sum + one.mean * one.scored, 0) / scored : null;
}

// What is usual at each step, as [low, high]: the same hour of the last weeks, else of yesterday, else the level before; null where nothing
// is known. Hours since `onset` are no measure. Twice the noise of a step and of what is usual is on both sides.
export function usualOf(steps, hours, onset, level) {
  const began = Date.parse(onset?.earliest ?? onset?.at ?? onset?.latest ?? NaN);
  const ofHour = new Map((hours?.panes ?? []).filter((one) => one.mean !== null && !(Date.parse(one.end) > began)).map((one) => [Math.floor(startOf(one) / HOUR_MS), one]));
  const before = steps.filter((one) => !(one.end > began));
  const known = [...(ofHour.size ? ofHour.values() : before)].filter((one) => one.stderr !== null);
  const deviation = known.length ? Math.max(...known.map((one) => one.stderr * Math.sqrt(one.scored))) : null;
  const sizes = steps.map((one) => one.scored).filter(Boolean).sort((a, b) => a - b);
  const noise = deviation === null || !sizes.length ? null : deviation / Math.sqrt(sizes[Math.floor(sizes.length / 2)]);
  const mean = (found) => found.length && {
    middle: found.reduce((sum, one) => sum + one.mean, 0) / found.length,
    error: Math.hypot(...found.map((one) => one.stderr ?? deviation)) / found.length,
  };
  return steps.map((step) => {
    const at = (days) => ofHour.get(Math.floor((step.start - days * DAY_MS) / HOUR_MS));
    const before = level === null ? null : { middle: level, error: 0 };
    const usual = mean(WEEKS.map(at).filter(Boolean)) || mean([at(1)].filter(Boolean)) || before;
    if (!usual || noise === null) return null;
    const half = 2 * Math.hypot(noise, usual.error);
    return [usual.middle - half, usual.middle + half];
  });
}
