// The list of changes: those that are open, long standing ones, and those that are over.

import { element, keyed, setText, visible } from "./dom.js";
import { signed } from "./words.js";

const MOST_OTHERS = 6;
const TITLES = { open: "open", standing: "standing", recovered: "recovered" };

const where = (one) => (one.grouping === "all" ? "everything" : visible(one.segment));

function listed(others, name) {
  const shown = others.slice(0, MOST_OTHERS).map((one) => `${name(one)} ${one.change_ratio === null ? "" : signed(one.change_ratio)}`.trim());
  const more = others.length - shown.length;
  return shown.join(", ") + (more > 0 ? `, and ${more} more` : "");
}

// What else is said of a change, a line each.
function lines(change) {
  const found = [];
  const { pattern, also, diluted } = change;
  if (pattern && change.state !== "recovered") found.push(`Looks like ${pattern.name}: ${pattern.words}. Look at: ${pattern.look_at}.`);
  if (also.length) found.push(`Also ${change.state === "recovered" ? "low then" : "low"}: ${listed(also, (one) => one.metric)}.`);
  if (diluted.length) {
    found.push(`Low only because ${change.grouping === "all" ? "everything is" : `they share traffic with ${where(change)}`}: ${listed(diluted, (one) => visible(one.segment))}.`);
  }
  return found;
}

function make(change) {
  const link = element("button", { type: "button", "data-metric": change.metric, "data-grouping": change.grouping, "data-segment": change.segment });
  return element("li", {}, element("span", { class: "state" }), link, element("div", {}));
}

// The second line of the headline says what the first change looks like: it is not said twice.
export function showOpen(section, { open = [], standing = [], closed = [] }, told) {
  const shown = [...open, ...standing, ...closed];
  section.hidden = !shown.length;
  keyed(section.querySelector("ul"), shown, (one) => one.id + one.state, make, (item, change) => {
    item.className = change.state;
    const [state, link, rest] = item.children;
    setText(state, TITLES[change.state]);
    setText(link, visible(change.text));
    const said = lines(change).filter((line) => change.id !== told || !line.startsWith("Looks like"));
    rest.replaceChildren(...said.map((line) => element("p", {}, line)));
  });
}

// The change that is open on this metric of this segment, if there is one.
export function openOn({ open = [], standing = [] }, metric, { grouping, segment }) {
  return [...open, ...standing].find((one) =>
    one.grouping === grouping && one.segments.includes(segment)
    && (one.metric === metric || one.also.some((other) => other.metric === metric)));
}
