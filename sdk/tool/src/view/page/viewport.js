// The visible range of time: zoom and pan, at once or in a short movement. Times are nanoseconds
// since the begin of the trace, widths CSS pixels.

const ZOOM_NS_PER_PX_MIN = 0.02;
const MOVEMENT_MS = 160;

class Viewport {
  constructor(traceDuration, changed) {
    this.trace = Math.max(traceDuration, 1);
    this.changed = changed;
    this.width = 1;
    this.start = 0;
    this.span = 1;
    this.movement = null;
    this.whole();
  }

  get end() {
    return this.start + this.span;
  }

  get nsPerPx() {
    return this.span / this.width;
  }

  timeAt(x) {
    return this.start + x * this.nsPerPx;
  }

  xOf(time) {
    return (time - this.start) / this.nsPerPx;
  }

  resize(width) {
    this.width = Math.max(1, width);
  }

  /** A margin of 1 % stays on both sides of the trace. */
  whole(moving = false) {
    this.show(-this.trace * 0.01, this.trace * 1.01, moving);
  }

  show(start, end, moving = false) {
    const target = this.bounded(start, end - start);
    if (moving && !matchMedia("(prefers-reduced-motion: reduce)").matches) {
      this.movement = { from: { start: this.start, span: this.span }, to: target, begun: performance.now() };
    } else {
      this.movement = null;
      Object.assign(this, target);
    }
    this.changed();
  }

  bounded(start, span) {
    const width = Math.min(Math.max(span, ZOOM_NS_PER_PX_MIN * this.width), this.trace * 1.5);
    // What is at the middle stays there if the span had to change.
    const moved = start + (span - width) / 2;
    return { start: Math.min(Math.max(moved, -width * 0.75), this.trace - width * 0.25), span: width };
  }

  /** Zooms by a factor; what is under `x` stays there. */
  zoom(factor, x, moving = false) {
    const base = this.goal();
    const share = x / this.width;
    const least = ZOOM_NS_PER_PX_MIN * this.width;
    const span = Math.min(Math.max(base.span * factor, least), this.trace * 1.5);
    const start = base.start + (base.span - span) * share;
    this.show(start, start + span, moving);
  }

  pan(px, moving = false) {
    const base = this.goal();
    const shift = (px / this.width) * base.span;
    this.show(base.start + shift, base.start + base.span + shift, moving);
  }

  /** Where a movement leads, or where we are. */
  goal() {
    return this.movement?.to ?? { start: this.start, span: this.span };
  }

  /** Moves on to the time of a frame; true while it is not there. */
  advance(now) {
    if (!this.movement) return false;
    const { from, to, begun } = this.movement;
    const share = Math.min(1, Math.max(0, (now - begun) / MOVEMENT_MS));
    const eased = 1 - (1 - share) ** 3;
    // Spans change by factors, so that a zoom has the same speed all the way.
    const span = from.span * (to.span / from.span) ** eased;
    const moved = to.span === from.span ? eased : (span - from.span) / (to.span - from.span);
    this.start = from.start + (to.start - from.start) * moved;
    this.span = span;
    if (share < 1) return true;
    Object.assign(this, to);
    this.movement = null;
    return false;
  }
}
