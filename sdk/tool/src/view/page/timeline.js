// The canvas of the tracks, and their names beside it. Draws what is visible, from top to bottom:
// bands of losses, counters, cores, states of threads, events, texts, arrows of flows, outlines.

const TEXT_FROM_PX = 34;
const MARK_EVERY_PX = 8;
/** Arrows of a flow that are drawn on either side of the selected event. */
const FLOW_STEPS_MAX = 100;

class Timeline {
  constructor(model, lanes, viewport, state) {
    Object.assign(this, { model, lanes, viewport, state });
    this.canvas = document.getElementById("timeline");
    this.context = this.canvas.getContext("2d", { alpha: false });
    this.scroller = document.getElementById("scroller");
    this.names = document.getElementById("names");
    this.extent = document.getElementById("extent");
    this.strips = new Strips(model);
    if (model.kernel) this.kernelLayer = new KernelLayer(this);
    this.counters = new Map(model.counters.map((counter) => [counter.track, new CounterSeries(counter, model.tracks[counter.track].name)]));
    this.lossesByTrack = new Map();
    for (const loss of model.head.losses) {
      for (const track of loss.tracks) append(this.lossesByTrack, track, loss);
    }
    this.textWidths = new Map();
    this.height = 0;
  }

  resize() {
    const { clientHeight } = this.scroller;
    const scale = window.devicePixelRatio || 1;
    const width = this.canvas.clientWidth;
    this.scale = scale;
    this.height = clientHeight;
    this.canvas.style.height = this.names.style.height = `${clientHeight}px`;
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(clientHeight * scale);
    this.viewport.resize(width);
    this.layOut();
  }

  layOut() {
    this.extent.style.height = `${Math.max(this.lanes.height + 24, this.height)}px`;
    this.showNames();
  }

  get scrollTop() {
    return this.scroller.scrollTop;
  }

  draw(palette) {
    const { context, viewport, scale } = this;
    const [first, last] = this.lanes.between(this.scrollTop, this.scrollTop + this.height);
    const visible = this.lanes.list.slice(first, last);
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.fillStyle = palette.ground;
    context.fillRect(0, 0, viewport.width, this.height);
    this.drawOutside(palette);
    this.drawLanes(visible, palette);
    this.drawLosses(visible, palette);
    for (const lane of visible) {
      const series = this.counters.get(lane.track);
      if (series) series.draw(context, viewport, lane.top - this.scrollTop + 5, lane.height - 9, palette);
    }
    this.drawEvents(visible, palette);
    this.kernelLayer?.draw(visible, palette);
    this.drawMark(palette);
    this.drawFlows(palette);
    this.kernelLayer?.drawMarks(palette);
    if (this.state.hovered !== NONE) this.outline(this.state.hovered, palette.text, 1);
    if (this.state.selected !== NONE) this.outline(this.state.selected, palette.dark ? "#ffffff" : "#000000", 2);
  }

  drawOutside(palette) {
    const { context, viewport } = this;
    context.fillStyle = palette.raised;
    const left = viewport.xOf(0);
    const right = viewport.xOf(viewport.trace);
    if (left > 0) context.fillRect(0, 0, left, this.height);
    if (right < viewport.width) context.fillRect(right, 0, viewport.width - right, this.height);
  }

  drawLanes(visible, palette) {
    const { context, viewport } = this;
    for (const lane of visible) {
      const top = lane.top - this.scrollTop;
      if (lane.group) {
        context.fillStyle = palette.raised;
        context.fillRect(0, top, viewport.width, lane.height);
      }
      context.fillStyle = lane.group ? palette.line : palette.lineFaint;
      context.fillRect(0, top + lane.height - 1, viewport.width, 1);
    }
  }

  drawLosses(visible, palette) {
    const { context, viewport } = this;
    for (const lane of visible) {
      for (const loss of this.lossesByTrack.get(lane.track) ?? []) {
        if (loss.end_ns < viewport.start || loss.start_ns > viewport.end) continue;
        const left = Math.max(-10, viewport.xOf(loss.start_ns));
        const right = Math.min(viewport.width + 10, viewport.xOf(loss.end_ns));
        const width = Math.max(3, right - left);
        const top = lane.top - this.scrollTop;
        context.save();
        context.beginPath();
        context.rect(left, top, width, lane.height - 1);
        context.clip();
        context.fillStyle = palette.loss;
        context.globalAlpha = 0.16;
        context.fillRect(left, top, width, lane.height);
        context.globalAlpha = 0.55;
        context.strokeStyle = palette.loss;
        context.lineWidth = 1;
        context.beginPath();
        for (let x = left - lane.height; x < left + width; x += 7) {
          context.moveTo(x, top + lane.height);
          context.lineTo(x + lane.height, top);
        }
        context.moveTo(left + 0.5, top);
        context.lineTo(left + 0.5, top + lane.height);
        context.stroke();
        context.restore();
      }
    }
  }

