// Elements from plain values. Text is always text: nothing is ever parsed as markup.

const SVG = "http://www.w3.org/2000/svg";

export const $ = (id) => document.getElementById(id);

function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== ""));
  return made;
}

export const element = (name, attributes = {}, ...children) => fill(document.createElement(name), attributes, children);
export const shape = (name, attributes = {}, ...children) => fill(document.createElementNS(SVG, name), attributes, children);

// Spells out what would break a line or not be seen: a segment may be called anything.
export const visible = (text) =>
  text.replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069]/g, (one) =>
    `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);

export function say(place, text) {
  if (place.textContent !== text) place.textContent = text;
}

// Rows in order, each kept as long as its key is there, so that focus and hover survive.
export function keyed(parent, items, keyOf, make, update) {
  const old = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  items.forEach((item, place) => {
    const key = keyOf(item);
    const child = old.get(key) ?? make(item);
    old.delete(key);
    child.dataset.key = key;
    update(child, item);
    if (parent.children[place] !== child) {
      const focused = child.contains(document.activeElement) ? document.activeElement : null;
      parent.insertBefore(child, parent.children[place] ?? null);
      focused?.focus();
    }
  });
  for (const child of old.values()) child.remove();
}
