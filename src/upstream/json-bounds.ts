/** Shorter texts are parsed in some tens of milliseconds, whatever they hold. */
const SHORT = 1024 * 1024;
/** Objects and arrays: a list of a million keys has a million and one. */
const MOST_CONTAINERS = 2_000_000;
const MOST_VALUES = 10_000_000;
const DEEPEST = 200;

const [QUOTE, BACKSLASH, COMMA] = [0x22, 0x5c, 0x2c];
const OPEN = [0x7b, 0x5b];
const CLOSE = [0x7d, 0x5d];

/**
 * Whether JSON text would take far more memory and time than its bytes suggest: a few kilobytes, packed, hold millions of
 * empty objects. Looks at the bytes alone; what is no JSON may be called either.
 */
export function isJsonBomb(text: Uint8Array): boolean {
  if (text.length <= SHORT) return false;
  let [containers, values, depth, isText] = [0, 0, 0, false];
  for (let at = 0; at < text.length; at += 1) {
    const byte = text[at];
    if (isText) {
      if (byte === BACKSLASH) at += 1;
      else if (byte === QUOTE) isText = false;
    } else if (byte === QUOTE) isText = true;
    else if (byte === COMMA) values += 1;
    else if (byte === OPEN[0] || byte === OPEN[1]) {
      containers += 1;
      depth += 1;
      if (depth > DEEPEST || containers > MOST_CONTAINERS) return true;
    } else if (byte === CLOSE[0] || byte === CLOSE[1]) depth -= 1;
  }
  return values > MOST_VALUES;
}
