// The one wide chart: the subject of the headline in steps, over what is usual at its time, with onset, end and markers.

import { Chart } from "./charts.js";
import { shape, visible } from "./dom.js";
import { runs } from "./series.js";
import { clock } from "./words.js";

const LEAST_SPAN = 0.1; // share of the level: a constant score is a flat line in the middle
const LAYOUT = { height: 270, left: 44, right: 8, top: 14, bottom: 246, bars: 246, foot: 246, times: 264, apart: 120 };
const FAR = 70; // so far from an edge a label has room
const LOWER = 14; // a label that would lie on another one stands so much lower

export class WideChart extends Chart {
  constructor() {
    super("time", "the wide chart", LAYOUT);
    this.leastSpan = LEAST_SPAN;
  }

  // `steps` and `usual` as steps.js makes them; `ended`: when the change was over, or null.
  showSteps({ history, begin, steps, usual, change, ended, markers, label, title, isShare }) {
    Object.assign(this, { history, begin, change, ended, markers, label, usual, isShare, before: null });
    this.points = steps;
    this.whole = usual.filter(Boolean).flatMap(([low, high]) => [{ mean: low }, { mean: high }]);
    this.title = title;
    this.draw();
  }

  // Without the noise of each step, which the band of what is usual shows already.
  values() {
    return this.points.filter((one) => one.mean !== null).map((one) => one.mean);
  }

  extent() {
    return [this.begin, Date.parse(this.history.as_of)];
  }

  // The score is on the axis: numbers come when somebody points.
  idle() {
    return this.parts(this.points)[1].length ? "Dashed: clicks still arrive" : "";
  }

  traffic() {
    return [];
  }

  tickText(tick, digits) {
    return this.isShare ? (tick * 100).toFixed(Math.max(0, digits - 2)) : super.tickText(tick, digits);
  }

  began(width) {
    const drawn = super.began(width);
    const label = (instant, kind, top) => {
      const at = this.x(Date.parse(instant));
      if (!instant || at < this.layout.left || at > width - this.layout.right) return [];
      const anchor = at - this.layout.left > FAR ? { x: at - 5, "text-anchor": "end" } : { x: at + 5 };
      return [shape("text", { class: `mark ${kind}`, y: top, ...anchor }, clock(instant, this.history.as_of))];
    };
    if (this.change) drawn.push(...label(this.change.onset.at, "worse", this.layout.top + 6));
    if (this.ended) {
      const at = this.x(Date.parse(this.ended));
      const onset = this.change?.onset.at;
      const top = this.layout.top + 6 + (onset && at - this.x(Date.parse(onset)) < FAR ? LOWER : 0);
      drawn.push(shape("line", { class: "ended", x1: at, x2: at, y1: this.layout.top - 6, y2: this.layout.bottom }), ...label(this.ended, "good", top));
    }
    return drawn;
  }

  curves() {
    const { x, y } = this;
    const drawn = this.bands();
    for (const { state, points } of runs(this.points)) {
      const [left, right] = [x(points[0].start), x(points.at(-1).end)];
      if (state === "line") drawn.push(...this.stepped(points));
      else drawn.push(shape("rect", { class: "hatch", x: left, width: Math.max(right - left, 2), y: this.layout.top, height: this.layout.bottom - this.layout.top }));
    }
    return drawn;
  }

  bands() {
    const { x, y } = this;
    return this.points.map((step, index) => ({ step, usual: this.usual[index] })).filter((one) => one.usual).map(({ step, usual: [low, high] }) =>
      shape("rect", { class: "usual", x: x(step.start), width: Math.max(x(step.end) - x(step.start) + 0.3, 0.3), y: y(high), height: y(low) - y(high) }));
  }

  stepped(points) {
    const { x, y } = this;
    const path = (of, from) => of.map((one, index) => {
      const follows = index && one.start <= of[index - 1].end;
      const head = follows ? `V${y(one.mean).toFixed(1)}` : !index && from ? `M${x(from.end).toFixed(1)} ${y(from.mean).toFixed(1)}V${y(one.mean).toFixed(1)}` : `M${x(one.start).toFixed(1)} ${y(one.mean).toFixed(1)}`;
      return `${head}H${x(one.end).toFixed(1)}`;
    }).join("");
    const [settled, gathering] = this.parts(points);
    const drawn = settled.length ? [shape("path", { class: "line", d: path(settled) })] : [];
    if (gathering.length) drawn.push(shape("path", { class: "line gathering", d: path(gathering, settled.at(-1)) }));
    return drawn;
  }

  since() {
    return `${super.since()}${this.ended ? ` Back to normal since ${clock(this.ended, this.history.as_of)}.` : ""}${visible(this.title ? ` ${this.title}.` : "")}`;
  }
}
