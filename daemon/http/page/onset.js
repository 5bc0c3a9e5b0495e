// When an open change began: in words, and as a mark in a chart.

import { shape, visible } from "./dom.js";
import { clock } from "./words.js";

// `16:34 (16:32 to 16:36)`, or as much of it as is known.
export function began({ at, earliest, latest }, now) {
  if (!at) return latest ? `before ${clock(latest, now)}` : "a time that is not known";
  const known = earliest && latest && clock(earliest, now) !== clock(latest, now);
  return clock(at, now) + (known ? ` (${clock(earliest, now)} to ${clock(latest, now)})` : "");
}

// A line for the likeliest instant, in a band for its interval, as far as they lie within the chart.
// `x` places an instant; `left` and `right` are the edges of the chart.
export function mark({ onset, direction }, now, x, { left, right, top, bottom }) {
  const { at, earliest, latest } = onset;
  if (!at) return [];
  const [from, middle, to] = [earliest ?? at, at, latest ?? at].map((instant) => x(Date.parse(instant)));
  if (to < left || from > right) return [];
  const inside = (place) => Math.min(right, Math.max(left, place));
  const width = Math.max(inside(to) - inside(from), 1);
  const parts = [shape("rect", { x: inside(from), width, y: top, height: bottom - top })];
  if (middle >= left && middle <= right) parts.push(shape("line", { x1: middle, x2: middle, y1: top, y2: bottom }));
  return [shape("g", { class: `onset ${direction}` }, shape("title", {}, `Open change since ${began(onset, now)}`), ...parts)];
}

// A dashed line for each marker that lies within the chart, with its words.
export function markerLines(markers, now, x, { left, right, top, bottom }) {
  return markers.map((one) => ({ ...one, place: x(Date.parse(one.at)) })).filter(({ place }) => place >= left && place <= right)
    .map(({ kind, text, at, place }) => shape("g", { class: "marker" },
      shape("title", {}, visible(`${kind}: ${text}, ${clock(at, now)}`)),
      shape("line", { x1: place, x2: place, y1: top, y2: bottom }),
      shape("path", { d: `M${place - 4} ${top}h8l-4 6z` })));
}
