// Times and numbers as text, and the steps of the ruler. All times are nanoseconds.

const TIME_UNITS = [
  { name: "s", ns: 1e9 },
  { name: "ms", ns: 1e6 },
  { name: "µs", ns: 1e3 },
  { name: "ns", ns: 1 },
];

/** The largest unit that a time fills at least once. */
function unitFor(ns) {
  const size = Math.abs(ns);
  return TIME_UNITS.find((unit) => size >= unit.ns) ?? TIME_UNITS[3];
}

/** A duration with four significant digits: `1.234 ms`. */
function formatDuration(ns) {
  if (ns === 0) return "0 ns";
  const unit = unitFor(ns);
  const value = ns / unit.ns;
  const decimals = unit.ns === 1 ? (Number.isInteger(value) ? 0 : 1) : Math.max(0, 3 - Math.floor(Math.log10(Math.abs(value))));
  return `${groupDigits(value.toFixed(decimals))} ${unit.name}`;
}

/** A moment, down to the nanosecond: `1.234 567 890 s`. */
function formatMoment(ns) {
  const rounded = Math.round(ns);
  const unit = unitFor(rounded);
  const decimals = Math.round(Math.log10(unit.ns));
  const sign = rounded < 0 ? "-" : "";
  const whole = Math.floor(Math.abs(rounded) / unit.ns);
  const rest = Math.abs(rounded) - whole * unit.ns;
  const fraction = decimals === 0 || rest === 0 ? "" : "." + String(rest).padStart(decimals, "0").replace(/(\d{3})(?=\d)/g, "$1 ");
  return `${sign}${groupDigits(String(whole))}${fraction} ${unit.name}`;
}

/** Groups the digits before the point by thin spaces. */
function groupDigits(text) {
  const [whole, fraction] = text.split(".");
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, "\u2009");
  return fraction === undefined ? grouped : `${grouped}.${fraction}`;
}

function formatCount(count) {
  return groupDigits(String(count));
}

/** The value of a counter, with its unit if it has one. */
function formatValue(value, unit) {
  let text;
  if (Number.isInteger(value)) text = groupDigits(String(value));
  else if (Math.abs(value) >= 1e6 || Math.abs(value) < 1e-3) text = value.toExponential(3);
  else text = groupDigits(String(Number(value.toPrecision(6))));
  return unit ? `${text} ${unit}` : text;
}

function formatBytes(bytes) {
  if (bytes < 1024) return `${bytes} bytes`;
  const units = ["KiB", "MiB", "GiB", "TiB"];
  let power = 0;
  let value = bytes / 1024;
  for (; value >= 1024 && power < 3; power++) value /= 1024;
  return `${value.toFixed(value < 10 ? 1 : 0)} ${units[power]}`;
}

function plural(count, noun) {
  return `${formatCount(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** The distance of marks of the ruler: 1, 2 or 5 of a power of ten, at least `leastNs`. */
function rulerStep(leastNs) {
  const power = 10 ** Math.floor(Math.log10(leastNs));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= leastNs * 0.999);
}

/** A multiple of `stepNs`, with no more decimals than the step needs. */
function formatTick(ns, stepNs) {
  const unit = ns === 0 ? unitFor(stepNs) : unitFor(ns);
  const decimals = Math.max(0, Math.ceil(Math.log10(unit.ns / stepNs) - 1e-6));
  return `${groupDigits((ns / unit.ns).toFixed(decimals))} ${unit.name}`;
}
