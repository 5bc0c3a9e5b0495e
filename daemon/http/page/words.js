// Numbers, times and changes as text. Pure.

const WORDS = {
  better: "▲ better", worse: "▼ worse", moved: "◆ moved", level: "steady", diluted: "shares traffic", recovered: "was worse",
  unripe: "too early", too_few: "too few", undefined: "undefined", cannot_tell: "cannot tell", no_traffic: "no traffic",
};

export const LATE_SECONDS = 60;
export const NARROW = "\u202f";
// `why`: what is known of why it is low, told in place of the verdict.
export function call(change, why = "") {
  if (why) return why;
  const isNew = change.now.impressions > 0 && !change.before.impressions;
  return isNew && !["worse", "better", "moved", "diluted"].includes(change.verdict) ? "nothing before" : WORDS[change.verdict];
}
export const score = (value) => (Math.abs(value) < 10 ? value.toFixed(4) : value.toPrecision(5));
export const count = (value) => value.toLocaleString("en");
export const percent = (share, digits = 1) => `${share.toFixed(digits)}${NARROW}%`;

export function signed(share) {
  const shown = Math.abs(share * 100);
  const digits = shown < 10 ? 1 : 0;
  if (Number(shown.toFixed(digits)) === 0) return percent(0, digits);
  return (share < 0 ? "−" : "+") + percent(shown, digits);
}

export function seconds(value) {
  if (value < 1) return `${(value * 1000).toFixed(value < 0.01 ? 1 : 0)} ms`;
  if (value < 90) return `${value.toFixed(value < 10 ? 1 : 0)} s`;
  if (value < 5400) return `${Math.round(value / 60)} min`;
  return value < 172800 ? `${Math.round(value / 3600)} h` : `${Math.round(value / 86400)} days`;
}

export function time(instant, fine = false) {
  const style = { hour: "2-digit", minute: "2-digit", hourCycle: "h23", ...(fine && { second: "2-digit" }) };
  return new Date(instant).toLocaleTimeString("en", style);
}

export const day = (instant) => new Date(instant).toLocaleDateString("en", { month: "short", day: "numeric" });

// The time, with the day where that is not the day of `now`.
export const clock = (instant, now, fine = false) =>
  (now && day(instant) !== day(now) ? `${day(instant)}, ` : "") + time(instant, fine);

// When the numbers end: with the day, where that may not be today.
export function instant({ as_of: asOf, behind_seconds: behind }) {
  return behind > 43200 ? `${day(asOf)}, ${time(asOf)}` : time(asOf, true);
}

// The zone of all times of the page.
export const zone = () => Intl.DateTimeFormat().resolvedOptions().timeZone;

// Why the numbers are not of now; "" where they are.
export function stale(health) {
  if (health.catching_up) {
    const until = health.as_of ? ` The numbers below end at ${instant(health)}.` : "";
    return `Catching up with stored events: ${health.catching_up.words}.${until}`;
  }
  const taken = health.conditions.find((one) => one.name === "caught_up" && !one.ok);
  if (taken) return `Alerts and dashboards show other numbers: ${taken.detail}.`;
  if (!health.as_of || !(health.behind_seconds > LATE_SECONDS)) return "";
  const lanes = health.conditions.find((one) => one.name === "lanes");
  return `These numbers are old: they end at ${instant(health)}, ${seconds(health.behind_seconds)} ago. ${lanes?.detail ?? ""}`.trim();
}

// A name that can be seen, and pressed: one of no letters is said.
export const spoken = (name) => (name.trim() ? name : name ? "(spaces)" : "(empty)");

// The name of a segment in a sentence. All traffic is "everything".
export const isWhole = (one) => one.grouping === "all";
export const named = (one) => (isWhole(one) ? "everything" : spoken(one.segment));

// The change as a share of the mean before; null if that is undefined or 0.
export const relative = (change) =>
  change.difference === null || !change.before.mean ? null : change.difference / Math.abs(change.before.mean);

function moved(change) {
  const share = relative(change);
  const size = share === null ? `by ${score(Math.abs(change.difference))}` : percent(Math.abs(share * 100), Math.abs(share) < 0.1 ? 1 : 0);
  return `${change.metric} ${change.difference < 0 ? "down" : "up"} ${size} since ${clock(change.since, new Date().toISOString())}`;
}

export const strength = (change) => (change.noise ? Math.abs(change.difference) / change.noise : 0);
const strongest = (found) => [...found].sort((a, b) => strength(b) - strength(a));

// Whether a segment is a part of another one that fell too, as phones of DE are of DE: that is no more of a fall.
const fields = ({ grouping, segment }) => grouping.split(",").map((name, index) => `${name.trim()}=${segment.split(",")[index]?.trim()}`);
const isChild = (one, other) => !isWhole(other) && fields(one).length > fields(other).length && fields(other).every((field) => fields(one).includes(field));

function fell(found) {
  const whole = found.find(isWhole);
  const parts = strongest(found.filter((one) => !isWhole(one) && !found.some((other) => isChild(one, other))));
  const more = parts.length - 1;
  if (!whole) return `${named(parts[0])}: ${moved(parts[0])}${more ? `, and ${more} more segment${more > 1 ? "s" : ""} worse` : ""}`;
  const share = parts.length ? relative(parts[0]) : null;
  return `Search got worse: ${moved(whole)}${share === null ? "" : `, most in ${named(parts[0])} (${signed(share)})`}`;
}

// The strongest falls that only the live view calls. Where a change is open, that is shown instead.
export function early(live, settled) {
  if (settled.open.length) return null;
  const same = (a, b) => a.grouping === b.grouping && a.segment === b.segment;
  const known = settled.changes.filter((one) => ["worse", "diluted"].includes(one.verdict));
  const fresh = live.changes.filter((one) => one.verdict === "worse" && !known.some((old) => same(one, old)));
  if (!fresh.length) return null;
  return { text: `${fell(fresh)} (live, still gathering)`, row: fresh.find(isWhole) ?? strongest(fresh)[0] };
}

const lengthOf = (stretch) => Date.parse(stretch.end) - Date.parse(stretch.start);

// What the tables compare: `10:55–11:55 against the same hours of Nov 13 and Nov 6`.
// A day before is 23 hours before where clocks went forward in between.
function compared({ now, before, periods, as_of: asOf, against }) {
  const span = (stretch) => `${clock(stretch.start, asOf)}–${clock(stretch.end, asOf)}`;
  const ofDays = ["day", "weeks"].includes(against) || Date.parse(now.end) - Date.parse(before.end) >= 86400000;
  if (periods.length && lengthOf(now) === lengthOf(before) && ofDays) {
    return `${span(now)} against the same hours of ${periods.map((one) => day(one.start)).join(", ")}.`;
  }
  const why = lengthOf(now) === lengthOf(before) ? "" : " (longer panes, the only ones that are kept for so long)";
  return `${span(now)} against ${span(before)}${why}.`;
}

export function basis(changes, view) {
  if (changes.remark) return changes.remark;
  if (!changes.now) return "";
  return (
    `${view === "live" ? "Live" : "Settled"}: ${compared(changes)} ` +
    `In the tables a change is called only beyond ${changes.beyond.toFixed(1)} times its noise: about one false call over all segments in 1,000 looks. ` +
    `${changes.open?.length && changes.against === "worst" ? "Of an open change they show the level since it began, and the one before." : ""}`
  ).trim();
}
