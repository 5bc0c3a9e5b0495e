// Light or dark, as the user chose on this browser; else as the system has it.

const THEMES = ["auto", "light", "dark"];

export const theme = () => document.documentElement.dataset.theme;

export function nextTheme() {
  const next = THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length];
  localStorage.setItem("theme", next);
  document.documentElement.dataset.theme = next;
}

const chosen = localStorage.getItem("theme");
document.documentElement.dataset.theme = THEMES.includes(chosen) ? chosen : "auto";
