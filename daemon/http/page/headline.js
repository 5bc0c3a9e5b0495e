// The headline: what the daemon says of all metrics and segments, and where it leads.

import { $, element, setText, visible } from "./dom.js";
import { basis, early } from "./words.js";

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

// `found` is what was requested, `at` what is selected.
export function showHeadline(at, found) {
  const { text, tone, detail } = told(found.settled);
  const fresh = early(found.live, found.settled);
  leading($("headline"), visible(text), changeTold(found.settled));
  $("headline").className = tone;
  setText($("second"), visible(detail));
  $("second").hidden = !detail;
  leading($("early"), visible(fresh?.text ?? ""), fresh?.row);
  $("early").hidden = !fresh;
  setText($("basis"), `${at.metric} over ${at.window}. ${basis(found[at.view], at.view)}`);
  document.title = `${tone === "worse" || fresh ? "▼ " : ""}${visible(text)} · relevanced`;
}
