// One query: its line by hour, and searches as they were shown.

import { Chart } from "./charts.js";
import { $, element, setText, visible } from "./dom.js";
import { clock, count, score } from "./words.js";

const HOUR_MS = 3600000;
const chart = new Chart("an hour", "hour by hour");

// As the answer of /api/v1/history over a window of one hour. Where tables do not list it, it may have been searched for.
function asHistory(hours, asOf, settled, bounded) {
  const panes = hours.map((hour) => {
    const { start, mean, scored, impressions, missing_at_most: missing } = hour;
    const end = Math.min(Date.parse(start) + HOUR_MS, Math.max(Date.parse(settled), Date.parse(start) + 1));
    const stderr = mean !== null && bounded ? Math.sqrt(Math.max(0, mean * (1 - mean)) / scored) : null;
    return { start, end: new Date(end).toISOString(), mean, stderr, scored, impressions, lost: false, unlisted: missing };
  });
  return { as_of: asOf, settled_until: settled, window_seconds: HOUR_MS / 1000, pane_seconds: HOUR_MS / 1000, panes };
}

// The hours from the first with a search on.
function since(hours) {
  const first = hours.findIndex((one) => one.impressions);
  return first < 0 ? [] : hours.slice(Math.max(0, first - 1));
}

// An item as it stood in the list, with the gain that feedback gave it.
function item(name, gain) {
  const mark = gain > 0 ? element("b", { class: "clicked" }, gain === 1 ? "clicked" : `gain ${count(gain)}`) : "";
  // A blank: the item stands further up.
  const shown = name === null ? element("span", { class: "quiet" }, "shown further up") : element("bdi", {}, visible(name));
  return element("li", { class: gain > 0 ? "clicked" : "" }, shown, mark);
}

function example(one, asOf) {
  const about = Object.entries(one.attributes ?? {}).map(([name, value]) => `${visible(name)} ${visible(String(value))}`).join(", ");
  const heading = `${clock(one.time, asOf, true)}${about ? `, ${about}` : ""}`;
  const gains = one.gains ?? [];
  const list = one.items.length ? element("ol", {}, ...one.items.map((name, rank) => item(name, gains[rank] ?? 0)))
    : element("p", { class: "quiet" }, "Nothing was shown: no result.");
  const unclicked = one.items.length && !gains.some((gain) => gain > 0) ? element("p", { class: "quiet" }, "Nothing was clicked.") : "";
  return element("article", {}, element("h4", {}, heading), list, unclicked, element("p", { class: "quiet id" }, element("bdi", {}, visible(one.impression_id))));
}

function examples(found, asOf) {
  const shown = found.examples ?? [];
  setText($("examples-title"), shown.length ? "Searches as they were shown" : "");
  $("examples-title").hidden = !shown.length;
  $("examples").hidden = !shown.length;
  const key = JSON.stringify(shown);
  if ($("examples").dataset.of === key) return;
  $("examples").dataset.of = key;
  $("examples").replaceChildren(...shown.map((one) => example(one, asOf)));
}

function note(found, want) {
  if (!found.shown) {
    return `Nothing is shown of this query: nobody searched for it in the last 7 days, the tables do not list it, or fewer than ${want.kept.min_users} users of a day did.`;
  }
  const sum = (name) => found.hours.reduce((total, hour) => total + hour[name], 0);
  const missing = sum("missing_at_most");
  const all = [`${count(sum("impressions"))} searches in the last 7 days, ${count(sum("impressions_with_feedback"))} with feedback, ${count(sum("zero_result_impressions"))} without a result.`];
  if (missing) all.push(`At most ${count(missing)} more may be missing: hatched hours do not list it.`);
  if (want.elsewhere) all.push("Of all segments.");
  const lost = found.lost_examples;
  if (lost) all.push(`The searches of ${count(lost)} ${lost === 1 ? "hour" : "hours"} as they were shown are missing: Redis lost them.`);
  return all.join(" ");
}

// `usual`: the mean that is usual for it, or null.
export function showQuery(part, want, asOf, settled, usual) {
  $("query").hidden = !want.query;
  if (!want.query) return;
  setText($("query-title").firstElementChild, visible(want.query));
  setText($("query-title").lastElementChild, ` ${want.metric} of ${want.segment === null ? "everything" : visible(want.segment)}`);
  const { found, fault } = part;
  const hours = found?.shown ? since(found.hours) : [];
  chart.node.hidden = !hours.length;
  if (!chart.node.isConnected) $("query-chart").append(chart.node);
  if (!found) {
    $("examples").hidden = $("examples-title").hidden = true;
    return setText($("query-note"), fault ? `The query could not be read: ${fault}.` : "Reading its hours …");
  }
  const usually = usual === null ? "" : ` Dotted: usual, ${score(usual)}.`;
  setText($("query-note"), note(found, want) + (hours.length ? usually : ""));
  const bounded = want.kept.compared_metrics.includes(want.metric);
  if (hours.length) chart.show(asHistory(hours, asOf, settled, bounded), null, usual, null, [], `${want.metric} of the query ${visible(want.query)}`);
  examples(found, asOf);
}
