// What is selected. It is kept in the address, so that it can be linked to and Back returns to it.

const SHORTEST_S = 300;
const WHOLE_HOURS = ["day", "weeks"]; // what compares the last settled hours, and not the window
const AGAINST = ["worst", "hour", ...WHOLE_HOURS];
const VIEWS = ["settled", "live"];
const PREFERRED = ["Success", "RR", "nDCG", "P"];

const fromAddress = () => new URLSearchParams(location.hash.slice(1));

// The names of what is unfolded: what the link of an alert is about, too.
export function openFolds() {
  const address = fromAddress();
  const isOfQueries = ["since", "queries", "query"].some((name) => address.has(name));
  return [...(address.get("open") ?? "").split(","), ...(isOfQueries ? ["searches"] : [])];
}

// Selects these, and deselects those that are null: an entry of the browser's history, unless they were selected already, or it is
// to `replace` the last one, as for what is only folded.
export function select(change, { replace = false } = {}) {
  const [old, address] = [fromAddress(), fromAddress()];
  for (const [name, value] of Object.entries(change)) {
    if (value === null) address.delete(name);
    else address.set(name, value);
  }
  if (address.toString() === old.toString()) return;
  if (replace) history.replaceState(null, "", `#${address}`);
  else history.pushState(null, "", `#${address}`);
}

// Until the user selects: `headlined` is the metric of the headline, if there is one; `onlyLive` says that the headline is of the live
// view, or that nothing has settled and never will, as in a recording that is shorter than the attribution window.
export function selection(health, { headlined, onlyLive }) {
  const address = fromAddress();
  const names = health.metrics.map((one) => one.metric);
  const windows = health.windows.map((one) => one.window);
  const preferred = PREFERRED.map((family) => names.find((name) => name.split(/[@(]/)[0] === family)).find(Boolean);
  const against = AGAINST.includes(address.get("against")) ? address.get("against") : "worst";
  const long = health.windows.find((one) => one.seconds >= SHORTEST_S);
  return {
    metric: [address.get("metric"), headlined, preferred].find((name) => names.includes(name)) ?? names[0],
    isChosen: names.includes(address.get("metric")),
    window: windows.includes(address.get("window")) ? address.get("window") : (long ?? health.windows.at(-1)).window,
    view: (address.get("view") ?? (onlyLive ? "live" : "settled")) === "live" && !WHOLE_HOURS.includes(against) ? "live" : "settled",
    against,
    ofHours: WHOLE_HOURS.includes(against),
    span: address.get("span"),
    range: address.get("range") ?? "6h",
    showsAll: address.get("rows") === "all",
    // What the address asks for and nothing is kept of.
    absent: [["metric", names], ["window", windows], ["view", VIEWS], ["against", AGAINST]]
      .filter(([name, kept]) => address.has(name) && !kept.includes(address.get(name))).map(([name]) => `${name} ${address.get(name)}`),
    // The id of the change that a link is about.
    change: address.get("change"),
    // The window of the queries; since when (seconds since 1970), as an alert's link has it; the query that is open.
    queries: address.get("queries"),
    since: Number(address.get("since")) * 1000 || null,
    query: address.get("query"),
    segment: address.has("segment") ? { grouping: address.get("grouping") ?? "all", segment: address.get("segment") } : null,
  };
}
