// Colours: one hue per name, the same in every trace; each blended with the background in steps.

const HUES = 18;
/** How much of a pixel a merged slice covers, in steps; the last one is opaque. */
const SHADES = 16;

/** A colour of the OKLCH space as [red, green, blue], each 0..255. */
function rgbOfOklch(lightness, chroma, hueDegrees) {
  const hue = (hueDegrees * Math.PI) / 180;
  const a = chroma * Math.cos(hue);
  const b = chroma * Math.sin(hue);
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
  return linear.map((value) => {
    const bounded = Math.min(1, Math.max(0, value));
    const gamma = bounded <= 0.0031308 ? 12.92 * bounded : 1.055 * bounded ** (1 / 2.4) - 0.055;
    return Math.round(gamma * 255);
  });
}

/** A number that depends on the text alone. */
function hashText(text) {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  hash ^= hash >>> 15;
  return Math.imul(hash, 0x2c1b3c6d) >>> 0;
}

class Palette {
  constructor(dark) {
    this.dark = dark;
    const style = getComputedStyle(document.documentElement);
    const variable = (name) => style.getPropertyValue(name).trim();
    this.ground = variable("--ground");
    this.surface = variable("--surface");
    this.raised = variable("--raised");
    this.line = variable("--line");
    this.lineFaint = variable("--line-faint");
    this.text = variable("--text");
    this.muted = variable("--muted");
    this.accent = variable("--accent");
    this.accentSoft = variable("--accent-soft");
    this.loss = variable("--loss");
    this.label = dark ? "#f3f5f8" : "#17191d";
    this.labelFaint = dark ? "#6d7580" : "#a4a8ae";

    const ground = parseHex(this.ground);
    const blend = (color, share) => color.map((value, i) => Math.round(value * share + ground[i] * (1 - share)));
    this.hues = Array.from({ length: HUES }, (_, i) => {
      const degrees = 20 + (i * 360) / HUES;
      // Two rows of lightness keep neighbours apart.
      const step = (i % 2) * 0.045;
      return dark ? rgbOfOklch(0.47 + step, 0.085, degrees) : rgbOfOklch(0.8 + step, 0.088, degrees);
    });
    /** For threads of which a trace has no events. */
    this.paleHues = this.hues.map((_, i) => {
      const degrees = 20 + (i * 360) / HUES;
      return dark ? rgbOfOklch(0.36, 0.025, degrees) : rgbOfOklch(0.885, 0.025, degrees);
    });
    /** For lines, which need more contrast than areas. */
    this.strongHues = this.hues.map((_, i) => rgbOfOklch(dark ? 0.72 : 0.6, 0.12, 20 + (i * 360) / HUES));
    /** For each hue: SHADES steps, then the faint colour of what a search did not find. As little-endian RGBA. */
    this.pixels = new Uint32Array(HUES * (SHADES + 1));
    this.hues.forEach((color, hue) => {
      for (let shade = 0; shade < SHADES; shade++) {
        this.pixels[hue * (SHADES + 1) + shade] = packPixel(blend(color, 0.3 + (0.7 * shade) / (SHADES - 1)));
      }
      this.pixels[hue * (SHADES + 1) + SHADES] = packPixel(blend(color, dark ? 0.22 : 0.28));
    });
    /** For each pale hue: SHADES steps. */
    this.palePixels = new Uint32Array(HUES * SHADES);
    this.paleHues.forEach((color, hue) => {
      for (let shade = 0; shade < SHADES; shade++) {
        this.palePixels[hue * SHADES + shade] = packPixel(blend(color, 0.3 + (0.7 * shade) / (SHADES - 1)));
      }
    });
    this.activities = ACTIVITIES.map((activity) => variable(activity.variable));
    this.activityPixels = this.activities.map((color) => packPixel(parseHex(color)));
    this.groundPixel = packPixel(ground);
  }

  css(hue) {
    return `rgb(${this.hues[hue].join(" ")})`;
  }

  strongCss(hue) {
    return `rgb(${this.strongHues[hue].join(" ")})`;
  }

  /** The colour of a thread on a core. */
  threadPixel({ hue, pale }, shade) {
    return pale ? this.palePixels[hue * SHADES + shade] : this.pixels[hue * (SHADES + 1) + shade];
  }

  threadCss({ hue, pale }) {
    return pale ? `rgb(${this.paleHues[hue].join(" ")})` : this.css(hue);
  }

  /** What is not known is hatched. */
  unknownPixel(x, y) {
    return ((x + y) & 3) < 2 ? this.activityPixels[UNKNOWN_ACTIVITY] : this.groundPixel;
  }

  static hueOf(name) {
    // Names that differ in a number alone are of one kind.
    return hashText(name.replace(/\d+/g, "#")) % HUES;
  }
}

function parseHex(text) {
  return [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
}

function packPixel([red, green, blue]) {
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}
