// Above the tracks: the minimap of the whole trace, with a window that can be dragged, and the ruler.

/** Rows that the minimap adds up; beyond, it takes every n-th. */
const MINIMAP_ROWS_MAX = 2000;
/** How much of its pixel an event fills at least, up to four of them. */
const INSTANT_LOAD = 0.05;

class Overview {
  constructor(model, viewport, state) {
    Object.assign(this, { model, viewport, state });
    this.minimap = document.getElementById("minimap");
    this.ruler = document.getElementById("ruler");
    this.anchor = document.getElementById("anchor");
    this.outermost = [];
    model.rowDepth.forEach((depth, row) => {
      if (depth === 0) this.outermost.push(row);
    });
    this.dragFrom();
  }

  resize() {
    this.scale = window.devicePixelRatio || 1;
    for (const canvas of [this.minimap, this.ruler]) {
      canvas.width = Math.round(canvas.clientWidth * this.scale);
      canvas.height = Math.round(canvas.clientHeight * this.scale);
    }
    this.load = this.loads(Math.max(1, this.minimap.clientWidth));
  }

  /** How many tracks are busy, for each pixel of the trace, and hits of a search. */
  loads(width) {
    const loads = new Float64Array(width);
    const { model } = this;
    const nsPerPx = this.viewport.trace / width;
    const step = Math.ceil(this.outermost.length / MINIMAP_ROWS_MAX);
    for (let i = 0; i < this.outermost.length; i += step) {
      const row = this.outermost[i];
      const end = model.rowFirst[row + 1];
      let event = model.rowFirst[row];
      for (let x = 0; x < width && event < end; x++) {
        const next = gallop(model.start, event, end, (x + 1) * nsPerPx);
        if (next === event) continue;
        const busy = model.before[next] - model.before[event];
        // What is too short to be seen is seen, too.
        const least = Math.min(INSTANT_LOAD * (next - event), 4 * INSTANT_LOAD) * nsPerPx;
        spread(loads, model.start[event], Math.max(busy, least), model.end(next - 1), nsPerPx);
        event = next;
      }
    }
    // A trace without events has cores alone.
    if (this.outermost.length === 0 && model.kernel) {
      for (const core of model.kernel.cores.lanes) model.kernel.cores.addLoads(loads, core, 0, nsPerPx);
    }
    return loads;
  }

  draw(palette) {
    this.drawMinimap(palette);
    this.drawRuler(palette);
  }

  drawMinimap(palette) {
    const context = this.minimap.getContext("2d");
    const width = this.minimap.clientWidth;
    const height = this.minimap.clientHeight;
    context.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    context.fillStyle = palette.surface;
    context.fillRect(0, 0, width, height);
    const peak = this.load.reduce((most, load) => Math.max(most, load), 1e-9);
    context.fillStyle = palette.muted;
    context.globalAlpha = 0.5;
    context.beginPath();
    context.moveTo(0, height);
    this.load.forEach((load, x) => {
      const y = height - Math.sqrt(load / peak) * (height - 8);
      context.lineTo(x, y);
      context.lineTo(x + 1, y);
    });
    context.lineTo(width, height);
    context.fill();
    context.globalAlpha = 1;
    this.drawTicks(context, width, height, palette);

    const left = (this.viewport.start / this.viewport.trace) * width;
    const right = (this.viewport.end / this.viewport.trace) * width;
    context.fillStyle = palette.ground;
    context.globalAlpha = 0.66;
    context.fillRect(0, 0, Math.max(0, left), height);
    context.fillRect(right, 0, Math.max(0, width - right), height);
    context.globalAlpha = 1;
    context.strokeStyle = palette.accent;
    context.lineWidth = 1.5;
    context.strokeRect(left, 1, Math.max(3, right - left), height - 2);
  }

  /** Losses and hits, at the foot of the minimap. */
  drawTicks(context, width, height, palette) {
    context.fillStyle = palette.loss;
    for (const loss of this.model.head.losses) {
      const left = (loss.start_ns / this.viewport.trace) * width;
      const right = (loss.end_ns / this.viewport.trace) * width;
      context.fillRect(left, 0, Math.max(2, right - left), 3);
    }
    const pixels = this.state.hitPixels?.(width);
    if (!pixels) return;
    context.fillStyle = palette.accent;
    pixels.forEach((hit, x) => {
      if (hit) context.fillRect(x, height - 5, 1.5, 5);
    });
  }

