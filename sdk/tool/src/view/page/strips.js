// Events as strips of pixels: one line of device pixels per row, stretched to the row's height.
//
// What a frame costs depends on the pixels, not on the events: a slice of a pixel or more fills its
// pixels; those that begin inside of one pixel become that pixel, in the colour of one of them, and
// the more opaque, the more of the pixel they cover. Binary searches find where the next pixel begins.

/** Lines of device pixels, which go to a canvas together. */
class PixelLines {
  constructor() {
    this.canvas = new OffscreenCanvas(1, 1);
    this.context = this.canvas.getContext("2d", { willReadFrequently: false });
  }

  /** Prepares `rows` lines of `width` device pixels. */
  begin(width, rows) {
    if (this.canvas.width !== width || this.canvas.height < rows) {
      this.canvas.width = Math.max(1, width);
      this.canvas.height = Math.max(1, rows, this.canvas.height);
      this.image = new ImageData(this.canvas.width, this.canvas.height);
      this.pixels = new Uint32Array(this.image.data.buffer);
    }
    this.width = width;
    this.rows = rows;
    this.pixels.fill(0, 0, width * rows);
  }

  /** Hands the lines to the canvas. */
  end() {
    this.context.putImageData(this.image, 0, 0, 0, 0, this.width, this.rows);
  }
}

class Strips extends PixelLines {
  constructor(model) {
    super();
    this.model = model;
    this.labelHue = new Uint8Array(model.labelName.length);
    model.labelName.forEach((name, label) => (this.labelHue[label] = Palette.hueOf(model.strings[name])));
    /** Of the row painted last, in device pixels: slices wide enough for a text, [event, x, width] each. */
    this.wide = [];
    /** And instants that have a mark, [event, x] each. */
    this.marks = [];
  }

  /**
   * Paints a row into a line. `start` is the time at the left edge and a multiple of `nsPerPx`: then
   * the same events share a pixel while the view is dragged.
   * `found`, if there is a search: `hit[event]`, and `before[event]`, the hits before it.
   */
  paint(line, row, start, nsPerPx, palette, found, wideFrom, markEvery) {
    const { model, pixels, width, labelHue } = this;
    const { start: begins, duration: durations, label: labels, before, kind } = model;
    const colors = palette.pixels;
    const stride = SHADES + 1;
    const base = line * width;
    const end = model.rowFirst[row + 1];
    const lastTime = start + width * nsPerPx;
    const scale = 1 / nsPerPx;
    this.wide.length = 0;
    this.marks.length = 0;
    let lastMark = -Infinity;
    let event = model.firstEndingAfter(row, start);
    while (event < end) {
      const begin = begins[event];
      if (begin >= lastTime) break;
      const duration = durations[event];
      const x = begin > start ? Math.floor((begin - start) * scale) : 0;
      if (duration >= nsPerPx) {
        const right = Math.floor((begin + duration - start) * scale);
        const to = right < width ? right : width;
        const shade = found && found.hit[event] === 0 ? SHADES : SHADES - 1;
        // The last pixel of a broader one stays free, so that neighbours are told apart.
        const gap = right - x >= 4 && right <= width ? 1 : 0;
        pixels.fill(colors[labelHue[labels[event]] * stride + shade], base + x, base + to - gap);
        if (to - x >= wideFrom) this.wide.push(event, x, to - x);
        event++;
        continue;
      }
      let next = event + 1;
      if (next < end && begins[next] < start + (x + 1) * nsPerPx) {
        next = gallop(begins, next, end, start + (x + 1) * nsPerPx);
        // The last one may reach far beyond this pixel.
        if (durations[next - 1] >= nsPerPx) next--;
      }
      if (x < width) {
        const chosen = steadyChoice(event, next);
        let shade;
        if (found && found.before[next] === found.before[event]) shade = SHADES;
        else if (found || kind[chosen] & INSTANT) shade = SHADES - 1;
        else {
          const covered = (before[next] - before[event]) * scale;
          shade = covered >= 1 ? SHADES - 1 : (covered * (SHADES - 1)) | 0;
        }
        pixels[base + x] = colors[labelHue[labels[chosen]] * stride + shade];
        // Marks stand apart; a crowd of instants is a strip.
        if (kind[chosen] & INSTANT && next === event + 1) {
          if (x - lastMark >= markEvery) this.marks.push(chosen, x);
          lastMark = x;
        }
      }
      event = next;
    }
  }
}

/** The index in [from, to) that has the most trailing zero bits: it stays while the range grows and moves a little. */
function steadyChoice(from, to) {
  const last = to - 1;
  if (last === from) return from;
  const highestDifference = 31 - Math.clz32(last ^ (from - 1));
  return highestDifference >= 31 ? last : last & (-1 << highestDifference);
}
