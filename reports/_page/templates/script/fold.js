// Closed sections: a link into one opens it, paper shows them all.
{
  const { all, root } = page;
  const open = (element) => {
    for (let fold = element?.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    const own = element?.querySelector(":scope > details.fold");
    if (own) own.open = true;
  };
  const target = () => document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const follow = () => {
    const to = location.hash && target();
    if (!to) return;
    open(to);
    const words = to.closest(".intro[data-of]"); // of a question that may not be the chosen one
    if (words) page.asked(words.dataset.of);
    to.scrollIntoView();
  };
  addEventListener("hashchange", follow);
  // Thousands of units: each address stands in the file once.
  for (const unit of all(".units li")) {
    const link = document.createElement("a");
    link.href = `#${unit.id}`;
    link.append(...unit.childNodes);
    unit.append(link);
  }
  // At once: the address changes later, and not at all for the same link again.
  for (const link of all("a[href^='#']")) {
    link.addEventListener("click", () => { if (link.hash) open(document.getElementById(decodeURIComponent(link.hash.slice(1)))); });
  }
  follow();

  let opened = [];
  addEventListener("beforeprint", () => {
    opened = all("details:not([open])").filter((fold) => !fold.matches(".rec, .proof, .all"));
    for (const fold of opened) fold.open = true;
    page.draw.all();
  });
  addEventListener("afterprint", () => {
    for (const fold of opened) fold.open = false;
    opened = [];
  });
  root.classList.add("folds");
}
