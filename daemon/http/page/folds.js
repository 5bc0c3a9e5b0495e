// What is folded below the first screen. What is open stands in the address, so that a link opens it too.

import { select } from "./address.js";
import { $ } from "./dom.js";

const NAMES = ["todo", "changes", "every", "searches", "judgements", "compared", "quality", "basis"];
const fold = (name) => $(`fold-${name}`);

const opened = () => NAMES.filter((name) => fold(name).open);

// Opens what the address says, and hides what has nothing to show.
export function showFolds(open, hidden = []) {
  for (const name of NAMES) {
    fold(name).hidden = hidden.includes(name);
    if (fold(name).dataset.said === String(open.includes(name))) continue;
    fold(name).open = open.includes(name);
    fold(name).dataset.said = String(open.includes(name));
  }
}

// Opens a fold and goes there.
export function unfold(name) {
  fold(name).open = true;
  fold(name).querySelector("summary").focus();
}

export function wireFolds() {
  for (const name of NAMES) {
    fold(name).addEventListener("toggle", () => {
      fold(name).dataset.said = String(fold(name).open);
      const open = opened().join();
      select({ open: open || null }, { replace: true });
    });
  }
}
