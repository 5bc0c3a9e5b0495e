// The effect of an experiment by day, requested when somebody opens it: the server takes a moment for it.

import { element, visible } from "./dom.js";
import { ask, reasonOf } from "./requests.js";
import { interval } from "./tables.js";
import { count, score } from "./words.js";

const FRESH_MS = 60000;
const known = new Map();

const plus = (value) => (value === null ? "undefined" : `${value < 0 ? "−" : "+"}${score(Math.abs(value))}`);

function bar(difference, lower, upper, reach) {
  if (difference === null || lower === null || upper === null) return element("td", { class: "bars" });
  const label = `${plus(difference)}, from ${plus(lower)} to ${plus(upper)}`;
  return element("td", { class: "bars" }, interval((lower + upper) / 2, (upper - lower) / 2, reach, "", label));
}

function row(one, several, reach) {
  const number = (text, more = "") => element("td", { class: `number ${more}` }, text);
  const ofDay = one.day_impressions === null ? number("not known", "quiet") : number(plus(one.day_difference), "quiet");
  return element("tr", {}, element("td", {}, one.day), several ? element("td", {}, visible(one.variant)) : "",
    ofDay, number(plus(one.difference)), bar(one.difference, one.lower, one.upper, reach), number(count(one.impressions)));
}

function table(found, metric) {
  const rows = found.days.filter((one) => one.metric === metric);
  const several = new Set(rows.map((one) => one.variant)).size > 1;
  const reach = Math.max(0.001, ...rows.flatMap((one) => [Math.abs(one.lower ?? 0), Math.abs(one.upper ?? 0)]));
  const head = (text, more = "") => element("th", { scope: "col", class: more }, text);
  return element("table", {},
    element("caption", {}, `${metric} against ${visible(found.control)}, days in UTC. ${found.caution}`),
    element("thead", {}, element("tr", {}, head("Day"), several ? head("Variant") : "", head("That day", "number"),
      head("So far", "number"), head("95 % at all looks", "bars"), head("Impressions so far", "number"))),
    element("tbody", {}, ...rows.map((one) => row(one, several, reach))));
}

async function load(state) {
  if (Date.now() - state.loaded < FRESH_MS) return;
  state.loaded = Date.now();
  try {
    const found = await ask(`experiments/${encodeURIComponent(state.name)}/over-time`);
    const none = state.interleaved ? found.caution : "Nothing has settled yet.";
    const content = found.days.length ? table(found, state.metric) : element("p", { class: "quiet" }, none);
    state.body.replaceChildren(content);
  } catch (error) {
    state.loaded = 0;
    state.body.replaceChildren(element("p", { class: "worse" }, `Effects by day cannot be shown: ${reasonOf(error)}`));
  }
}

// The same element at every refresh, so that it stays open.
export function byDay(experiment) {
  const metrics = experiment.variants[0].metrics;
  const metric = (metrics.find((one) => one.role === "primary") ?? metrics[0]).metric;
  let state = known.get(experiment.experiment);
  if (!state) {
    const body = element("div");
    const details = element("details", { class: "days" }, element("summary", {}, `${visible(experiment.experiment)} by day`), body);
    state = { name: experiment.experiment, metric, body, details, loaded: 0 };
    known.set(experiment.experiment, state);
    details.addEventListener("toggle", () => details.open && load(state));
  }
  state.metric = metric;
  state.interleaved = experiment.variants.some((one) => one.variant === "interleaved")
    && experiment.variants.every((one) => ["interleaved", experiment.control].includes(one.variant));
  if (state.details.open) load(state);
  return state.details;
}
