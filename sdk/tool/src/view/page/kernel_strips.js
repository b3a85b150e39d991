// Cores and states of threads as pixels. As for events, the cost of a frame depends on the pixels.
//
// A core is one line of pixels, stretched to the height of its lane: a time of a pixel or more fills
// its pixels in the colour of its thread; shorter ones share a pixel, the more opaque, the busier the
// core was. A strip of states has several lines: where states share a pixel, they are stacked, so
// that each has the part of the height that it has of the time.

const STATE_LINES = 8;

class CoreStrips extends PixelLines {
  constructor(kernel) {
    super();
    this.kernel = kernel;
    /** Of the lane painted last, in device pixels: pieces wide enough for a text, [piece, x, width] each. */
    this.wide = [];
  }

  /** Paints a lane into a line. Times are as in `Strips.paint`. */
  paint(line, lane, start, nsPerPx, palette, wideFrom) {
    const { pixels, width } = this;
    const { cores } = this.kernel;
    const { start: begins, duration: durations, before } = cores;
    const base = line * width;
    const scale = 1 / nsPerPx;
    const end = start + width * nsPerPx;
    this.wide.length = 0;
    let piece = cores.firstEndingAfter(lane, start);
    while (piece < lane.last && begins[piece] < end) {
      const begin = begins[piece];
      const x = begin > start ? Math.floor((begin - start) * scale) : 0;
      if (durations[piece] >= nsPerPx) {
        const right = Math.floor((begin + durations[piece] - start) * scale);
        const to = Math.min(right, width);
        const gap = right - x >= 4 && right <= width ? 1 : 0;
        this.fill(base, x, to - gap, piece, shadeOf(cores.share(piece)), palette);
        if (to - x >= wideFrom) this.wide.push(piece, x, to - x);
        piece++;
        continue;
      }
      const pixelEnd = start + (x + 1) * nsPerPx;
      let next = piece + 1;
      if (next < lane.last && begins[next] < pixelEnd) {
        next = gallop(begins, next, lane.last, pixelEnd);
        // The last one may reach far beyond this pixel.
        if (durations[next - 1] >= nsPerPx) next--;
      }
      if (x < width) this.fill(base, x, x + 1, steadyChoice(piece, next), shadeOf((before[next] - before[piece]) * scale), palette);
      piece = next;
    }
  }

  fill(base, from, to, piece, shade, palette) {
    const thread = this.kernel.threadOf(piece);
    if (thread) {
      this.pixels.fill(palette.threadPixel(thread, shade), base + from, base + to);
      return;
    }
    for (let x = from; x < to; x++) this.pixels[base + x] = palette.unknownPixel(x, 0);
  }
}

/** The step that stands for a share. */
function shadeOf(share) {
  return share >= 1 ? SHADES - 1 : (share * (SHADES - 1)) | 0;
}

class StatePixels extends PixelLines {
  constructor(strips) {
    super();
    this.strips = strips;
    this.sums = new Float64Array(ACTIVITY_COUNT);
  }

  /** Paints a strip into STATE_LINES lines from `line` on. */
  paint(line, lane, start, nsPerPx, palette) {
    const { width, strips, sums } = this;
    const { start: begins, duration: durations, activity } = strips;
    const scale = 1 / nsPerPx;
    let piece = strips.firstEndingAfter(lane, start);
    let x = 0;
    while (piece < lane.last && x < width) {
      const pixelStart = start + x * nsPerPx;
      const pixelEnd = start + (x + 1) * nsPerPx;
      const begin = begins[piece];
      const end = begin + durations[piece];
      if (begin >= pixelEnd) {
        x = Math.max(x + 1, Math.floor((begin - start) * scale));
      } else if (end <= pixelStart) {
        piece++;
      } else if (begin <= pixelStart && end >= pixelEnd) {
        const to = Math.min(width, Math.max(x + 1, Math.floor((end - start) * scale)));
        this.fill(line, x, to, 0, STATE_LINES, activity[piece], palette);
        x = to;
      } else {
        sums.fill(0);
        piece = strips.addTimes(sums, lane, piece, pixelStart, pixelEnd);
        this.stack(line, x, nsPerPx, palette);
        x++;
      }
    }
  }

  /** Stacks the activities of a pixel, from the bottom. */
  stack(line, x, nsPerPx, palette) {
    let time = 0;
    let below = 0;
    for (let activity = 0; activity < ACTIVITY_COUNT; activity++) {
      if (this.sums[activity] === 0) continue;
      time += this.sums[activity];
      // What is there at all is seen.
      const top = Math.min(STATE_LINES, Math.max(1, Math.round((time / nsPerPx) * STATE_LINES)));
      this.fill(line, x, x + 1, STATE_LINES - top, STATE_LINES - below, activity, palette);
      below = top;
    }
  }

  fill(line, from, to, top, bottom, activity, palette) {
    for (let y = top; y < bottom; y++) {
      const base = (line + y) * this.width;
      if (activity !== UNKNOWN_ACTIVITY) this.pixels.fill(palette.activityPixels[activity], base + from, base + to);
      else for (let x = from; x < to; x++) this.pixels[base + x] = palette.unknownPixel(x, y);
    }
  }
}
