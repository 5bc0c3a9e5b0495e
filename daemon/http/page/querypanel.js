// The part of the page that is about queries: what is requested for it, and how it reacts.

import { $ } from "./dom.js";
import { QueryRequests, wanted } from "./queries.js";
import { showOff, showTables } from "./querytables.js";
import { showQuery } from "./query.js";

const SECTIONS = ["queries", "empty", "query"];

export class QueryPanel {
  constructor() {
    this.requests = new QueryRequests(() => this.draw());
    this.showsAll = false;
    this.opener = null; // the button that opened the query
  }

  // What the page shows now; `found` is null where there are no scores.
  show(health, at, found) {
    if (!found) {
      this.now = null;
      for (const name of SECTIONS) $(name).hidden = true;
      return;
    }
    $("queries").hidden = false;
    if (!health.queries) return showOff();
    const want = wanted(health, at, found);
    this.now = { want, asOf: health.as_of, settled: found.settled.settled_until ?? health.as_of };
    this.requests.want(want);
    this.draw();
  }

  draw() {
    if (!this.now) return;
    const { want, asOf, settled } = this.now;
    showTables(this.requests.lists, want, asOf, this.showsAll);
    const rows = this.requests.lists.found?.main.rows ?? [];
    const row = rows.find((one) => one.query === (this.requests.detail.found?.query ?? want.query));
    showQuery(this.requests.detail, want, asOf, settled, row?.usual_mean ?? null);
  }

  // `choose` selects, as a part of the address.
  wire(choose) {
    const open = (query, opener) => {
      this.opener = opener;
      choose({ query });
      $("query").hidden = false;
      $("query-title").focus();
    };
    const close = () => {
      choose({ query: null });
      $("query").hidden = true;
      (this.opener?.isConnected ? this.opener : $("queries-title")).focus();
    };
    for (const name of ["queries", "empty"]) {
      $(name).addEventListener("click", (event) => {
        const button = event.target.closest("button.query");
        if (button) open(button.dataset.query, button);
      });
    }
    $("find").addEventListener("submit", (event) => {
      event.preventDefault();
      const text = $("find-text").value.trim();
      if (text) open(text, $("find-text"));
    });
    // Selecting a window ends what an alert's link has selected.
    $("find").addEventListener("change", (event) => event.target.name === "queries" && choose({ queries: event.target.value, since: null }));
    $("query-close").addEventListener("click", close);
    $("query").addEventListener("keydown", (event) => event.key === "Escape" && close());
    $("queries-more").addEventListener("click", () => {
      this.showsAll = !this.showsAll;
      this.draw();
    });
  }
}
