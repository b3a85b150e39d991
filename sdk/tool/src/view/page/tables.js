// Tables of the panel: they sort by a click on a head, and show a part if there are many lines.

const LINES_AT_FIRST = 200;
const LINES_MORE = 5000;

/**
 * A table of `lines`. A column is { title, of(line) for order, show(line) for text or node, number }.
 * `chosen(line)` is called by a click.
 */
class Table {
  constructor(columns, lines, { sortedBy, empty, chosen, hint }) {
    Object.assign(this, { columns, lines, empty, chosen, hint });
    this.sortedBy = sortedBy;
    this.descending = columns[sortedBy].number === true;
    this.limit = LINES_AT_FIRST;
    this.node = element("div");
    this.show();
  }

  show() {
    if (this.lines.length === 0) {
      this.node.replaceChildren(element("p", { class: "empty" }, this.empty));
      return;
    }
    const { of } = this.columns[this.sortedBy];
    const sign = this.descending ? -1 : 1;
    const order = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
    const sorted = [...this.lines].sort((a, b) => sign * order(of(a), of(b)));
    const body = element("tbody", {}, sorted.slice(0, this.limit).map((line) => this.lineOf(line)));
    const table = element("table", {}, element("thead", {}, element("tr", {}, this.columns.map((column, i) => this.headOf(column, i)))), body);
    this.node.replaceChildren(table);
    if (sorted.length > this.limit) {
      const left = sorted.length - this.limit;
      const text = left > LINES_MORE ? `Show ${formatCount(LINES_MORE)} more of ${formatCount(left)}` : `Show all ${formatCount(sorted.length)}`;
      const more = element("button", { class: "bar-button more", type: "button" }, text);
      more.addEventListener("click", () => {
        this.limit += LINES_MORE;
        this.show();
      });
      this.node.append(more);
    }
  }

  headOf(column, index) {
    const head = element("th", { scope: "col", class: column.number ? "number" : "" });
    const sorted = index === this.sortedBy;
    if (sorted) head.setAttribute("aria-sort", this.descending ? "descending" : "ascending");
    const button = element("button", { type: "button" }, column.title, sorted ? (this.descending ? " ↓" : " ↑") : "");
    button.addEventListener("click", () => {
      this.descending = sorted ? !this.descending : column.number === true;
      this.sortedBy = index;
      this.show();
    });
    head.append(button);
    return head;
  }

  lineOf(line) {
    const cells = this.columns.map((column) => {
      const content = column.show(line);
      const cell = element("td", { class: column.number ? "number" : column.wide ? "wide" : "" });
      cell.append(...[content].flat());
      return cell;
    });
    const row = element("tr", {}, cells);
    if (this.chosen) {
      row.className = "link";
      row.title = this.hint;
      row.tabIndex = 0;
      row.addEventListener("click", () => this.chosen(line));
      row.addEventListener("keydown", (event) => {
        if (event.key === "Enter") this.chosen(line);
      });
    }
    return row;
  }
}

/** The columns that tables of events begin with. */
function namingColumns({ palette }) {
  const swatch = (line) => {
    const mark = element("i", { class: "swatch" });
    mark.style.background = palette.css(Palette.hueOf(line.name));
    return mark;
  };
  return [
    { title: "Name", of: (line) => line.name, show: (line) => [swatch(line), line.name || "(no name)"], wide: true },
    { title: "Category", of: (line) => line.category, show: (line) => line.category },
  ];
}

function spansTable(view) {
  const { model, state } = view;
  const sums = sumsByName(model, state.mark);
  // Futures wait on tracks of their own: their time is none of the threads'.
  const whole = { thread: 0, track: 0 };
  for (const line of sums) whole[line.on] += Math.max(0, line.self);
  const share = (line) => {
    const bar = element("i");
    bar.style.width = `${(100 * Math.max(0, line.self)) / (whole[line.on] || 1)}%`;
    return element("span", { class: "share" }, bar);
  };
  const columns = [
    ...namingColumns(view),
    { title: "On", of: (line) => line.on, show: (line) => line.on },
    { title: "Count", of: (line) => line.count, show: (line) => formatCount(line.count), number: true },
    { title: "Total", of: (line) => line.total, show: (line) => formatDuration(line.total), number: true },
    { title: "Self", of: (line) => line.self, show: (line) => [formatDuration(line.self), share(line)], number: true },
    { title: "Mean", of: (line) => line.mean, show: (line) => formatDuration(line.mean), number: true },
    { title: "Longest", of: (line) => line.max, show: (line) => formatDuration(line.max), number: true },
  ];
  const options = { sortedBy: 5, empty: "No spans have ended.", chosen: (line) => view.searchName(line), hint: "Find these; goes to the longest" };
  return new Table(columns, sums, options).node;
}

