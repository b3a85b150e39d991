// The page as a whole: holds what is selected, found and marked, and draws a frame when it changes.

/** Frames whose times are kept for `tracezeroView.frames`. */
const FRAMES_KEPT = 600;

class View {
  constructor(model) {
    this.model = model;
    this.state = { selected: NONE, hovered: NONE, selectedPiece: null, hoveredPiece: null, palette: null, found: null, mark: null, pointerX: undefined, changed: () => this.redraw() };
    this.frames = [];
    this.frameAsked = false;
    this.viewport = new Viewport(model.duration_ns, () => this.moved());
    this.lanes = new Lanes(model);
    this.search = new Search(model);
    this.timeline = new Timeline(model, this.lanes, this.viewport, this.state);
    this.overview = new Overview(model, this.viewport, this.state);
    this.followTheme();
    this.panel = new Panel(this);
    this.input = new Input(this);
    this.showHead();
    new ResizeObserver(() => this.resize()).observe(this.timeline.scroller);
    this.resize();
  }

  followTheme() {
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const take = () => {
      this.palette = this.state.palette = new Palette(dark.matches);
      this.timeline.showNames();
      this.panel?.show();
      this.redraw();
    };
    dark.addEventListener("change", take);
    take();
  }

  showHead() {
    const { head, count, counters } = this.model;
    document.getElementById("title").textContent = head.title;
    document.getElementById("title").title = head.title;
    const values = counters.reduce((sum, counter) => sum + counter.time.length, 0);
    const facts = [formatDuration(head.duration_ns), plural(count, "event"), values > 0 && plural(values, "counter value"), formatBytes(head.file_bytes)];
    document.getElementById("facts").textContent = facts.filter(Boolean).join("  ·  ");
    document.getElementById("corner").textContent = plural(this.lanes.filled.size, "track");
    const isEmpty = count === 0 && values === 0 && !this.model.kernel;
    if (this.model.kernel) showLegend(this.model.kernel);
    this.showNotice(isEmpty ? "There are no track events in what is shown." : head.left_out);
  }

  /** What is to be known before the trace is looked at. */
  showNotice(text) {
    const notice = document.getElementById("notice");
    const parts = [text];
    if (this.model.head.damage.length > 0) {
      const where = element("button", { id: "where-damaged", type: "button", class: "linkish" }, "where");
      where.addEventListener("click", () => this.panel.choose("losses"));
      parts.unshift("The file is damaged: what could be read of it is shown (", where, "). ");
    }
    notice.replaceChildren(...parts);
    notice.hidden = notice.textContent === "";
  }

  resize() {
    this.timeline.resize();
    this.overview.resize();
    this.hitPixels();
    this.redraw();
  }

  /** What the pointer was over has moved away. */
  moved() {
    this.state.hovered = NONE;
    this.state.hoveredPiece = null;
    document.getElementById("tooltip").hidden = true;
    this.redraw();
  }

  redraw() {
    if (this.frameAsked) return;
    this.frameAsked = true;
    requestAnimationFrame((now) => this.frame(now));
  }

  frame(now) {
    this.frameAsked = false;
    const begun = performance.now();
    const moving = this.viewport.advance(now);
    this.timeline.draw(this.palette);
    this.overview.draw(this.palette);
    this.frames.push({ at_ms: begun, draw_ms: performance.now() - begun });
    if (this.frames.length > FRAMES_KEPT) this.frames.shift();
    if (moving) this.redraw();
  }

  select(event, piece = null) {
    this.state.selected = event;
    this.state.selectedPiece = piece;
    if ((event !== NONE || piece) && this.panel.open !== "details") this.panel.choose("details");
    else this.panel.show();
    this.redraw();
  }

  /** Selects an event and brings it into view, with room around it. */
  goTo(event) {
    this.timeline.scrollTo(event);
    this.bringIntoView(this.model.start[event], this.model.duration[event]);
    this.select(event);
  }

  /** Selects a piece of the kernel's half and brings it into view. */
  goToPiece(lane, index) {
    this.timeline.kernelLayer.scrollTo(lane);
    this.bringIntoView(lane.pieces.start[index], lane.pieces.duration[index]);
    this.select(NONE, { lane, index });
  }

  bringIntoView(start, duration) {
    const { viewport } = this;
    const { start: left, span } = viewport.goal();
    const px = (duration / span) * viewport.width;
    const inside = start >= left && start + duration <= left + span;
    if (!inside || px < 30) {
      const around = Math.max(duration * 6, px > 30 ? span : 0, viewport.trace * 1e-6, 100);
      viewport.show(start + duration / 2 - around / 2, start + duration / 2 + around / 2, true);
    }
  }

  fitSelected() {
    const { selected, selectedPiece: piece } = this.state;
    if (selected === NONE && !piece) return;
    const of = piece ? piece.lane.pieces : this.model;
    const index = piece ? piece.index : selected;
    const duration = Math.max(of.duration[index], 10);
    const start = of.start[index];
    if (piece) this.timeline.kernelLayer.scrollTo(piece.lane);
    else this.timeline.scrollTo(selected);
    this.viewport.show(start - duration * 0.08, start + duration * 1.08, true);
  }