  drawEvents(visible, palette) {
    const { context, viewport, scale, strips } = this;
    const width = this.canvas.width;
    const nsPerPx = viewport.span / width;
    const start = Math.floor(viewport.start / nsPerPx) * nsPerPx;
    const rows = [];
    for (const lane of visible) {
      lane.rows.forEach((row, depth) => {
        const top = lane.rowsTop + depth * ROW_HEIGHT - this.scrollTop;
        if (top > -ROW_HEIGHT && top < this.height) rows.push({ row, top });
      });
    }
    strips.begin(width, rows.length);
    const texts = [];
    const marks = [];
    rows.forEach(({ row, top }, line) => {
      strips.paint(line, row, start, nsPerPx, palette, this.state.found, TEXT_FROM_PX * scale, MARK_EVERY_PX * scale);
      const { wide, marks: points } = strips;
      for (let i = 0; i < wide.length; i += 3) texts.push(wide[i], wide[i + 1] / scale, wide[i + 2] / scale, top);
      for (let i = 0; i < points.length; i += 2) marks.push(points[i], points[i + 1] / scale, top);
    });
    strips.end();
    context.imageSmoothingEnabled = false;
    rows.forEach(({ top }, line) => {
      context.drawImage(strips.canvas, 0, line, width, 1, 0, Math.round(top * scale) / scale, width / scale, ROW_HEIGHT - 1);
    });
    this.drawTexts(texts, palette);
    this.drawInstants(marks, palette);
  }

  drawTexts(texts, palette) {
    const { context, model, state } = this;
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    for (let i = 0; i < texts.length; i += 4) {
      const event = texts[i];
      const room = texts[i + 2] - 9;
      const name = (model.kind[event] & UNFINISHED ? "… " : "") + model.name(event);
      const faint = state.found && state.found.hit[event] === 0;
      context.fillStyle = faint ? palette.labelFaint : palette.label;
      context.fillText(this.shortened(name, room), texts[i + 1] + 4, texts[i + 3] + ROW_HEIGHT / 2);
    }
  }

  /** As much of a text as there is room for. */
  shortened(text, room) {
    let width = this.textWidths.get(text);
    if (width === undefined) {
      width = this.context.measureText(text).width;
      this.textWidths.set(text, width);
    }
    if (width <= room) return text;
    const letters = Math.floor((text.length * (room - 8)) / width);
    return letters < 1 ? "" : `${text.slice(0, letters)}…`;
  }

  drawInstants(marks, palette) {
    const { context, model, strips, state } = this;
    for (let i = 0; i < marks.length; i += 3) {
      const x = marks[i + 1] + 0.5;
      const y = marks[i + 2];
      context.beginPath();
      context.moveTo(x, y + 3);
      context.lineTo(x + 5, y + 9);
      context.lineTo(x, y + 15);
      context.lineTo(x - 5, y + 9);
      context.closePath();
      context.globalAlpha = state.found && state.found.hit[marks[i]] === 0 ? 0.3 : 1;
      context.fillStyle = palette.css(strips.labelHue[model.label[marks[i]]]);
      context.fill();
      context.strokeStyle = palette.label;
      context.lineWidth = 1;
      context.stroke();
    }
    context.globalAlpha = 1;
  }

  /** The marked range, with its length. */
  drawMark(palette) {
    const { mark } = this.state;
    if (!mark) return;
    const { context, viewport } = this;
    const left = viewport.xOf(mark.start);
    const width = viewport.xOf(mark.end) - left;
    context.globalAlpha = 0.13;
    context.fillStyle = palette.accent;
    context.fillRect(left, 0, width, this.height);
    context.globalAlpha = 1;
    context.fillRect(left, 0, 1, this.height);
    context.fillRect(left + width, 0, 1, this.height);
  }

  drawFlows(palette) {
    const { selected } = this.state;
    if (selected === NONE) return;
    const { context, viewport } = this;
    const { flows } = this.model;
    context.lineWidth = 1.5;
    context.strokeStyle = context.fillStyle = palette.accent;
    for (const step of flows.of(selected).flatMap((flow) => flows.stepsNear(flow, FLOW_STEPS_MAX))) {
      const from = this.placeOf(step.from);
      const to = this.placeOf(step.to);
      if (from && to) this.drawArrow(viewport.xOf(step.leave_ns), from.middle, viewport.xOf(step.arrive_ns), to.middle);
    }
  }

