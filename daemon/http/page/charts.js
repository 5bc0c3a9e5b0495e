// One chart per window: its value over time with an error band, all traffic for comparison, impressions below.

import { element, setText, shape } from "./dom.js";
import { began, mark, markerLines } from "./onset.js";
import { runs, sliding, ticks } from "./series.js";
import { NARROW, clock, count, day, score, time } from "./words.js";

// Where things are, in pixels: the bars of the traffic lie below the plot, the times below them.
const LAYOUT = { height: 210, left: 44, right: 8, top: 10, bottom: 168, bars: 174, foot: 192, times: 207, apart: 70 };
const LEAST_SPAN = 0.06; // share of the middle value: on a narrower axis noise would look like a fall
const LEAST_HALF = 0.05; // around a constant 0
const MINUTES = [1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 5760, 10080];
const DAY_MS = 86400000;

const path = (points, x, y) => points.map((one, index) => `${index ? "L" : "M"}${x(one.end).toFixed(1)} ${y(one.mean).toFixed(1)}`).join("");

function band(points, x, y) {
  const edge = (sign) => points.map((one) => `${x(one.end).toFixed(1)} ${y(one.mean + sign * 1.96 * (one.stderr ?? 0)).toFixed(1)}`);
  return `M${edge(1).join("L")}L${edge(-1).reverse().join("L")}Z`;
}

function range(own, whole, before, least) {
  const values = [...own];
  values.push(...whole.filter((one) => one.mean !== null).map((one) => one.mean));
  if (before !== null) values.push(before);
  if (!values.length) return [0, 1];
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const middle = (low + high) / 2;
  const half = Math.max((high - low) / 2, (least / 2) * Math.abs(middle) || LEAST_HALF) * 1.06;
  return [middle - half, middle + half];
}

// The local midnights of every so many days since 1970: not 24 hours apart where clocks change.
function midnights(first, last, days) {
  const begin = new Date(first);
  const date = Date.UTC(begin.getFullYear(), begin.getMonth(), begin.getDate()) / DAY_MS;
  const found = [];
  for (let at = Math.ceil(date / days) * days; ; at += days) {
    const utc = new Date(at * DAY_MS);
    const tick = new Date(utc.getUTCFullYear(), utc.getUTCMonth(), utc.getUTCDate()).getTime();
    if (tick > last) return found;
    if (tick >= first) found.push(tick);
  }
}

function timeTicks(first, last, most) {
  const least = last - first > 2 * DAY_MS ? DAY_MS / 60000 : 0;
  const minutes = MINUTES.find((one) => one >= least && (last - first) / 60000 / one <= most) ?? MINUTES.at(-1);
  const step = minutes * 60000;
  if (step >= DAY_MS) return midnights(first, last, step / DAY_MS);
  const shift = new Date(last).getTimezoneOffset() * 60000;
  const found = [];
  for (let tick = Math.ceil((first - shift) / step) * step + shift; tick <= last; tick += step) found.push(tick);
  return found;
}

