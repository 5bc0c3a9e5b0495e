// What became of the events: each outcome with what it means, and from where on somebody should look. Pure.

// [meaning, share above which it is not usual]; without a share it is usual, however many there are.
const IMPRESSIONS = {
  accepted: ["counted"],
  duplicate: ["sent twice, counted once"],
  filled: ["a list that came empty at first"],
  extended: ["a later page of its list"],
  conflicting: ["the id of another list, which won: ids must be unique", 0.01],
  late: ["after its window had closed: not counted", 0.01],
  later_page: ["without its first page: not counted", 0.01],
};
const FEEDBACK = {
  joined: ["counted"],
  rank_mismatch: ["counted, but at another rank than it states: are ranks counted from 1?", 0.01],
  out_of_window: ["long after its list: not counted, by definition"],
  beyond_depth: ["below the ranks that are kept: no score counts it"],
  off_list: ["on an item that its list does not have: not counted", 0.02],
  unjoined: ["no open list has its id: it came after the attribution window, or its list never came; scores are lower by up to this share", 0.02],
  joined_last_touch: ["of the joined: names no search, and counts for the latest list that showed its visitor the item"],
  unknown_visitor: ["of the unjoined: its visitor has no list in its partition: are topics keyed by the visitor?", 0.02],
  crowded_visitor: ["of the unjoined: its visitor has more lists than are looked at, as kiosks and bots do", 0.01],
  late: ["after its window had closed: not counted", 0.01],
  ignored_kind: ["of a kind without a grade, as configured"],
};
const REJECTED = ["no event: the dead-letter topic has it with the reason", 0.001];

function rows(name, counts, total, meanings) {
  return Object.entries(counts).filter(([, number]) => number).sort((a, b) => b[1] - a[1]).map(([outcome, number]) => {
    const [meaning, most = Infinity] = meanings[outcome] ?? REJECTED;
    const share = total ? number / total : 0;
    return { name: `${name} ${outcome.replaceAll("_", " ")}`, number, share, meaning, most, unusual: share > most };
  });
}

export function outcomes(events) {
  if (!events) return [];
  const all = events.impressions + events.feedback;
  return [...rows("impressions", events.impression_outcomes, events.impressions, IMPRESSIONS),
    ...rows("feedback", events.feedback_outcomes, events.feedback, FEEDBACK),
    ...rows("rejected", events.rejected, all, {})];
}
