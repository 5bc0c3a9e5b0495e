// The headline: the state of search in one sentence, a line of numbers, a line of cause, and where to go on.

import { $, element, keyed, setText, visible } from "./dom.js";
import { early as catchingUp, said } from "./headlinewords.js";
import { basis, early, isWhole, named } from "./words.js";

const MOST_TRAFFIC = 3;
const TRAFFIC_ALERTS = {
  impressions: "RelevancedSegmentSilent", feedback_share: "RelevancedFeedbackShareDropped", zero_results_share: "RelevancedZeroResultsRising",
};
const MARKS = { worse: "▼ ", good: "", wait: "" };

// The change that the headline tells, if there is one.
export const headlineChange = ({ headline, open, standing }) =>
  [...open, ...standing].find((one) => one.id === headline.change) ?? null;

// The change that a link is about: open, or just over.
export const linkedChange = ({ open, standing, closed }, id) =>
  [...open, ...standing, ...closed].flatMap((one) => [one, one.beside]).find((one) => one?.id === id) ?? null;

// The metric of which the headline speaks; undefined where it is free.
export function headlineMetric(settled) {
  const change = headlineChange(settled);
  return change?.judged ? undefined : settled.headline.parts?.metric ?? change?.metric;
}

// The change that the headline tells, where it is one that judgements alone show.
export function judgedAlone(settled) {
  const change = headlineChange(settled);
  return change?.judged && !change.beside ? change : null;
}

// The mean of now of what the headline is about, as the tables have it: of what is over, from windows that begin after it.
// Until the end is final, the rows have the level since the onset.
function levelNow(found, { grouping, segments, ended, final }) {
  if (final) return null;
  const after = [found.live, found.settled].filter(({ now }) => !ended || (now && Date.parse(now.start) >= Date.parse(ended)));
  const rows = after.flatMap(({ changes }) => changes).filter((one) => one.now.mean !== null);
  return rows.findLast((one) => one.grouping === grouping && one.segment === segments[0])?.now.mean ?? null;
}

// What is said first: a fall that only the live view calls, while no change is open; else what the
// daemon says. Never that search is good while a fall is called.
function first(health, at, found) {
  const { settled } = found;
  const change = headlineChange(settled);
  const fresh = early(found.live, settled);
  if (health.catching_up && !change) return catchingUp(health.catching_up, health.as_of);
  if (fresh) return { tone: "worse", title: fresh.text, line: "", cause: "By live traffic: clicks still arrive for it, so this may pass." };
  const { parts } = settled.headline;
  const far = headlineFar(health, found)?.text;
  const others = settled.open.filter((one) => change && one.id !== change.id && one.state === "open");
  const level = at.metric === (parts.metric ?? at.metric) ? levelNow(found, parts) : null;
  const isCalled = found.shown.changes.some((one) => one.verdict === "worse");
  return said({ parts, now: settled.as_of, judged: change?.judged ?? false, isAlone: Boolean(judgedAlone(settled)), others, level, metric: at.metric, settled: settled.settled_until, isCalled, far });
}

// The number of all searches that the headline tells, if it does: a fall that only the live view calls goes before.
function headlineFar(health, { live, settled }) {
  if (health.catching_up || early(live, settled)) return null;
  return settled.traffic?.find(({ grouping, metric }) => grouping === "all" && metric === settled.headline.parts?.far) ?? null;
}

// The change that is told first: none where that is a number of all searches.
export const toldChange = (health, found) => (headlineFar(health, found) ? null : headlineChange(found.settled));

// The alert that tells what the headline tells, if one does: its name is that of a section of the runbook.
export function headlineAlert(health, found) {
  const far = headlineFar(health, found);
  if (far) return TRAFFIC_ALERTS[far.metric];
  const change = headlineChange(found.settled);
  if (!change) return null;
  return change.judged ? "RelevancedJudgedScoreDropped" : "RelevancedScoreDropped";
}

// Of the runbook that is set, else of that of this server.
const runbookLink = (alert, runbook) => element("a", { href: runbook ? `${runbook}#${alert.toLowerCase()}` : `runbook/${alert}` }, alert);

// What to do about what the headline tells: where to look, and the section of the runbook.
function showRunbook(health, found) {
  const alert = headlineAlert(health, found);
  if (!alert) return;
  const link = runbookLink(alert, health.runbook);
  if ($("runbook").querySelector("a")?.href !== link.href) $("runbook").replaceChildren("What to do: ", link);
  const change = toldChange(health, found);
  const pattern = change && (found.settled.headline.parts?.pattern ?? change.pattern);
  setText($("look"), pattern ? visible(`Looks like ${pattern.name}: ${pattern.words}. Look at: ${pattern.look_at}.`) : "");
}

// What is far from usual in the data behind the scores: of a namespace that catches up it is not known.
function showTraffic(list, health, found) {
  const told = headlineFar(health, found);
  const traffic = health.catching_up ? [] : (found.settled.traffic ?? []).filter((one) => one !== told);
  const lines = traffic.slice(0, MOST_TRAFFIC).map(({ text, metric }) => [`▼ ${text} `, runbookLink(TRAFFIC_ALERTS[metric], health.runbook)]);
  const more = traffic.length - MOST_TRAFFIC;
  if (more > 0) lines.push([`${more} more ${more === 1 ? "number is" : "numbers are"} far from usual.`]);
  keyed(list, lines, ([text]) => text, ([text, ...link]) => element("li", {}, visible(text), ...link), () => {});
  list.hidden = !lines.length;
}

// `found` is what was requested, `at` what is selected.
export function showHeadline(health, at, found) {
  const { tone, title, line, cause } = first(health, at, found);
  const change = headlineChange(found.settled);
  setText($("headline"), visible(title));
  $("verdict").className = tone;
  for (const [id, text] of [["second", line], ["cause", cause]]) {
    setText($(id), visible(text));
    $(id).hidden = !text;
  }
  showTraffic($("traffic"), health, found);
  $("acts").hidden = false;
  $("act-todo").hidden = !headlineAlert(health, found);
  $("act-searches").hidden = !health.queries;
  $("act-judged").hidden = !change?.judged;
  showRunbook(health, found);
  setText($("basis"), `${at.metric}${at.ofHours ? "" : ` over ${at.window}`}. ${basis(found.shown, at.view)}`);
  document.title = `${MARKS[tone]}${visible(title)} · relevanced`;
}

// What a link asks for and nothing is shown of.
export function absentText(at, found) {
  const absent = [...at.absent];
  if (at.change && !linkedChange(found.settled, at.change)) absent.push(`change ${at.change}`);
  if (!found.exists) absent.push(isWhole(found.segment) ? "everything" : `${found.segment.grouping} ${named(found.segment)}`);
  return absent.length ? visible(`The link asks for ${absent.join(" and ")}: nothing is kept of that now. What is shown is what there is.`) : "";
}