  stepInRow(direction) {
    const { selected, selectedPiece: piece } = this.state;
    if (piece) {
      const beside = piece.index + direction;
      if (beside >= piece.lane.first && beside < piece.lane.last) this.goToPiece(piece.lane, beside);
    }
    if (selected === NONE) return;
    const next = selected + direction;
    if (next >= 0 && next < this.model.count && this.model.rowOf(next) === this.model.rowOf(selected)) this.goTo(next);
  }

  selectParent() {
    const { selected } = this.state;
    if (selected !== NONE && this.model.parent[selected] !== NONE) this.goTo(this.model.parent[selected]);
  }

  hover(pointer) {
    const at = this.timeline.at(pointer.offsetX, pointer.offsetY);
    this.state.pointerX = pointer.offsetX;
    this.state.hovered = at?.event ?? NONE;
    this.state.hoveredPiece = at?.piece ?? null;
    const lines = at ? this.tooltipOf(at) : [];
    const tooltip = document.getElementById("tooltip");
    tooltip.hidden = lines.length === 0;
    tooltip.replaceChildren(...lines);
    if (lines.length > 0) {
      const { offsetWidth, offsetHeight } = tooltip;
      tooltip.style.left = `${Math.min(pointer.clientX + 14, window.innerWidth - offsetWidth - 8)}px`;
      tooltip.style.top = `${pointer.clientY + 18 + offsetHeight > window.innerHeight ? pointer.clientY - offsetHeight - 10 : pointer.clientY + 18}px`;
    }
    this.redraw();
  }

  tooltipOf({ event, piece, series, value, loss, lane }) {
    const { model } = this;
    if (piece) return pieceTooltip(model, piece);
    if (event !== NONE) {
      const instant = model.kind[event] & INSTANT;
      const facts = [instant ? "instant" : formatDuration(model.duration[event]), model.category(event)].filter(Boolean).join(", ");
      return [element("b", {}, model.name(event) || "(no name)"), element("span", {}, facts)];
    }
    if (loss) return [element("b", {}, "Lost here"), element("span", {}, loss.text)];
    if (series && value >= 0) {
      const track = model.tracks[lane.track];
      return [element("b", {}, formatValue(series.value[value], track.unit)), element("span", {}, track.name)];
    }
    return [];
  }

  leave() {
    this.state.hovered = NONE;
    this.state.hoveredPiece = null;
    this.state.pointerX = undefined;
    document.getElementById("tooltip").hidden = true;
    this.redraw();
  }

  setMark(mark) {
    this.state.mark = mark;
    if (mark && this.panel.open === "details") this.panel.choose("spans");
    else this.panel.show();
    this.redraw();
  }

  runSearch(text, isRegex) {
    this.search.run(text, isRegex);
    this.showHits();
  }

  endSearch() {
    document.getElementById("search").value = "";
    this.runSearch("", false);
  }

  /** From a line of a table of names: finds them all and goes to the one that the line names. */
  searchName(line) {
    document.getElementById("search").value = line.name;
    this.search.runName(line.name);
    const { open } = this.panel;
    this.search.current = line.goal;
    this.goTo(line.goal);
    this.panel.choose(open);
    this.showHits();
  }

  stepHit(forward) {
    const { start, span } = this.viewport.goal();
    const hit = this.search.step(forward, forward ? start : start + span);
    if (hit !== NONE) this.goTo(hit);
    this.showHits();
  }

  showHits() {
    const { search } = this;
    this.state.found = search.found;
    this.hitPixels();
    const text = search.text === "" ? "" : search.error ? "not a regular expression" : search.current === NONE ? plural(search.count, "hit") : `${formatCount(search.position)} of ${formatCount(search.count)}`;
    const hits = document.getElementById("hits");
    hits.textContent = text;
    hits.title = search.error;
    hits.parentElement.classList.toggle("wrong", search.error !== "" || (search.text !== "" && search.count === 0));
    this.redraw();
  }

  /** The hits on the minimap, computed once per search and width. */
  hitPixels() {
    const pixels = this.search.pixels(Math.max(1, this.overview.minimap.clientWidth));
    this.state.hitPixels = () => pixels;
  }

  showTrack(track) {
    const lane = this.lanes.reveal(track);
    this.timeline.layOut();
    if (lane) this.timeline.scroller.scrollTop = Math.max(0, lane.top - 40);
  }

  showLoss(loss) {
    if (loss.tracks?.length > 0) this.showTrack(loss.tracks[0]);
    const room = Math.max((loss.end_ns - loss.start_ns) * 2, this.viewport.trace * 1e-3);
    this.viewport.show(loss.start_ns - room, loss.end_ns + room, true);
  }
}
