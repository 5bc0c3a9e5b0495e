// What is requested of queries, and when. They are read from the store and so change slowly: once a minute of event time.

import { ask, reasonOf } from "./requests.js";
import { isWhole } from "./words.js";

const HOUR_MS = 3600000;
const MINUTE_MS = 60000;
const PATIENCE_MS = 60000;
const ENOUGH_MS = 600000;
const SLOWLY = 5; // minutes
const ROWS = 50;
const MOST_HOURS = 168; // of a list
const LINE_WINDOWS = ["7d", "now"]; // the hours of one query: those that are over, and the open one
const EXAMPLES = 4; // of one query

export const LOST = "lost";
export const WORST = "worst";

const hourOf = (instant) => Math.floor(instant / HOUR_MS) * HOUR_MS;

// The window, until one is selected: that in which a change that is open shows best.
function usualWindow(change, open) {
  const { at, latest } = change?.onset ?? {};
  const began = at ?? latest;
  if (!began) return "1h";
  const hours = (open - Date.parse(began)) / HOUR_MS;
  return hours < 0.5 ? "now" : hours < 6 ? "1h" : hours < 24 ? "6h" : "24h";
}

// The hours since a moment, as the cursor of a list that begins: null where none of them is over.
function hoursSince(since, open) {
  const from = Math.max(hourOf(since), open - MOST_HOURS * HOUR_MS);
  return from < open ? btoa(JSON.stringify([from, open, 0])).replaceAll("+", "-").replaceAll("/", "_") : null;
}

// What to request: `at` is what is selected on the page, `found` what the rest of it shows.
export function wanted(health, at, found) {
  const kept = health.queries;
  const settled = Date.parse(found.settled.settled_until ?? health.as_of);
  const open = hourOf(settled); // the hour that can still change
  const selected = kept.windows.includes(at.queries) ? at.queries : null;
  const cursor = !selected && at.since ? hoursSince(at.since, open) : null;
  const window = selected ?? (at.since ? "now" : usualWindow(found.change, open));
  const { segment } = found;
  const own = isWhole(segment) ? null : segment.grouping === kept.by ? segment.segment : undefined;
  const minute = Math.floor(Date.parse(health.as_of) / MINUTE_MS);
  const slowly = Math.floor(minute / SLOWLY);
  const known = kept.compared_metrics.includes(at.metric) && (cursor !== null || kept.compared_windows.includes(window));
  return {
    kept, window, cursor, metric: at.metric, order: known ? LOST : WORST, query: at.query,
    // Of a segment that has no tables of its own, those of everything are shown, and that is said.
    segment: own ?? null, elsewhere: own === undefined ? segment : null,
    // Where nothing is usual, an hour that just began with a fault shows it better than the hour before.
    mayBeNow: !selected && !at.since && !found.change && settled - open >= ENOUGH_MS,
    // Only the open hour changes from minute to minute.
    slowly, round: window === "now" ? minute : slowly,
  };
}

const signature = (want, names) => JSON.stringify(names.map((name) => want[name]));
const LISTED = ["window", "cursor", "mayBeNow", "round", "metric", "order", "segment"];
const OPENED = ["query", "metric", "segment", "slowly", "window", "cursor"];

const shared = ({ metric, segment }) => [["metric", metric], ...(segment === null ? [] : [["segment", segment]])];

const span = (want) => (want.cursor ? ["cursor", want.cursor] : ["window", want.window]);

function list(want, order) {
  return ask("queries", [span(want), ["order", order], ["limit", ROWS], ...shared(want)], PATIENCE_MS);
}

// Where nothing is usual yet, nothing can be said to be lost: then the worst queries are listed.
async function lists(want) {
  let of = want;
  let main = await list(of, of.order);
  if (of.order === LOST && !main.listed) {
    if (want.mayBeNow) of = { ...want, window: "now" };
    main = await list(of, WORST);
  }
  const empty = await list(of, "zero_results");
  return { main, empty, of };
}

// Examples are first those of the hours that are listed, then of the open hour, then of all.
async function detail(want) {
  const spans = [...LINE_WINDOWS.map((window) => ["window", window]), span(want)];
  const [over, open, listed] = await Promise.all(spans.map((one) =>
    ask("queries/detail", [["query", want.query], one, ...shared(want)], PATIENCE_MS)));
  const hours = [...over.hours, ...open.hours];
  const found = [listed, open, over].flatMap((one) => one.examples ?? []);
  const examples = [...new Map(found.map((one) => [`${one.impression_id} ${one.time}`, one])).values()].slice(0, EXAMPLES);
  const lost = (over.lost_examples ?? 0) + (open.lost_examples ?? 0);
  return { ...over, shown: over.shown || open.shown, hours, examples, lost_examples: lost };
}

const nothing = () => ({ of: null, found: null, fault: "", busy: false });

// Keeps the last answers, and requests them again when something else is wanted. `changed` is called with each answer.
export class QueryRequests {
  constructor(changed) {
    this.changed = changed;
    this.lists = nothing();
    this.detail = nothing();
  }

  want(want) {
    if (want.query !== this.wanted?.query) this.detail = nothing();
    this.wanted = want;
    this.request("lists", signature(want, LISTED), () => lists(want));
    if (want.query) this.request("detail", signature(want, OPENED), () => detail(want));
  }

  // One request at a time of each part: what was wanted meanwhile is requested when it is done, what failed with the next refresh.
  async request(name, of, make) {
    const part = this[name];
    if (part.of === of || part.busy) return;
    Object.assign(part, { of, busy: true });
    try {
      Object.assign(part, { found: await make(), fault: "" });
    } catch (error) {
      Object.assign(part, { of: null, fault: reasonOf(error) });
    }
    part.busy = false;
    if (this[name] !== part) return;
    this.changed();
    if (!part.fault) this.want(this.wanted);
  }
}
