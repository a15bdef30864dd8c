/** Number of prepared pages of an event log, and of events per page, for `ingest.ts` and its server. */
export const PAGES = 200;
export const ROWS = 1000;
export const START = 1_700_000_000_000;
/** Interval between two events (ms). */
export const APART = 50;

/** Creates one event of about 1 KB. Messages have three events each and overlap. */
function row(index: number): object {
  const [message, step] = [Math.floor(index / 3), index % 3];
  return {
    time: String(START + index * APART),
    messageId: `msg_26hZCxZCuWyyTWPmSVBrNB1${message.toString(36).padStart(6, '0')}`,
    state: ['CREATED', 'ACTIVE', 'DELIVERED'][step],
    url: `https://tenant-${message % 50}.example.com/hooks/payments?order=${message}`,
    method: 'POST',
    header: { 'Content-Type': ['application/json'], 'Upstash-Retries': ['3'], Authorization: ['REDACTED:5f3a'] },
    queueName: 'payments',
    maxRetries: 3,
    body: 'eyJyZWYiOiJmb28ifQ=='.repeat(30),
    ...(step === 2 ? { responseStatus: 200 } : {}),
  };
}

/** The pages, oldest first. Within a page, the newest event comes first. */
export const pages = Array.from({ length: PAGES }, (_, page) => {
  const events = Array.from({ length: ROWS }, (_, index) => row(page * ROWS + ROWS - 1 - index));
  const from = START + page * ROWS * APART;
  // Serialize both variants in advance, so that requests cost almost nothing.
  const texts = { last: JSON.stringify({ events }), middle: JSON.stringify({ cursor: String(page), events }) };
  return { from, to: from + ROWS * APART - 1, ...texts };
});

/** Returns the latest page that precedes the cursor and overlaps the requested range. */
export function answer(query: URLSearchParams): string {
  const [from, to] = [Number(query.get('fromDate')), Number(query.get('toDate'))];
  const last = Number(query.get('cursor') ?? PAGES);
  const at = pages.findLastIndex((page, index) => index < last && page.from <= to && page.to >= from);
  const more = at > 0 && (pages[at - 1]?.to ?? 0) >= from;
  return pages[at]?.[more ? 'middle' : 'last'] ?? '{"events":[]}';
}