export class Chart {
  constructor(name, title = `over ${name}`, layout = LAYOUT) {
    this.layout = layout;
    this.output = element("output");
    this.svg = shape("svg", { class: "chart", tabindex: 0, role: "img", "aria-label": title });
    this.node = element("figure", {}, element("figcaption", {}, element("h3", {}, title), this.output), this.svg);
    this.name = name;
    this.leastSpan = LEAST_SPAN;
    this.index = null;
    this.svg.addEventListener("pointermove", (event) => this.point(this.nearest(event)));
    this.svg.addEventListener("pointerleave", () => this.point(null));
    this.svg.addEventListener("blur", () => this.point(null));
    this.svg.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.node);
  }

  show(history, whole, before, change, markers, label) {
    Object.assign(this, { history, before, change, markers, label });
    this.points = sliding(history);
    this.whole = whole ? sliding(whole) : [];
    this.draw();
  }

  draw() {
    const width = this.svg.clientWidth;
    if (!this.points || !width) return;
    const [first, last] = this.extent();
    const [low, high] = range(this.values(), this.whole, this.before, this.leastSpan);
    this.x = (instant) => this.layout.left + ((instant - first) / (last - first)) * (width - this.layout.left - this.layout.right);
    this.y = (value) => this.layout.bottom - ((value - low) / (high - low)) * (this.layout.bottom - this.layout.top);
    this.svg.setAttribute("viewBox", `0 0 ${width} ${this.layout.height}`);
    this.svg.setAttribute("aria-label", `${this.label}, over ${this.name}: ${this.latest()}.${this.since()} Use the arrow keys to read each point.`);
    this.svg.replaceChildren(...this.frame(low, high, first, last, width), ...this.traffic(), ...this.began(width), ...this.curves());
    this.point(this.index);
  }

  // What the axis of the score spans: each point with its error.
  values() {
    const defined = this.points.filter((one) => one.mean !== null);
    return defined.flatMap((one) => [one.mean - 1.96 * (one.stderr ?? 0), one.mean + 1.96 * (one.stderr ?? 0)]);
  }

  // The first and the last instant of the axis of time.
  extent() {
    return [Date.parse(this.history.as_of) - this.spanMs(), Date.parse(this.history.panes.at(-1)?.end ?? this.history.as_of)];
  }

  tickText(tick, digits) {
    return tick.toFixed(digits);
  }

  // The time that has points: what is kept, minus the length of the first window.
  spanMs() {
    const ends = this.points.map((one) => one.end);
    return Math.max(Date.parse(this.history.as_of) - (ends[0] ?? 0), this.history.pane_seconds * 1000);
  }

  frame(low, high, first, last, width) {
    const { found, digits } = ticks(low, high, 5);
    const until = this.history.settled_until;
    const settled = until ? Math.max(this.x(Date.parse(until)), this.layout.left) : this.layout.left;
    const right = width - this.layout.right;
    const times = timeTicks(first, last, width / this.layout.apart);
    return [
      shape("rect", { class: "unripe", x: settled, width: Math.max(0, right - settled), y: this.layout.top - 6, height: this.layout.foot - this.layout.top + 6 }),
      ...found.flatMap((tick) => [
        shape("line", { class: "grid", x1: this.layout.left, x2: right, y1: this.y(tick), y2: this.y(tick) }),
        shape("text", { x: this.layout.left - 6, y: this.y(tick) + 4, "text-anchor": "end" }, this.tickText(tick, digits)),
      ]),
      ...times.map((tick) => shape("text", { x: this.x(tick), y: this.layout.times, "text-anchor": "middle" }, last - first > 2 * DAY_MS ? day(tick) : time(tick))),
      this.before === null ? "" : shape("line", { class: "before", x1: this.layout.left, x2: right, y1: this.y(this.before), y2: this.y(this.before) }),
    ].filter(Boolean);
  }

  // What was released or planned, and the onset of the open change, if there is one.
  began(width) {
    const edges = { left: this.layout.left, right: width - this.layout.right, top: this.layout.top - 6, bottom: this.layout.foot };
    const marked = markerLines(this.markers, this.history.as_of, this.x, edges);
    return this.change ? [...marked, ...mark(this.change, this.history.as_of, this.x, edges)] : marked;
  }

  since() {
    return this.change ? ` Open change since ${began(this.change.onset, this.history.as_of)}.` : "";
  }

  traffic() {
    const start = this.points[0]?.end ?? 0;
    const panes = this.history.panes.filter((pane) => Date.parse(pane.end) >= start);
    const most = Math.max(1, ...panes.map((pane) => pane.impressions));
    return panes.map((pane) => {
      const [left, right] = [this.x(Math.max(Date.parse(pane.start), start)), this.x(Date.parse(pane.end))];
      const height = (pane.impressions / most) * (this.layout.foot - this.layout.bars);
      const wide = Math.max(right - left - (right - left > 3 ? 1 : 0), 0.3);
      return shape("rect", { class: "traffic", x: left, width: wide, y: this.layout.foot - height, height });
    });
  }

  curves() {
    const { x, y } = this;
    const drawn = runs(this.whole).filter((run) => run.state === "line").flatMap((run) => this.curve("whole", run.points));
    for (const { state, points } of runs(this.points)) {
      const [left, right] = [x(points[0].end), x(points.at(-1).end)];
      if (state === "none" || state === "lost") drawn.push(shape("rect", { class: "hatch", x: left, width: Math.max(right - left, 2), y: this.layout.top, height: this.layout.bottom - this.layout.top }));
      else if (state === "undefined") drawn.push(shape("line", { class: "gap", x1: left, x2: right + 1, y1: this.layout.bottom - 3, y2: this.layout.bottom - 3 }));
      else {
        const [settled] = this.parts(points);
        if (settled.length) drawn.push(shape("path", { class: "band", d: band(settled, x, y) }));
        drawn.push(...this.curve("line", points));
        if (points.length === 1) drawn.push(shape("circle", { class: "point", cx: left, cy: y(points[0].mean), r: 2.5 }));
      }
    }
    return drawn;
  }

  // A line, dashed from where it still gathers feedback.
  curve(name, points) {
    const [settled, gathering] = this.parts(points);
    const drawn = settled.length ? [shape("path", { class: name, d: path(settled, this.x, this.y) })] : [];
    if (gathering.length) drawn.push(shape("path", { class: `${name} gathering`, d: path([...settled.slice(-1), ...gathering], this.x, this.y) }));
    return drawn;
  }

  // The points that have settled, and those that still gather feedback.
  parts(points) {
    const until = Date.parse(this.history.settled_until);
    return [points.filter((one) => one.end <= until), points.filter((one) => !(one.end <= until))];
  }

  nearest(event) {
    const at = event.clientX - this.svg.getBoundingClientRect().left;
    const gaps = (this.points ?? []).map((one) => Math.abs(this.x(one.end) - at));
    return gaps.length ? gaps.indexOf(Math.min(...gaps)) : null;
  }

  key(event) {
    const last = (this.points?.length ?? 0) - 1;
    const from = this.index ?? last;
    const to = { ArrowLeft: from - 1, ArrowRight: from + 1, Home: 0, End: last, PageUp: from - 10, PageDown: from + 10 }[event.key];
    if (event.key === "Escape") this.point(null);
    else if (to !== undefined && last >= 0) {
      event.preventDefault();
      this.point(Math.max(0, Math.min(last, to)));
    }
  }

  words(one) {
    if (one?.lost) return "lost from the store";
    if (one?.uncounted) return "not counted in all of this window";
    if (one?.unlisted && !one.impressions) return `not listed: at most ${count(one.unlisted)} searches`;
    if (!one || !one.impressions) return "no traffic";
    if (one.mean === null) return `undefined, ${count(one.impressions)} impressions`;
    const error = one.stderr === null ? "" : `${NARROW}±${NARROW}${score(one.stderr)}`;
    return `${score(one.mean)}${error}, ${count(one.scored)} scored`;
  }

  // The last value that has settled: the newer ones do not contain all feedback.
  latest() {
    const one = this.parts(this.points)[0].at(-1);
    return one ? `${this.words(one)} at ${clock(one.end, this.history.as_of)}` : "nothing has settled yet";
  }

  // What is said while nobody points.
  idle() {
    return this.latest();
  }

  pointed(one) {
    return one.end <= Date.parse(this.history.settled_until) || !one.mean ? this.words(one) : `${score(one.mean)}, still gathering`;
  }

  point(index) {
    this.index = index;
    this.svg.querySelector(".pointer")?.remove();
    const one = index === null ? null : this.points?.[index];
    setText(this.output, one ? `${clock(one.end, this.history.as_of, true)}  ${this.pointed(one)}` : this.points ? this.idle() : "");
    if (index === null || !one) return;
    const at = this.x(one.end);
    const mark = shape("g", { class: "pointer" }, shape("line", { class: "cross", x1: at, x2: at, y1: this.layout.top, y2: this.layout.foot }));
    if (one.mean !== null) mark.append(shape("circle", { class: "point", cx: at, cy: this.y(one.mean), r: 4 }));
    this.svg.append(mark);
  }
}