function openSpansTable(view) {
  const { model, state } = view;
  const columns = [
    ...namingColumns(view),
    { title: "On", of: (line) => line.on, show: (line) => line.on },
    { title: "Track", of: (line) => line.track.name, show: (line) => trackTitle(line.track) },
    { title: "Since", of: (line) => model.start[line.event], show: (line) => formatMoment(model.start[line.event]), number: true },
    { title: "Age", of: (line) => model.duration[line.event], show: (line) => formatDuration(model.duration[line.event]), number: true },
  ];
  const options = { sortedBy: 2, empty: "All spans have ended.", chosen: (line) => view.goTo(line.event), hint: "Go to this span" };
  return new Table(columns, openSpans(model, state.mark), options).node;
}

function instantsTable(view) {
  const columns = [...namingColumns(view), { title: "Count", of: (line) => line.count, show: (line) => formatCount(line.count), number: true }];
  const options = { sortedBy: 2, empty: "No instants.", chosen: (line) => view.searchName(line), hint: "Find these; goes to the first" };
  return new Table(columns, instantsByName(view.model, view.state.mark), options).node;
}

function countersTable(view) {
  const lines = [...view.timeline.counters.values()].map((series) => ({
    series,
    track: view.model.tracks[series.track],
    ...sumsOfCounter(series, view.state.mark),
  }));
  const value = (title, of) => ({
    title,
    of,
    show: (line) => (Number.isNaN(of(line)) ? "" : formatValue(of(line), line.track.unit)),
    number: true,
  });
  const columns = [
    { title: "Name", of: (line) => line.track.name, show: (line) => line.track.name, wide: true },
    { title: "Values", of: (line) => line.count, show: (line) => formatCount(line.count), number: true },
    value("Least", (line) => line.min),
    value("Mean", (line) => line.mean),
    value("Greatest", (line) => line.max),
    value("Last", (line) => line.last),
  ];
  const chosen = (line) => view.showTrack(line.series.track);
  return new Table(columns, lines, { sortedBy: 0, empty: "No counters.", chosen, hint: "Go to this track" }).node;
}

function tracksTable(view) {
  const { model, lanes } = view;
  const lines = model.tracks.map((track, id) => {
    const rows = lanes.rowsByTrack.get(id) ?? [];
    const events = rows.reduce((sum, row) => sum + model.rowLength[row], 0);
    return { track, id, events: events + (lanes.counterByTrack.get(id)?.time.length ?? 0), depth: rows.length };
  });
  const columns = [
    { title: "Name", of: (line) => line.track.name, show: (line) => line.track.name, wide: true },
    { title: "Kind", of: (line) => line.track.kind, show: (line) => line.track.kind },
    { title: "Within", of: (line) => model.tracks[line.track.parent]?.name ?? "", show: (line) => model.tracks[line.track.parent]?.name ?? "" },
    { title: "Pid", of: (line) => line.track.pid ?? 0, show: (line) => String(line.track.pid ?? ""), number: true },
    { title: "Tid", of: (line) => line.track.tid ?? 0, show: (line) => String(line.track.tid ?? ""), number: true },
    { title: "Events", of: (line) => line.events, show: (line) => formatCount(line.events), number: true },
    { title: "Depth", of: (line) => line.depth, show: (line) => formatCount(line.depth), number: true },
  ];
  const chosen = (line) => view.showTrack(line.id);
  return new Table(columns, lines, { sortedBy: 5, empty: "No tracks.", chosen, hint: "Go to this track" }).node;
}

function lossesTable(view) {
  const { head } = view.model;
  const lines = [
    ...head.losses.map((loss) => ({ ...loss, kind: "loss" })),
    ...head.damage.map((damage) => ({ ...damage, kind: "damage" })),
    ...head.notes.map((text) => ({ text, kind: "note" })),
  ];
  const columns = [
    { title: "Kind", of: (line) => line.kind, show: (line) => line.kind },
    { title: "At", of: (line) => line.start_ns ?? -1, show: (line) => (line.start_ns === undefined ? "" : formatMoment(line.start_ns)), number: true },
    { title: "Length", of: (line) => (line.end_ns ?? 0) - (line.start_ns ?? 0), show: (line) => (line.end_ns === undefined ? "" : formatDuration(line.end_ns - line.start_ns)), number: true },
    { title: "What", of: (line) => line.text, show: (line) => line.text, wide: true },
  ];
  const chosen = (line) => {
    if (line.start_ns !== undefined) view.showLoss(line);
  };
  const table = new Table(columns, lines, { sortedBy: 1, empty: "Nothing was lost, and nothing is damaged.", chosen, hint: "Go there" });
  table.descending = false;
  table.show();
  return table.node;
}