  drawArrow(x0, y0, x1, y1) {
    const { context } = this;
    const bend = Math.max(24, Math.min(90, Math.abs(x1 - x0) / 2));
    context.beginPath();
    context.moveTo(x0, y0);
    context.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1 - 5, y1);
    context.stroke();
    context.beginPath();
    context.moveTo(x1, y1);
    context.lineTo(x1 - 8, y1 - 4);
    context.lineTo(x1 - 8, y1 + 4);
    context.fill();
  }

  outline(event, color, width) {
    const place = this.placeOf(event);
    if (!place) return;
    const { context } = this;
    const left = Math.max(-4, place.left);
    const right = Math.min(this.viewport.width + 4, Math.max(place.right, place.left + 3));
    context.strokeStyle = color;
    context.lineWidth = width;
    context.strokeRect(left, place.top + width / 2, right - left, ROW_HEIGHT - 1 - width);
  }

  /** Where an event is on the canvas, in CSS pixels; none if its track is folded away. */
  placeOf(event) {
    const row = this.model.rowOf(event);
    const lane = this.lanes.laneOfTrack.get(this.model.rowTrack[row]);
    const depth = lane ? lane.rows.indexOf(row) : -1;
    if (depth < 0) return undefined;
    const top = lane.rowsTop + depth * ROW_HEIGHT - this.scrollTop;
    return {
      left: this.viewport.xOf(this.model.start[event]),
      right: this.viewport.xOf(this.model.end(event)),
      top,
      middle: top + (ROW_HEIGHT - 1) / 2,
    };
  }

  /** What is at a point of the canvas: an event, a piece of the kernel's half, a value of a counter, a loss, or a track alone. */
  at(x, y) {
    const height = y + this.scrollTop;
    const lane = this.lanes.at(height);
    if (!lane) return undefined;
    const time = this.viewport.timeAt(x);
    const row = lane.rows[Math.floor((height - lane.rowsTop) / ROW_HEIGHT)];
    const event = row === undefined ? NONE : this.model.eventAt(row, time, 4 * this.viewport.nsPerPx);
    const series = this.counters.get(lane.track);
    const value = series ? series.indexAt(time) : -1;
    const slack = 2 * this.viewport.nsPerPx;
    const losses = this.lossesByTrack.get(lane.track) ?? [];
    const loss = losses.find((band) => band.start_ns - slack <= time && time <= band.end_ns + slack);
    const piece = this.kernelLayer?.at(lane, height, time);
    return { lane, time, event, piece, series, value, loss };
  }

  /** Scrolls so that an event's row can be seen. */
  scrollTo(event) {
    const row = this.model.rowOf(event);
    const lane = this.lanes.reveal(this.model.rowTrack[row]);
    this.layOut();
    this.scrollToHeight(lane.rowsTop + Math.max(0, lane.rows.indexOf(row)) * ROW_HEIGHT);
  }

  /** Scrolls so that what has the height of a row can be seen. */
  scrollToHeight(top) {
    const margin = Math.min(60, this.height / 4);
    if (top < this.scrollTop + margin || top + ROW_HEIGHT > this.scrollTop + this.height - margin) {
      this.scroller.scrollTop = Math.max(0, top - this.height / 2);
    }
  }

  /** The names of the visible lanes. */
  showNames() {
    const [first, last] = this.lanes.between(this.scrollTop, this.scrollTop + this.height);
    const shown = this.lanes.list.slice(first, last).map((lane) => this.nameOf(lane));
    this.names.replaceChildren(...shown);
  }

  nameOf(lane) {
    const track = this.model.tracks[lane.track];
    const folded = this.lanes.folded.has(lane.track);
    const name = element("div", { class: lane.group ? "name group" : lane.core ? "name core" : "name", role: "treeitem", "aria-level": lane.indent + 1, title: trackTitle(track) });
    name.style.top = `${lane.top - this.scrollTop}px`;
    name.style.height = `${lane.height}px`;
    name.style.paddingLeft = `${10 + lane.indent * 12}px`;
    if (lane.parent) {
      name.setAttribute("aria-expanded", String(!folded));
      const fold = element("button", { class: "fold", type: "button", "aria-label": folded ? "Unfold" : "Fold" }, folded ? "▸" : "▾");
      fold.addEventListener("click", () => {
        this.lanes.toggle(lane.track);
        this.layOut();
        this.state.changed();
      });
      name.append(fold);
    }
    if (lane.strip) name.append(this.kernelLayer.swatchOf(lane.strip));
    name.append(element("span", { class: "name-text" }, track.name));
    const note = this.noteOf(lane, track);
    if (note) name.append(element("span", { class: "name-note" }, note));
    return name;
  }

  noteOf(lane, track) {
    const series = this.counters.get(lane.track);
    if (series) return `max ${formatValue(series.max, track.unit)}`;
    if (lane.core) return this.kernelLayer.noteOf(lane.core);
    return { process: `pid ${track.pid}`, thread: `${track.tid}` }[track.kind] ?? "";
  }
}

function trackTitle(track) {
  const ids = [track.pid && `pid ${track.pid}`, track.tid && `tid ${track.tid}`].filter(Boolean);
  return [track.name, ...ids].join(", ");
}

/** An element with attributes and children, or lists of such; texts stay texts. */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  // One by one: a call takes only so many arguments, and a trace may have more.
  for (const child of children.flat()) made.append(child);
  return made;
}
