// Draws the kernel's half on the canvas of the tracks: cores, states of threads, and who woke whom.

class KernelLayer {
  constructor(timeline) {
    this.timeline = timeline;
    this.kernel = timeline.model.kernel;
    this.coreStrips = new CoreStrips(this.kernel);
    this.statePixels = new StatePixels(this.kernel.strips);
  }

  draw(visible, palette) {
    const { viewport, canvas } = this.timeline;
    const width = canvas.width;
    const nsPerPx = viewport.span / width;
    const start = Math.floor(viewport.start / nsPerPx) * nsPerPx;
    const total = visible.find((lane) => lane.track === this.kernel.track);
    if (total) this.drawTotal(total, palette);
    this.drawCores(visible.filter((lane) => lane.core), width, start, nsPerPx, palette);
    this.drawStates(visible.filter((lane) => lane.strip), width, start, nsPerPx, palette);
  }

  /** How many of the cores are busy, as an area. */
  drawTotal(lane, palette) {
    const { context, viewport, scrollTop } = this.timeline;
    const width = Math.ceil(viewport.width);
    const loads = new Float64Array(width);
    for (const core of this.kernel.cores.lanes) this.kernel.cores.addLoads(loads, core, viewport.start, viewport.nsPerPx);
    const bottom = lane.top - scrollTop + lane.height - 1;
    const scale = (lane.height - 5) / Math.max(1, this.kernel.cores.lanes.length);
    context.fillStyle = palette.muted;
    context.globalAlpha = 0.4;
    context.beginPath();
    context.moveTo(0, bottom);
    loads.forEach((load, x) => {
      context.lineTo(x, bottom - load * scale);
      context.lineTo(x + 1, bottom - load * scale);
    });
    context.lineTo(width, bottom);
    context.fill();
    context.globalAlpha = 1;
  }

  drawCores(lanes, width, start, nsPerPx, palette) {
    const { context, scale, scrollTop } = this.timeline;
    const { coreStrips } = this;
    coreStrips.begin(width, lanes.length);
    const texts = [];
    lanes.forEach((lane, line) => {
      coreStrips.paint(line, lane.core, start, nsPerPx, palette, TEXT_FROM_PX * scale);
      const { wide } = coreStrips;
      for (let i = 0; i < wide.length; i += 3) texts.push({ piece: wide[i], x: wide[i + 1] / scale, width: wide[i + 2] / scale, lane });
    });
    coreStrips.end();
    context.imageSmoothingEnabled = false;
    lanes.forEach((lane, line) => {
      const top = Math.round((lane.top - scrollTop + 2) * scale) / scale;
      context.drawImage(coreStrips.canvas, 0, line, width, 1, 0, top, width / scale, lane.height - 5);
    });
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    for (const { piece, x, width: room, lane } of texts) {
      const thread = this.kernel.threadOf(piece);
      // Hatching says that nothing is known.
      if (!thread) continue;
      context.fillStyle = thread.pale ? palette.muted : palette.label;
      context.fillText(this.timeline.shortened(threadText(thread), room - 9), x + 4, lane.top - scrollTop + lane.height / 2);
    }
  }

  drawStates(lanes, width, start, nsPerPx, palette) {
    const { context, scale, scrollTop } = this.timeline;
    const { statePixels } = this;
    statePixels.begin(width, lanes.length * STATE_LINES);
    lanes.forEach((lane, i) => statePixels.paint(i * STATE_LINES, lane.strip, start, nsPerPx, palette));
    statePixels.end();
    context.imageSmoothingEnabled = false;
    lanes.forEach((lane, i) => {
      const top = Math.round((lane.top - scrollTop + LANE_PADDING) * scale) / scale;
      context.drawImage(statePixels.canvas, 0, i * STATE_LINES, width, STATE_LINES, 0, top, width / scale, STATES_HEIGHT);
    });
  }

  /** Outlines of pieces, and the arrow from who woke the selected thread. */
  drawMarks(palette) {
    const { state } = this.timeline;
    if (state.hoveredPiece) this.outline(state.hoveredPiece, palette.text, 1);
    if (!state.selectedPiece) return;
    this.drawWake(state.selectedPiece, palette);
    this.outline(state.selectedPiece, palette.dark ? "#ffffff" : "#000000", 2);
  }

