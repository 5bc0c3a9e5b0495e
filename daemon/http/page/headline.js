// The headline: what the daemon says of all metrics and segments, and where it leads.

import { $, element, setText, visible } from "./dom.js";
import { basis, early, time } from "./words.js";

const UNKNOWN = { tone: "", text: "This daemon does not say what has changed", detail: "", change: null };

export const told = ({ headline }) => headline ?? UNKNOWN;

// The change that the headline tells, if there is one.
export const changeTold = ({ headline, open, standing }) =>
  [...open, ...standing].find((one) => one.id === headline?.change) ?? null;

// A text that leads to the chart of a metric and segment; plain where it leads nowhere.
function leading(node, text, target) {
  if (!target) {
    if (node.firstElementChild || node.textContent !== text) node.textContent = text;
    return;
  }
  if (!node.firstElementChild) node.replaceChildren(element("button", { type: "button" }));
  const { metric, grouping, segment } = target;
  Object.assign(node.firstElementChild.dataset, { metric, grouping, segment });
  setText(node.firstElementChild, text);
}

// What is said first: a fall that only the live view calls, while no change is open; else what the
// daemon says. Never that search is good while a fall is called.
function first(found) {
  const { text, tone, detail } = told(found.settled);
  const fresh = early(found.live, found.settled);
  if (!fresh) return { text, tone, second: detail, target: changeTold(found.settled) };
  const until = found.settled.settled_until;
  const second = until ? `Settled, up to ${time(until)}: ${text[0].toLowerCase()}${text.slice(1)} ${detail}`.trim() : "";
  return { text: fresh.text, tone: "worse", second, target: fresh.row };
}

// `found` is what was requested, `at` what is selected.
export function showHeadline(at, found) {
  const { text, tone, second, target } = first(found);
  leading($("headline"), visible(text), target);
  $("headline").className = tone;
  setText($("second"), visible(second));
  $("second").hidden = !second;
  setText($("basis"), `${at.metric} over ${at.window}. ${basis(found[at.view], at.view)}`);
  document.title = `${tone === "worse" ? "▼ " : ""}${visible(text)} · relevanced`;
}
