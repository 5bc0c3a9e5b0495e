// The part of the page that is about judgements: what is requested for it, and how it reacts.

import { Chart } from "./charts.js";
import { $, element, setText, visible } from "./dom.js";
import { BEYOND, basis, note, rowsOf, showRows } from "./judged.js";
import { openOn } from "./open.js";
import { WHOLE, ask } from "./requests.js";
import { isWhole, spoken } from "./words.js";

const pairs = ({ grouping, segment }) => [["grouping", grouping], ["segment", segment]];

export class JudgedPanel {
  constructor() {
    this.metric = null; // that of the chart
    this.chart = null;
    this.round = 0;
    this.leads = false; // whether the next drawing takes the focus
  }

  // What the page shows now; `found` is null where there are no scores.
  async show(health, at, found) {
    const isOn = Boolean(found?.exists && health.judged_metrics?.length);
    const round = (this.round += 1);
    if (!isOn) {
      $("judged").hidden = true;
      this.now = null;
      return;
    }
    if (!health.judged_metrics.includes(this.metric)) [this.metric] = health.judged_metrics;
    const of = (whose) => ask("judged/history", [["judged_metric", this.metric], ["window", at.window], ...pairs(whose)]);
    this.now = [health, at, found];
    const { segment } = found;
    let answers;
    try {
      answers = await Promise.all([ask("judged", pairs(segment)), of(segment), isWhole(segment) ? null : of(WHOLE)]);
    } catch {
      return; // The page says by itself that the daemon does not answer.
    }
    const [judged, own, whole] = answers;
    if (round === this.round) this.draw(health, at, found, { judged, own, whole });
  }

  draw(health, at, found, { judged, own, whole }) {
    const rows = rowsOf(judged, health.windows, at.window);
    const name = isWhole(found.segment) ? "everything" : visible(spoken(found.segment.segment));
    $("judged-title").replaceChildren(`${name[0].toUpperCase()}${name.slice(1)} by judgements`, element("small", {}, ` ${at.window}, without clicks`));
    $("judged-note").replaceChildren(...note(judged, rows, health));
    showRows($("judged").querySelector("tbody"), rows, BEYOND, this.metric);
    $("judged-parts").hidden = !rows.length;
    setText($("judged-key"), rows.length ? basis(rows, health.as_of) : "");
    $("judged").hidden = false;
    if (this.chart?.name !== at.window || this.shown !== this.metric) {
      this.chart = new Chart(at.window, `${this.metric} by judgements, over ${at.window}`);
      this.shown = this.metric;
      $("judged-chart").replaceChildren(this.chart.node);
    }
    const usual = rows.find((row) => row.metric === this.metric)?.change;
    this.chart.show(own, whole, usual?.before.mean ?? null, openOn(found.settled, this.metric, found.segment, true), found.markers, `${this.metric} by judgements of ${name}`);
    if (this.leads) $("judged-title").focus();
    this.leads = false;
  }

  // The chart is of this metric from the next answer on, and then has the focus: what is hidden until then cannot have it.
  select(metric, leads) {
    this.metric = metric;
    this.leads = leads;
  }

  wire() {
    $("judged").addEventListener("click", (event) => {
      const metric = event.target.closest("button")?.dataset.judged;
      if (!metric || !this.now) return;
      this.metric = metric;
      this.show(...this.now);
    });
  }
}
