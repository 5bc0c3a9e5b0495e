// Acknowledges the change in the headline: what is said beside it, and until when. It stays as red as it is.

import { $, setText, visible } from "./dom.js";
import { send } from "./requests.js";
import { acknowledgedText } from "./headlinewords.js";
import { clock } from "./words.js";

// What is typed belongs to the change that was there when it was begun, what is withdrawn to the one that is shown.
export function showAcknowledged(change, now, health) {
  const text = change ? acknowledgedText(change, now) : "";
  setText($("acknowledged"), visible(text));
  $("acknowledged").hidden = !text;
  $("acknowledge").hidden = !change || Boolean(health.recording);
  $("withdraw").hidden = !text;
  if (change) $("withdraw").dataset.change = change.id;
  $("acknowledge").dataset.now = health.now;
  if (change && !$("ack-text").value) $("acknowledge").dataset.change = change.id;
}

export function wireAcknowledging(refresh) {
  const form = $("acknowledge");
  const tell = async (method, change, body, done) => {
    try {
      await send(method, `changes/${encodeURIComponent(change)}/acknowledge`, body);
      if (body) $("ack-text").value = "";
      setText($("ack-said"), done);
      refresh();
    } catch (error) {
      setText($("ack-said"), visible(error.message));
    }
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const until = new Date(Date.parse(form.dataset.now) + Number($("ack-hours").value) * 3600000).toISOString();
    tell("POST", form.dataset.change, { text: $("ack-text").value, until }, `Acknowledged until ${clock(until, form.dataset.now)}: the page says so in a moment.`);
  });
  $("withdraw").addEventListener("click", () => tell("DELETE", $("withdraw").dataset.change, undefined, "Withdrawn: the page says so in a moment."));
}
