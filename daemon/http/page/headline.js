// The headline: what the daemon says of all metrics and segments, and where it leads.

import { $, element, setText, visible } from "./dom.js";
import { basis, early, time } from "./words.js";

// The change that the headline tells, if there is one.
export const headlineChange = ({ headline, open, standing }) =>
  [...open, ...standing].find((one) => one.id === headline.change) ?? null;

// A text that leads to the chart of a metric, of feedback or judged, and segment; plain where it leads nowhere.
function leading(node, text, target) {
  if (!target) {
    if (node.firstElementChild || node.textContent !== text) node.textContent = text;
    return;
  }
  if (!node.firstElementChild) node.replaceChildren(element("button", { type: "button" }));
  const { metric, grouping, segment, judged } = target;
  const { dataset } = node.firstElementChild;
  delete dataset[judged ? "metric" : "judged"];
  Object.assign(dataset, { [judged ? "judged" : "metric"]: metric, grouping, segment });
  setText(node.firstElementChild, text);
}

// What is said first: a fall that only the live view calls, while no change is open; else what the
// daemon says. Never that search is good while a fall is called.
function first(found) {
  const { text, tone, detail } = found.settled.headline;
  const fresh = early(found.live, found.settled);
  if (!fresh) return { text, tone, second: detail, target: headlineChange(found.settled) };
  const until = found.settled.settled_until;
  const second = until ? `Settled, up to ${time(until)}: ${text[0].toLowerCase()}${text.slice(1)} ${detail}`.trim() : "";
  return { text: fresh.text, tone: "worse", second, target: fresh.row };
}

// The alert that tells of a change: its name is that of a section of the runbook.
function alertOf({ judged }) {
  return judged ? "RelevancedJudgedScoreDropped" : "RelevancedScoreDropped";
}

// What to do about the change in the headline: the section of the runbook, with a link where its address is set.
function showRunbook(change, runbook) {
  $("runbook").hidden = !change;
  if (!change) return;
  const name = alertOf(change);
  const section = runbook ? element("a", { href: `${runbook}#${name.toLowerCase()}` }, name) : name;
  $("runbook").replaceChildren("What to do: ", section, runbook ? "" : " in the runbook (the setting links.runbook makes this a link)");
}

// `found` is what was requested, `at` what is selected, `runbook` the address of the runbook or null.
export function showHeadline(at, found, runbook) {
  const { text, tone, second, target } = first(found);
  leading($("headline"), visible(text), target);
  $("headline").className = tone;
  setText($("second"), visible(second));
  $("second").hidden = !second;
  showRunbook(headlineChange(found.settled), runbook);
  setText($("basis"), `${at.metric}${at.ofHours ? "" : ` over ${at.window}`}. ${basis(found.shown, at.view)}`);
  document.title = `${tone === "worse" ? "▼ " : ""}${visible(text)} · relevanced`;
}
