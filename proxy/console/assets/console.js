"use strict";
// What is in <main> is sent anew when it has changed, and put in place of what is there piece by piece:
// what has the focus keeps it, and what is scrolled stays so.
(() => {
  const main = document.querySelector("main[data-live]");
  const button = document.getElementById("live");
  if (!main || !button) return;

  const patch = (from, to) => {
    const kept = new Map();
    for (const c of from.children) if (c.id) kept.set(c.id, c);
    let at = from.firstChild;
    for (const want of [...to.childNodes]) {
      const same = want.id && kept.get(want.id);
      if (same && same !== at) from.insertBefore(same, at), at = same;
      if (!at) { from.append(want); continue; }
      const next = at.nextSibling;
      if (at.nodeType !== want.nodeType || at.nodeName !== want.nodeName) at.replaceWith(want);
      else if (at.nodeType !== Node.ELEMENT_NODE) { if (at.data !== want.data) at.data = want.data; }
      else if (!want.hasAttribute("data-keep")) {
        for (const a of [...at.attributes]) if (!want.hasAttribute(a.name) && a.name !== "open") at.removeAttribute(a.name);
        for (const a of want.attributes) if (at.getAttribute(a.name) !== a.value) at.setAttribute(a.name, a.value);
        patch(at, want);
      }
      at = next;
    }
    while (at) { const next = at.nextSibling; at.remove(); at = next; }
  };

  let events = null, paused = false;
  // Why what is there isn't what there is now; it goes with the next that comes.
  const alert = document.createElement("p");
  alert.className = "alert";
  alert.setAttribute("role", "alert");
  const say = (text, state) => { button.textContent = text; button.dataset.state = state; button.setAttribute("aria-pressed", paused); };
  const live = () => alert.isConnected ? say("Waiting", "off") : say("Live", "on");
  const fail = (text) => {
    if (alert.textContent !== text) alert.textContent = text;
    if (!alert.isConnected) main.prepend(alert);
    live();
  };
  const close = () => { if (events) events.close(); events = null; };
  const open = () => {
    close();
    if (paused || document.hidden) return;
    events = new EventSource(location.href);
    events.onopen = live;
    events.onerror = () => events.readyState === EventSource.CLOSED ? fail("This is no longer kept up to date: load the page again.") : say("Waiting", "off");
    events.addEventListener("failure", (e) => fail(e.data));
    events.onmessage = (e) => {
      alert.remove();
      const t = document.createElement("template");
      t.innerHTML = e.data;
      patch(main, t.content);
      main.dataset.updates = 1 + Number(main.dataset.updates || 0);
      live();
    };
  };
  button.title = "Pause, or go on, with showing what changes";
  button.hidden = false;
  button.onclick = () => { paused = !paused; if (paused) { close(); say("Paused", "off"); } else { live(); open(); } };
  document.addEventListener("visibilitychange", open);
  addEventListener("pagehide", close);
  live();
  open();
})();
