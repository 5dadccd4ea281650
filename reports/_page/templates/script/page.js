// What the other parts share. Each file is a block of its own; only `page` is seen by all.
const page = (() => {
  const root = document.documentElement;
  const one = (selector, from = document) => from.querySelector(selector);
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const data = JSON.parse(one("#charts").textContent);
  const svg = (name, attributes, into) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (into) into.append(made);
    return made;
  };

  // One per drawing: its data, and the elements of every setting, found once.
  const charts = all("svg.chart").map((element) => {
    const question = data.charts[element.dataset.question];
    const parts = new Map();
    for (const id of Object.keys(question.settings)) {
      const find = (kind) => one(`${kind}[data-id="${id}"]`, element);
      const [point, go, label] = [find(".pt"), find(".go"), find(".lb")];
      const title = one("title", point);
      parts.set(id, { id, point, go, label, told: title.textContent, across: one(".across", go), up: one(".up", go),
        arrow: one(".arrow", go), ghost: one(".ghost", go) });
      title.remove(); // the page's own tooltip says more; the link's label keeps the sentence
      point.tabIndex = -1;
    }
    return { element, ident: element.dataset.question, size: element.dataset.size, question, frame: question[element.dataset.size],
      parts, at: new Map(), ticks: one(".ticks", element), lines: one(".refs", element) };
  });

  const state = { attacker: "any_attack", question: charts.length ? charts[0].ident : null, heard: new Map(), hidden: new Set(), sought: [], zoom: new Map() };
  const text = (index) => data.texts[index];
  // The attacker's row of a setting: its own, or the worst case, which is then drawn faint.
  const row = (question, id, attacker = state.attacker) => question.settings[id].at[attacker] || question.settings[id].at.any_attack;
  // The chosen attacker where the question has it, else the worst case.
  const attackerOf = (question) => (question.by[state.attacker] ? state.attacker : "any_attack");
  // Whether a setting is shown: its family is, and its name has every word that is sought.
  const shown = (family, name) => !state.hidden.has(family) && (!name || state.sought.every((word) => name.toLowerCase().includes(word)));
  root.classList.add("js");
  return { root, one, all, svg, data, charts, state, text, row, attackerOf, shown };
})();
