import { START } from './settings.ts';
import { type Entry, happened, isListed, type LoggedEvent, runAt, runIdOf, type Shape, type Truth } from './truth.ts';

/** Kinds of requests, by path and parameters. A fault affects one kind or all kinds. */
export const QUESTIONS = ['dlq', 'workflows', 'look', 'events', 'lookup', 'runs', 'flow', 'key'] as const;
export type Question = (typeof QUESTIONS)[number];

export function questionOf(path: string, query: URLSearchParams): Question {
  if (path === '/v2/dlq') return query.get('source') ? 'workflows' : query.get('messageId') ? 'look' : 'dlq';
  if (path === '/v2/events' || path === '/v2/logs') return query.get('messageId') ? 'lookup' : 'events';
  if (path === '/v2/workflows/logs') return 'runs';
  return path === '/v2/flowControl' ? 'flow' : 'key';
}

const within = (query: URLSearchParams, at: number) =>
  START + at >= Number(query.get('fromDate') ?? 0) && START + at <= Number(query.get('toDate') ?? Infinity);

/** Creates functions that return the contents of the service's lists for a query. */
export function createLists(truth: Truth, shape: Shape) {
  function entries(query: URLSearchParams, now: number): Entry[] {
    const [status, messageId] = [query.get('responseStatus'), query.get('messageId')];
    const isApart = query.get('source') !== null && shape.source === 'apart';
    return truth.entries.filter(
      entry =>
        isListed(entry, now) &&
        within(query, entry.enteredAt) &&
        (status === null || entry.status === Number(status)) &&
        (messageId === null || entry.messageId === messageId) &&
        (!isApart || entry.runs.length > 0),
    );
  }

  function events(query: URLSearchParams, now: number): LoggedEvent[] {
    const messageId = query.get('messageId');
    return truth.events
      .filter(
        event =>
          event.listedAt <= now &&
          (messageId === null || event.messageId === messageId) &&
          within(query, event.time) &&
          happened(event),
      )
      .sort((a, b) => b.time - a.time);
  }

  /** Returns the entries of the workflow run that the query selects. */
  const runs = (query: URLSearchParams, now: number): Entry[] =>
    truth.entries.filter(
      entry => runAt(entry, now) && `${runIdOf(entry)}@${START + entry.createdAt}` === query.get('workflowRuns'),
    );

  /** Returns the page of rows after the cursor, and the next cursor. */
  function page<T>(
    all: readonly T[],
    query: URLSearchParams,
    isAfter: (row: T, place: string) => boolean,
    placeOf: (row: T) => string,
    most = shape.page,
  ) {
    const place = /^(.*)~\d+$/.exec(query.get('cursor') ?? '')?.[1];
    const left = place === undefined || place === '' ? all : all.filter(row => isAfter(row, place));
    const rows = left.slice(0, Math.min(most, Number(query.get('count') ?? 100)));
    const last = rows.at(-1);
    return {
      place: place ?? '',
      rows,
      next: rows.length < left.length && last !== undefined ? placeOf(last) : undefined,
    };
  }

  return { entries, events, runs, page };
}