  drawWake({ lane, index }, palette) {
    const { strips } = this.kernel;
    if (lane.pieces !== strips) return;
    const waker = this.kernel.wakerOf(index);
    const from = waker?.strip && this.boxOf(waker.strip);
    const to = this.boxOf(lane);
    if (!from || !to || waker.strip === lane) return;
    const { context, viewport } = this.timeline;
    const x = viewport.xOf(strips.end(index));
    const down = from.top < to.top;
    const [y0, y1] = down ? [from.top + from.height, to.top] : [from.top, to.top + to.height];
    const back = down ? -7 : 7;
    context.strokeStyle = context.fillStyle = palette.accent;
    context.lineWidth = 1.5;
    context.beginPath();
    context.arc(x, y0, 2.5, 0, 2 * Math.PI);
    context.fill();
    context.beginPath();
    context.moveTo(x, y0);
    context.lineTo(x, y1 + back);
    context.stroke();
    context.beginPath();
    context.moveTo(x, y1);
    context.lineTo(x - 4, y1 + back);
    context.lineTo(x + 4, y1 + back);
    context.fill();
  }

  outline({ lane, index }, color, width) {
    const box = this.boxOf(lane);
    if (!box) return;
    const { context, viewport } = this.timeline;
    const left = Math.max(-4, viewport.xOf(lane.pieces.start[index]));
    const right = Math.min(viewport.width + 4, Math.max(viewport.xOf(lane.pieces.end(index)), left + 3));
    context.strokeStyle = color;
    context.lineWidth = width;
    context.strokeRect(left, box.top - width / 2, right - left, box.height + width);
  }

  /** The track of a lane of pieces. */
  trackOf(lane) {
    if (lane.pieces === this.kernel.strips) return this.kernel.threads[lane.number].track;
    return this.kernel.track + 1 + lane.index;
  }

  /** Where a lane of pieces is on the canvas; none if its track is folded away. */
  boxOf(lane) {
    const shown = this.timeline.lanes.laneOfTrack.get(this.trackOf(lane));
    if (!shown) return undefined;
    const top = shown.top - this.timeline.scrollTop;
    return shown.core ? { top: top + 2, height: shown.height - 5 } : { top: top + LANE_PADDING, height: STATES_HEIGHT };
  }

  /** The piece at a height of a lane. */
  at(lane, height, time) {
    const isInStates = height >= lane.top && height < lane.rowsTop;
    const of = lane.core ?? (isInStates ? lane.strip : undefined);
    if (!of) return undefined;
    const index = of.pieces.at(of, time, 2 * this.timeline.viewport.nsPerPx);
    return index === NONE ? undefined : { lane: of, index };
  }

  /** Scrolls so that a lane of pieces can be seen. */
  scrollTo(lane) {
    const shown = this.timeline.lanes.reveal(this.trackOf(lane));
    this.timeline.layOut();
    if (shown) this.timeline.scrollToHeight(shown.top);
  }

  /** A mark in the colour that a thread has on the cores. */
  swatchOf(strip) {
    const swatch = element("i", { class: "swatch thread-swatch", title: "Its colour on the CPUs" });
    swatch.style.background = this.timeline.state.palette.threadCss(this.kernel.threads[strip.number]);
    return swatch;
  }

  noteOf(core) {
    const { duration_ns } = this.timeline.model;
    return `${Math.round((100 * this.kernel.cores.busy(core)) / Math.max(1, duration_ns))} % busy`;
  }
}

/** Fills the line that says what the colours of states mean, with those that the trace has. */
function showLegend(kernel) {
  const seen = kernel.activitiesSeen();
  const entries = ACTIVITIES.filter((_, index) => seen.has(index)).map(({ key, label }) =>
    element("span", { class: "legend-entry" }, element("i", { class: `swatch state-${key}` }), label));
  const legend = document.getElementById("legend");
  legend.replaceChildren(element("span", {}, "Above the spans: each thread is"), ...entries);
  legend.hidden = entries.length === 0;
}
