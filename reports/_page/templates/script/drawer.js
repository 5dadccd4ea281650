// The drawer: a setting's record, moved here while it is read and put back afterwards.
{
  const { one, all, root } = page;
  const drawer = one("#drawer"), inside = one(".inside", drawer);
  const narrow = matchMedia("(max-width:1100px)");
  let mark = null, from = null;

  const close = (focus = true) => {
    if (mark) {
      mark.replaceWith(inside.firstElementChild);
      mark = null;
    }
    if (drawer.open) drawer.close();
    root.classList.remove("reading");
    page.opened = null;
    page.light(null);
    if (focus && from) from.focus({ preventScroll: true });
    from = null;
  };

  const open = (id, by) => {
    const record = document.getElementById(`r${id}`);
    if (!record) return false;
    const first = from && drawer.contains(by) ? from : by;
    close(false);
    from = first;
    mark = document.createComment("the record is in the drawer");
    record.replaceWith(mark);
    inside.append(record);
    page.opened = id;
    one("#drawer-title").textContent = by.dataset.name ?? one("h3", record)?.firstChild.textContent.trim() ?? "Setting";
    // Beside the page where that is wide enough, else in it, below what was chosen: it covers neither list nor switch.
    if (narrow.matches) (by.closest("figure, .list > section") ?? by).after(drawer);
    else document.body.append(drawer);
    drawer.show();
    root.classList.add("reading");
    drawer.scrollTop = 0;
    one("#drawer-close").focus({ preventScroll: true });
    page.hide();
    if (narrow.matches) drawer.scrollIntoView({ block: "nearest" });
    else by.scrollIntoView({ block: "nearest" });
    return true;
  };

  const plain = (event) => event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;
  for (const link of all(".pt, .list a.row")) {
    link.addEventListener("click", (event) => { if (plain(event) && open(link.dataset.id, link)) event.preventDefault(); });
  }
  one("#drawer-close").addEventListener("click", () => close());
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !drawer.open) return;
    event.preventDefault();
    close();
  });
  // A link into the record that is being read leads back to its place in the page.
  addEventListener("hashchange", () => { const to = document.getElementById(location.hash.slice(1)); if (to && drawer.contains(to)) { close(false); to.scrollIntoView(); } });
  addEventListener("beforeprint", () => close(false));
  root.classList.add("ready");
}
