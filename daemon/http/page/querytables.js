// The tables of queries: those that lost most, and searches without a result.

import { $, element, keyed, setText, visible } from "./dom.js";
import { LOST } from "./queries.js";
import { estimate } from "./tables.js";
import { NARROW, clock, count, percent, score } from "./words.js";

const FIRST_ROWS = 10;
const EMPTY_ROWS = 10;

// A text of a user: of any direction, so that it must not turn what stands beside it.
const quoted = (text) => element("bdi", {}, visible(text));

function head(row) {
  return element("td", {}, element("button", { type: "button", class: "query", "data-query": row.query }, quoted(row.query)));
}

function blank(row, kinds) {
  return element("tr", {}, head(row), ...kinds.map((kind) => element("td", { class: kind })));
}

function select(line, row, opened) {
  line.classList.toggle("selected", row.query === opened);
  line.firstElementChild.firstElementChild.setAttribute("aria-expanded", row.query === opened);
}

// So many searches, and how many more there may be: in hours in which a lane did not list the query.
function counted(cell, number, missing) {
  if (number === null) return setText(cell, "not listed");
  cell.replaceChildren(count(number), missing ? element("small", {}, ` +${NARROW}${count(missing)} at most`) : "");
}

const searches = (value) => (Math.abs(value) < 9.95 ? value.toFixed(1) : count(Math.round(value))).replace("-", "−");

function verdict(row) {
  if (row.lost === null) return ["", ""];
  if (row.lost_at_least > 0) return [row.sure ? "▼ for sure" : "▼ lost", "worse"];
  return ["within chance", "quiet"];
}

function fillLost(line, row) {
  const [seen, now, usual, lost, called] = [...line.children].slice(1);
  counted(seen, row.impressions, row.missing_at_most);
  estimate(now, row);
  setText(usual, row.usual_mean === null ? "not known" : score(row.usual_mean));
  usual.className = `number before ${row.usual_mean === null ? "quiet" : ""}`;
  lost.replaceChildren(...(row.lost === null ? [""] : [searches(row.lost), element("span", { class: "error" }, `${NARROW}±${NARROW}${searches(row.lost_stderr)}`)]));
  const [words, tone] = verdict(row);
  lost.className = `number ${tone}`;
  setText(called, words);
  called.className = `call ${tone}`;
}

const LOST_CELLS = ["number count", "number", "number before", "number", "call"];

function showLost(main, opened, rows) {
  const isLost = main.order === LOST;
  $("queries").classList.toggle("worst", !isLost);
  keyed($("queries").querySelector("tbody"), main.rows.slice(0, rows), (one) => one.query, (row) => blank(row, LOST_CELLS), (line, row) => {
    fillLost(line, row);
    select(line, row, opened);
  });
}

function showEmpty(empty, opened) {
  $("empty").hidden = false;
  const rows = empty.rows.slice(0, EMPTY_ROWS);
  keyed($("empty").querySelector("tbody"), rows, (one) => one.query, (row) => blank(row, ["number", "number count"]), (line, row) => {
    counted(line.children[1], row.zero_result_impressions, row.missing_at_most);
    counted(line.children[2], row.impressions, 0);
    select(line, row, opened);
  });
  $("empty").querySelector("table").hidden = !rows.length;
  const all = empty.whole?.zero_result_impressions;
  const more = empty.listed - rows.length;
  const words = [rows.length ? "" : "No query that is listed had no result.", more > 0 ? `${count(more)} more queries.` : "",
    all ? `${count(all)} searches without a result in all; ${count(empty.rare.zero_result_impressions)} of them are of queries of too few users.` : ""];
  setText($("empty-note"), words.filter(Boolean).join(" "));
}

// Of which hours the lists are.
function span(main, want, asOf) {
  const [from, until] = [clock(main.from, asOf), clock(main.until, asOf)];
  if (want.window === "now" && !want.cursor) return `The hour since ${from}, as far as it has settled.`;
  const wanted = { "1h": 1, "6h": 6, "24h": 24, "7d": 168 }[want.window];
  if (!main.hours) return `No whole hour is known yet: the first one ends at ${until} at the earliest.`;
  const less = !want.cursor && main.hours < wanted ? ` Only ${count(main.hours)} of ${wanted} hours are known.` : "";
  return `From ${from} to ${until}.${less}`;
}

function comparison(main, want) {
  if (main.order === LOST) {
    const days = main.usual_days === 1 ? "the day before" : `${main.usual_days} days before`;
    return `Compared with the same hours of ${days}. Lost: so many searches' worth of ${main.metric} less than usual. Of 500 queries about two an hour are listed by chance; “for sure” is beyond 3.5 errors.`;
  }
  const why = !want.kept.compared_metrics.includes(main.metric) ? `${main.metric} is not within 0 to 1, so losses cannot be counted in searches.`
    : !want.cursor && !want.kept.compared_windows.includes(want.window) ? `For what is usual over ${want.window}, set queries.days to 14 or more.`
      : "Nothing is usual yet: that needs the same hours of a day before.";
  return `${why} So the worst queries are listed; a query of few searches counts little.`;
}

