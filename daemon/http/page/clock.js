// The clock of this browser beside the server's, as the dates of its answers tell it.

import { seconds } from "./words.js";

const OFF_MS = 120000;
let ahead = 0;

export function noteDate(date) {
  const sent = Date.parse(date);
  if (!Number.isNaN(sent)) ahead = Date.now() - sent;
}

// That it is wrong; "" where it is not, or by little.
export function clockText() {
  if (Math.abs(ahead) < OFF_MS) return "";
  return `This browser's clock is ${seconds(Math.abs(ahead) / 1000)} ${ahead < 0 ? "behind" : "ahead of"} the server's. The times on this page are the server's.`;
}
