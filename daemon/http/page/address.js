// What is selected. It is kept in the address, so that it can be linked to and Back returns to it.

const SHORTEST_S = 300;
const WHOLE_HOURS = ["day", "weeks"]; // what compares the last settled hours, and not the window
const AGAINST = ["worst", "hour", ...WHOLE_HOURS];
const PREFERRED = ["RR", "Success", "nDCG", "P"];

const fromAddress = () => new URLSearchParams(location.hash.slice(1));

// Selects these, and deselects those that are null: an entry of the browser's history, unless they were selected already.
export function select(change) {
  const [old, address] = [fromAddress(), fromAddress()];
  for (const [name, value] of Object.entries(change)) {
    if (value === null) address.delete(name);
    else address.set(name, value);
  }
  if (address.toString() !== old.toString()) history.pushState(null, "", `#${address}`);
}

// Until the user selects: `headlined` is the metric of the headline, if there is one; `unsettled` says that nothing has settled
// and never will, as in a recording that is shorter than the attribution window.
export function selection(health, { headlined, unsettled }) {
  const address = fromAddress();
  const names = health.metrics.map((one) => one.metric);
  const windows = health.windows.map((one) => one.window);
  const preferred = PREFERRED.map((family) => names.find((name) => name.split(/[@(]/)[0] === family)).find(Boolean);
  const against = AGAINST.includes(address.get("against")) ? address.get("against") : "worst";
  const long = health.windows.find((one) => one.seconds >= SHORTEST_S);
  return {
    metric: [address.get("metric"), headlined, preferred].find((name) => names.includes(name)) ?? names[0],
    window: windows.includes(address.get("window")) ? address.get("window") : (long ?? health.windows.at(-1)).window,
    view: (address.get("view") ?? (unsettled ? "live" : "settled")) === "live" && !WHOLE_HOURS.includes(against) ? "live" : "settled",
    against,
    ofHours: WHOLE_HOURS.includes(against),
    span: address.get("span"),
    // The window of the queries; since when (seconds since 1970), as an alert's link has it; the query that is open.
    queries: address.get("queries"),
    since: Number(address.get("since")) * 1000 || null,
    query: address.get("query"),
    segment: address.has("segment") ? { grouping: address.get("grouping") ?? "all", segment: address.get("segment") } : null,
  };
}
