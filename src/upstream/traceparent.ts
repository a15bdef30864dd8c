/** Version 00 of W3C trace context; ids of zeros alone are none. */
const TRACEPARENT = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;
/** Prefix under which the publisher's own headers are forwarded, in any case. */
const TRACE_HEADER = /^(?:upstash-forward-)?traceparent$/i;
/** Headers of a message that are looked through. */
const MOST_HEADERS = 200;

/** The publisher's trace context among the headers of a message, where it is a valid one. */
export function traceparentIn(header: unknown): string | undefined {
  if (typeof header !== 'object' || header === null) return undefined;
  for (const [name, value] of Object.entries(header).slice(0, MOST_HEADERS)) {
    if (!TRACE_HEADER.test(name)) continue;
    const first: unknown = Array.isArray(value) ? value[0] : value;
    if (typeof first === 'string' && TRACEPARENT.test(first)) return first;
  }
  return undefined;
}
