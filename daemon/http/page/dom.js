// Makes elements. Names out of events may contain markup: they are only ever set as text, never parsed.

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

// Escapes control and invisible characters: the name of a segment, or a query, may contain any.
const INVISIBLE = /[\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\u{e0000}-\u{e0fff}]/gu;
export const visible = (text) => text.replace(INVISIBLE, (one) => `\\u${one.codePointAt(0).toString(16).padStart(4, "0")}`);

export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// Sets the children in order, and keeps those whose key is still there: focus and hover survive the update.
export function keyed(parent, items, keyOf, make, update) {
  const old = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  items.forEach((item, index) => {
    const key = keyOf(item);
    const child = old.get(key) ?? make(item);
    old.delete(key);
    child.dataset.key = key;
    update(child, item);
    if (parent.children[index] !== child) {
      const focused = child.contains(document.activeElement) ? document.activeElement : null;
      parent.insertBefore(child, parent.children[index] ?? null);
      focused?.focus();
    }
  });
  for (const child of old.values()) child.remove();
}