function carried({ carried_at_least: least, carried_at_most: most, order }) {
  if (order !== LOST || least === null || most <= 0) return "";
  const range = [least, most].map((part) => percent(Math.min(Math.max(part, 0), 1) * 100, 0));
  return `The first ten listed queries carry ${[...new Set(range)].join(" to ")} of what was lost.`;
}

const searched = ({ impressions }) => `${count(impressions)} ${impressions === 1 ? "search" : "searches"}`;

// What the queries that are not listed lost together.
function tail({ other, order }) {
  if (order !== LOST || !other || other.lost === null || other.lost_at_least <= 0) return "";
  return `Together they lost ${searches(other.lost)}${NARROW}±${NARROW}${searches(other.lost_stderr)} searches' worth${other.sure ? ", for sure" : ""}: ${score(other.mean)}, usually ${score(other.usual_mean)}.`;
}

// What no row shows, and what is missing.
function left(main) {
  const { none, rare, other, listed, min_users: users, unlisted_at_most: bound, lost_hours: lost } = main;
  const words = [];
  if (lost) words.push(`A part of ${count(lost)} hours is missing: Redis lost it, or a partition went quiet.`);
  if (rare.impressions) words.push(`Queries of fewer than ${users} users, whose texts are not shown: ${searched(rare)}.`);
  if (rare.impressions && !listed) words.push("No query has that many: a search that names no user (queries.user) counts no one. With queries.min_users = 0, all texts are shown.");
  if (other?.impressions) words.push(`Queries that the tables do not list: ${searched(other)}${bound ? `, at most ${count(bound)} of each` : ""}.`, tail(main));
  else if (bound) words.push(`A query that is not listed has at most ${count(bound)} searches.`);
  if (none.impressions) words.push(`Without a query: ${searched(none)}.`);
  return words.filter(Boolean).join(" ");
}

function elsewhere({ elsewhere: segment, kept }) {
  if (!segment) return "";
  const by = kept.by ? `only of everything and by ${visible(kept.by)}` : "only of everything (queries.by gives them for a grouping)";
  return `These are the queries of everything: they are kept ${by}.`;
}

const OFF = [
  "Queries are not kept, so nobody can see here which searches got worse. To switch it on, add to the configuration:",
  '[queries]\ntext = "plain"      # or "hashed", with a key_file\nby = "country"      # a grouping, if there is one',
  "Queries of fewer than 5 users are not shown. Counting begins with the next whole hour; nothing else is counted anew.",
];

// Without tables: why, and how they are switched on.
export function showOff() {
  for (const part of $("queries").querySelectorAll("form, table, #queries-more, #queries-left")) part.hidden = true;
  setText($("queries-title"), "Queries");
  $("empty").hidden = $("query").hidden = true;
  if ($("queries-note").querySelector("pre")) return; // somebody may be copying it
  const [why, lines, more] = OFF;
  $("queries-note").replaceChildren(why, element("pre", {}, lines), more);
}

function showForm(kept, shown) {
  $("find").hidden = false;
  const label = (window) => element("label", {}, element("input", { type: "radio", name: "queries", value: window }), element("span", {}, window));
  const [legend, ...old] = $("queries-window").children;
  if (old.length !== kept.windows.length) $("queries-window").replaceChildren(legend, ...kept.windows.map(label));
  for (const input of $("queries-window").querySelectorAll("input")) input.checked = input.value === shown;
}

export function showTables(part, want, asOf, showsAll) {
  const { found, fault } = part;
  // What the answer is of, until another one comes.
  const of = found?.of ?? want;
  showForm(want.kept, want.cursor ? null : part.busy ? want.window : of.window);
  $("queries").classList.toggle("old", Boolean(part.busy && found));
  if (!found) {
    $("queries").querySelector("table").hidden = true;
    $("empty").hidden = true;
    return setText($("queries-note"), fault ? `Queries could not be read: ${fault}.` : "Reading the queries …");
  }
  const { main, empty } = found;
  const whose = main.segment === null ? "everything" : visible(main.segment);
  $("queries-title").replaceChildren(main.order === LOST ? "Queries that lost most" : "Worst queries", element("small", {}, ` ${main.metric} of ${whose}`));
  const table = $("queries").querySelector("table");
  table.hidden = !main.rows.length;
  showLost(main, want.query, showsAll ? Infinity : FIRST_ROWS);
  const more = main.rows.length - FIRST_ROWS;
  $("queries-more").hidden = more <= 0;
  setText($("queries-more"), showsAll ? "Show fewer" : `Show ${more} more`);
  const none = main.rows.length ? "" : "No query is listed.";
  const failed = fault ? `These are the last ones that could be read: ${fault}.` : "";
  setText($("queries-note"), [failed, elsewhere(of), none, span(main, of, asOf), main.rows.length ? comparison(main, of) : "", carried(main)].filter(Boolean).join(" "));
  $("queries-left").hidden = false;
  setText($("queries-left"), left(main));
  showEmpty(empty, want.query);
}
