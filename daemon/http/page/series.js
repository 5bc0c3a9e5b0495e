// Computes the sliding window from its panes. Pure.

// The counters of a pane. Its sum of squares follows from mean, standard error and count.
export function counters({ mean, stderr, scored, impressions }) {
  const sum = scored ? mean * scored : 0;
  const spread = stderr === null ? 0 : stderr * stderr * scored * (scored - 1);
  return [impressions, scored, sum, scored ? spread + mean * sum : 0];
}

export function point(end, [impressions, scored, sum, squares]) {
  const mean = scored ? sum / scored : null;
  const spread = Math.max(0, squares - sum * (mean ?? 0));
  const stderr = scored > 1 ? Math.sqrt(spread / scored / (scored - 1)) : null;
  return { end, impressions, scored, mean, stderr };
}

// The window's value at the end of each pane, from the first whole window on.
export function sliding(history) {
  const panes = history.panes.map(counters);
  const length = Math.round(history.window_seconds / history.pane_seconds);
  const points = [];
  for (let last = length - 1; last < panes.length; last += 1) {
    const total = [0, 0, 0, 0];
    for (const pane of panes.slice(last - length + 1, last + 1)) pane.forEach((value, index) => (total[index] += value));
    const inside = history.panes.slice(last - length + 1, last + 1);
    // A part of the window is not the window: where its metric or grouping counts since then only, it is not known.
    const uncounted = inside.some((pane) => pane.scored === null);
    const [lost, unlisted] = [inside.some((pane) => pane.lost), Math.max(...inside.map((pane) => pane.unlisted ?? 0))];
    points.push({ ...point(Date.parse(history.panes[last].end), total), lost, unlisted, uncounted });
  }
  return points;
}

// Splits the points into runs of one state: "line", "undefined", "none" (no traffic) or "lost" (not known). A query that a table
// does not list may have been searched for all the same: that is not known either.
export function runs(points) {
  const found = [];
  for (const one of points) {
    const state = one.lost || one.uncounted || (one.unlisted && !one.impressions) ? "lost" : !one.impressions ? "none" : one.mean === null ? "undefined" : "line";
    if (found.at(-1)?.state !== state) found.push({ state, points: [] });
    found.at(-1).points.push(one);
  }
  return found;
}

// Round numbers for an axis, from low to high.
export function ticks(low, high, most) {
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= rough);
  const found = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high + step * 1e-6; tick += step) found.push(tick);
  return { found, digits: Math.max(0, -Math.floor(Math.log10(step) + 1e-9)) };
}
