// From the text in the page to numbers: base64, deflate, then columns of varints. The layout is
// drawn at the head of `encode.rs`.

const FORMAT_VERSION = 2;
const TWO_28 = 2 ** 28;

/** The bytes that the page carries, inflated. */
async function inflateTrace(base64) {
  const compressed = bytesOfBase64(base64.trim());
  const stream = new Blob([compressed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function bytesOfBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const padding = text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0;
  const bytes = new Uint8Array((text.length / 4) * 3 - padding);
  const PIECE = 1 << 20;
  for (let from = 0, at = 0; from < text.length; from += PIECE) {
    const piece = atob(text.slice(from, from + PIECE));
    for (let i = 0; i < piece.length; i++) bytes[at++] = piece.charCodeAt(i);
  }
  return bytes;
}

/** Reads a trace's bytes from the front. */
class ByteReader {
  constructor(bytes, at = 0) {
    this.bytes = bytes;
    this.at = at;
  }

  byte() {
    return this.bytes[this.at++];
  }

  /** At most 2^53: times and counts stay below. */
  varint() {
    const { bytes } = this;
    let byte = bytes[this.at++];
    if (byte < 128) return byte;
    let value = byte & 127;
    for (let scale = 128; ; scale *= 128) {
      byte = bytes[this.at++];
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
  }

  signed() {
    const value = this.varint();
    return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
  }

  /** All 64 bits, as a number if it is exact, else as a BigInt. */
  wide() {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = this.byte();
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) break;
    }
    return value;
  }

  float() {
    const value = new DataView(this.bytes.buffer, this.bytes.byteOffset + this.at, 8).getFloat64(0, true);
    this.at += 8;
    return value;
  }

  take(length) {
    const from = this.at;
    this.at += length;
    return this.bytes.subarray(from, this.at);
  }

  text(length) {
    return new TextDecoder().decode(this.take(length));
  }

  /** Fills `column` with varints. */
  fill(column) {
    const { bytes } = this;
    let at = this.at;
    for (let i = 0; i < column.length; i++) {
      let byte = bytes[at++];
      if (byte < 128) {
        column[i] = byte;
        continue;
      }
      let value = byte & 127;
      let shift = 7;
      do {
        byte = bytes[at++];
        if (shift < 28) value |= (byte & 127) << shift;
        else value += (byte & 127) * TWO_28 * 2 ** (shift - 28);
        shift += 7;
      } while (byte >= 128);
      column[i] = value;
    }
    this.at = at;
    return column;
  }

  /** Fills `column` with sums of signed differences. */
  fillDifferences(column) {
    let value = 0;
    for (let i = 0; i < column.length; i++) {
      value += this.signed();
      column[i] = value;
    }
    return column;
  }
}

/** The parts of a trace, as they stand in its bytes. */
function decodeTrace(bytes) {
  const reader = new ByteReader(bytes);
  const version = reader.varint();
  if (version !== FORMAT_VERSION) throw new Error(`format ${version} of the data, this page reads ${FORMAT_VERSION}`);
  const head = JSON.parse(reader.text(reader.varint()));
  const strings = decodeStrings(reader);

  const labelCount = reader.varint();
  const labelName = reader.fill(new Uint32Array(labelCount));
  const labelCategory = reader.fill(new Uint32Array(labelCount));

  const rowCount = reader.varint();
  const rowTrack = reader.fillDifferences(new Uint32Array(rowCount));
  const rowDepth = reader.fill(new Uint16Array(rowCount));
  const rowLength = reader.fill(new Uint32Array(rowCount));

  const eventCount = reader.varint();
  const start = decodeStarts(reader, rowLength, eventCount);
  const label = reader.fill(new Uint32Array(eventCount));
  const args = reader.fillDifferences(new Uint32Array(eventCount));
  const instants = reader.fillDifferences(new Uint32Array(reader.varint()));
  const unfinished = reader.fillDifferences(new Uint32Array(reader.varint()));

  const argsCount = reader.varint();
  const argsLength = reader.fill(new Uint32Array(argsCount));
  const argsAt = new Uint32Array(argsCount + 1);
  for (let i = 0; i < argsCount; i++) argsAt[i + 1] = argsAt[i] + argsLength[i];
  const argsBytes = reader.take(argsAt[argsCount]);

  const flowsOfBegins = decodeFlows(reader);
  const flowsOfEnds = decodeFlows(reader);

  const counters = Array.from({ length: reader.varint() }, () => decodeCounter(reader));
  const kernel = reader.at < bytes.length ? decodeKernel(reader) : undefined;
  if (reader.at !== bytes.length) throw new Error(`${bytes.length - reader.at} bytes too many`);
  return {
    head, strings, labelName, labelCategory, rowTrack, rowDepth, rowLength,
    start: start.start, duration: start.duration, label, args, instants, unfinished,
    argsAt, argsBytes, flowsOfBegins, flowsOfEnds, counters, kernel,
  };
}

function decodeStrings(reader) {
  const lengths = reader.fill(new Uint32Array(reader.varint()));
  const decoder = new TextDecoder();
  return Array.from(lengths, (length) => decoder.decode(reader.take(length)));
}

/** Begins are distances from the end before them in the same row. */
function decodeStarts(reader, rowLength, eventCount) {
  const start = new Float64Array(eventCount);
  for (let i = 0; i < eventCount; i++) start[i] = reader.varint();
  const duration = reader.fill(new Float64Array(eventCount));
  let at = 0;
  for (const length of rowLength) {
    let end = 0;
    for (const last = at + length; at < last; at++) {
      start[at] += end;
      end = start[at] + duration[at];
    }
  }
  return { start, duration };
}

function decodeFlows(reader) {
  const count = reader.varint();
  const event = reader.fillDifferences(new Uint32Array(count));
  const flow = reader.fill(new Uint32Array(count));
  return { event, flow };
}

function decodeCounter(reader) {
  const track = reader.varint();
  const length = reader.varint();
  const integers = reader.varint() === 1;
  const time = reader.fill(new Float64Array(length));
  for (let i = 1; i < length; i++) time[i] += time[i - 1];
  const value = new Float64Array(length);
  if (integers) reader.fillDifferences(value);
  else for (let i = 0; i < length; i++) value[i] = reader.float();
  return { track, time, value };
}
