// The hours that are kept, as a chart draws them: its span, and its panes. Pure.

const DAY = 24;
export const SPANS = { "1d": DAY, "7d": 7 * DAY, "35d": 35 * DAY };

// How many hours are shown: as selected, else enough to reach as far back before an open change as it lasts.
export function hoursOfSpan(selected, change, asOf) {
  if (SPANS[selected]) return SPANS[selected];
  const { at, earliest, latest } = change?.onset ?? {};
  const began = earliest ?? at ?? latest;
  const wanted = began ? (2 * (Date.parse(asOf) - Date.parse(began))) / 3600000 : 0;
  const lengths = Object.values(SPANS);
  return lengths.find((length) => length >= wanted) ?? lengths.at(-1);
}

// An answer of /api/v1/hours, cut to its last hours.
export function lastHours(answer, hours) {
  const from = Date.parse(answer.as_of) - hours * 3600000;
  const isIn = (start) => Date.parse(start) + answer.hour_seconds * 1000 > from;
  return { ...answer, rows: answer.rows.filter((row) => isIn(row.start)), lost: answer.lost.filter(isIn) };
}

// As the answer of /api/v1/history over a window of one hour. An hour without impressions is empty, a lost one is lost.
export function asHistory({ as_of: asOf, settled_until: settled, hour_seconds: length, lost, rows }) {
  const of = new Map(rows.map((row) => [Date.parse(row.start), row]));
  const lostAt = new Set(lost.map((start) => Date.parse(start)));
  const starts = [...of.keys(), ...lostAt].sort((a, b) => a - b);
  const panes = [];
  for (let start = starts[0]; start <= starts.at(-1); start += length * 1000) {
    const { mean = null, stderr = null, scored = 0, impressions = 0 } = of.get(start) ?? {};
    // The last hour is counted as far as it has settled, and so it ends there.
    const end = Math.min(start + length * 1000, Math.max(Date.parse(settled), start + 1));
    const instant = (time) => new Date(time).toISOString();
    panes.push({ start: instant(start), end: instant(end), mean, stderr, scored, impressions, lost: lostAt.has(start) });
  }
  return { as_of: asOf, settled_until: settled, window_seconds: length, pane_seconds: length, panes };
}
