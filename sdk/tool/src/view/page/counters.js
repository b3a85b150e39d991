// Counters: areas that step at each value. Where many values share a pixel, it shows their range.

/** Values in a block whose least and greatest are known beforehand. */
const BLOCK = 64;

class CounterSeries {
  constructor(counter, name) {
    this.track = counter.track;
    this.hue = Palette.hueOf(name);
    this.time = counter.time;
    this.value = counter.value;
    const blocks = Math.ceil(this.value.length / BLOCK);
    this.blockMin = new Float64Array(blocks).fill(Infinity);
    this.blockMax = new Float64Array(blocks).fill(-Infinity);
    for (let i = 0; i < this.value.length; i++) {
      const block = (i / BLOCK) | 0;
      this.blockMin[block] = Math.min(this.blockMin[block], this.value[i]);
      this.blockMax[block] = Math.max(this.blockMax[block], this.value[i]);
    }
    const [min, max] = this.range(0, this.value.length);
    this.min = min;
    this.max = max;
    /** Areas stand on zero, unless all values are far above it, or some below. */
    this.floor = min >= 0 && min < max * 0.8 ? 0 : min;
    this.ceiling = max > this.floor ? max : this.floor + 1;
  }

  /** The least and the greatest of the values [from, to). */
  range(from, to) {
    let min = Infinity;
    let max = -Infinity;
    let i = from;
    while (i < to) {
      if (i % BLOCK === 0 && i + BLOCK <= to) {
        min = Math.min(min, this.blockMin[i / BLOCK]);
        max = Math.max(max, this.blockMax[i / BLOCK]);
        i += BLOCK;
      } else {
        min = Math.min(min, this.value[i]);
        max = Math.max(max, this.value[i]);
        i++;
      }
    }
    return [min, max];
  }

  /** The index of the value that holds at a time, or -1 before the first. */
  indexAt(time) {
    return upperBound(this.time, 0, this.time.length, time) - 1;
  }

  draw(context, viewport, top, height, palette) {
    const { time, value } = this;
    const y = (v) => top + height - ((v - this.floor) / (this.ceiling - this.floor)) * height;
    const { width, nsPerPx } = viewport;
    const from = Math.max(0, this.indexAt(viewport.start));
    const to = lowerBound(time, from, time.length, viewport.end);
    if (to <= from) return;
    const bottom = top + height;
    const line = new Path2D();
    const ranges = new Path2D();
    const area = new Path2D();
    let x = viewport.xOf(time[from]);
    let level = y(value[from]);
    area.moveTo(x, bottom);
    area.lineTo(x, level);
    line.moveTo(x, level);
    for (let i = from + 1; i < to; ) {
      const pixel = Math.floor((time[i] - viewport.start) / nsPerPx);
      const next = gallop(time, i, to, viewport.start + (pixel + 1) * nsPerPx);
      x = viewport.xOf(time[i]);
      area.lineTo(x, level);
      line.lineTo(x, level);
      if (next - i > 2) {
        const [min, max] = this.range(i, next);
        ranges.rect(x, y(max), 1, Math.max(1, y(min) - y(max)));
        area.lineTo(x, y(max));
      }
      const last = Math.max(i + 1, next);
      level = y(value[last - 1]);
      area.lineTo(x, level);
      line.lineTo(x, level);
      i = last;
    }
    // The last value holds until the trace ends.
    const right = Math.min(width, viewport.xOf(to < time.length ? time[to] : viewport.trace));
    area.lineTo(right, level);
    line.lineTo(right, level);
    area.lineTo(right, bottom);
    context.globalAlpha = palette.dark ? 0.3 : 0.28;
    context.fillStyle = palette.strongCss(this.hue);
    context.fill(area);
    context.globalAlpha = 0.5;
    context.fill(ranges);
    context.globalAlpha = 1;
    context.strokeStyle = palette.strongCss(this.hue);
    context.lineWidth = 1.25;
    context.stroke(line);
  }
}