  drawRuler(palette) {
    const context = this.ruler.getContext("2d");
    const { viewport } = this;
    const height = this.ruler.clientHeight;
    const across = this.ruler.clientWidth;
    context.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    context.fillStyle = palette.surface;
    context.fillRect(0, 0, across, height);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    const step = rulerStep(viewport.nsPerPx * 96);
    // Far from the begin, ticks would repeat many digits: they count from an anchor, then.
    const far = Math.max(Math.abs(viewport.start), Math.abs(viewport.end)) / step > 2e4;
    const anchor = far ? Math.floor(viewport.start / (step * 100)) * step * 100 : 0;
    const label = anchor === 0 ? "" : `${formatMoment(anchor)} +`;
    if (this.anchor.textContent !== label) this.anchor.textContent = label;
    for (let n = Math.floor((viewport.start - anchor) / step); anchor + n * step < viewport.timeAt(across); n++) {
      const x = viewport.xOf(anchor + n * step);
      context.fillStyle = palette.line;
      context.fillRect(Math.round(x), 0, 1, height);
      for (let part = 1; part < 5; part++) {
        context.fillRect(Math.round(x + (part * step) / 5 / viewport.nsPerPx), height - 5, 1, 5);
      }
      context.fillStyle = palette.muted;
      context.fillText(formatTick(n * step, step), Math.round(x) + 5, height / 2);
    }
    const { mark, pointerX: x } = this.state;
    if (mark) this.drawMark(context, mark, height, palette);
    else if (x !== undefined) {
      const text = formatMoment(viewport.timeAt(x));
      const width = context.measureText(text).width + 10;
      const left = Math.min(Math.max(0, x - width / 2), viewport.width - width);
      context.fillStyle = palette.text;
      context.fillRect(left, 3, width, height - 6);
      context.fillStyle = palette.surface;
      context.fillText(text, left + 5, height / 2);
    }
  }

  drawMark(context, mark, height, palette) {
    const left = this.viewport.xOf(mark.start);
    const right = this.viewport.xOf(mark.end);
    context.fillStyle = palette.accent;
    context.fillRect(left, 0, Math.max(1, right - left), height);
    const text = formatDuration(mark.end - mark.start);
    const width = context.measureText(text).width + 10;
    const from = Math.min(Math.max(0, (left + right - width) / 2), this.viewport.width - width);
    context.fillRect(from, 0, width, height);
    context.fillStyle = palette.surface;
    context.fillText(text, from + 5, height / 2);
  }

  /** A press beside the window moves it there; then it follows the pointer. */
  dragFrom() {
    const { minimap, viewport } = this;
    let grabbed;
    const timeAt = (event) => (event.offsetX / minimap.clientWidth) * viewport.trace;
    minimap.addEventListener("pointerdown", (event) => {
      const time = timeAt(event);
      const inside = time >= viewport.start && time <= viewport.end;
      grabbed = inside ? time - viewport.start : viewport.span / 2;
      minimap.setPointerCapture(event.pointerId);
      viewport.show(time - grabbed, time - grabbed + viewport.span);
    });
    minimap.addEventListener("pointermove", (event) => {
      if (grabbed === undefined) return;
      const start = timeAt(event) - grabbed;
      viewport.show(start, start + viewport.span);
    });
    for (const end of ["pointerup", "pointercancel"]) minimap.addEventListener(end, () => (grabbed = undefined));
  }
}

/** Adds `busy` nanoseconds to the pixels between two times, evenly. */
function spread(loads, start, busy, end, nsPerPx) {
  const first = Math.min(loads.length - 1, Math.max(0, Math.floor(start / nsPerPx)));
  const last = Math.min(loads.length - 1, Math.max(first, Math.ceil(end / nsPerPx) - 1));
  const share = busy / nsPerPx / (last - first + 1);
  for (let x = first; x <= last; x++) loads[x] += share;
}
