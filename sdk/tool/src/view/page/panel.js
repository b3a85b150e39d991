// The panel below the tracks: tabs, and what they show.

class Panel {
  constructor(view) {
    this.view = view;
    this.tabs = document.getElementById("tabs");
    this.body = document.getElementById("panel");
    this.open = "spans";
    const { model, lanes } = view;
    const { losses, damage, notes } = model.head;
    const spans = sumsByName(model, null).length;
    const instants = instantsByName(model, null).length;
    this.kinds = [
      { id: "details", title: "Details", make: detailsOf },
      { id: "spans", title: "Spans by name", make: spansTable, count: spans },
      { id: "open", title: "Open at the end", make: openSpansTable, count: model.unfinished.length },
      { id: "instants", title: "Instants", make: instantsTable, count: instants },
      { id: "counters", title: "Counters", make: countersTable, count: model.counters.length },
      { id: "tracks", title: "Tracks", make: tracksTable, count: lanes.filled.size },
      { id: "losses", title: "Losses and damage", make: lossesTable, count: losses.length + damage.length + notes.length, alarm: true },
    ];
    this.resizeBy(document.getElementById("divider"));
    this.show();
  }

  choose(id) {
    this.open = id;
    this.show();
    this.body.scrollTop = 0;
  }

  show() {
    const shown = this.kinds.map((kind) => this.tabOf(kind));
    const { mark } = this.view.state;
    if (mark) {
      const scope = element("button", { class: "scope", type: "button", title: "Back to the whole trace (Escape)" }, `Marked: ${formatDuration(mark.end - mark.start)} ✕`);
      scope.addEventListener("click", () => this.view.setMark(null));
      shown.push(scope);
    }
    this.tabs.replaceChildren(...shown);
    this.body.replaceChildren(this.kinds.find((kind) => kind.id === this.open).make(this.view));
  }

  tabOf({ id, title, count, alarm }) {
    const tab = element("button", { class: "tab", role: "tab", type: "button", id: `tab-${id}`, "aria-controls": "panel", "aria-selected": String(id === this.open) }, title);
    if (count) tab.append(element("span", { class: "tab-count" }, formatCount(count)));
    if (alarm && count) tab.classList.add("alarm");
    tab.addEventListener("click", () => this.choose(id));
    return tab;
  }

  resizeBy(divider) {
    let dragged = false;
    divider.addEventListener("pointerdown", (event) => {
      dragged = true;
      divider.setPointerCapture(event.pointerId);
    });
    divider.addEventListener("pointermove", (event) => {
      if (!dragged) return;
      const height = Math.min(window.innerHeight * 0.7, Math.max(36, window.innerHeight - event.clientY));
      document.documentElement.style.setProperty("--panel-height", `${height}px`);
      this.view.resize();
    });
    for (const end of ["pointerup", "pointercancel"]) divider.addEventListener(end, () => (dragged = false));
  }
}
