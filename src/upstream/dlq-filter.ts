import { z } from 'zod';
import { parseUrl } from '../kit/text.ts';
import type { DlqEntry } from '../model/message.ts';

export const DLQ_FILTERS = [
  'messageId',
  'url',
  'topicName',
  'scheduleId',
  'queueName',
  'api',
  'fromDate',
  'toDate',
  'responseStatus',
  'callerIp',
  'label',
] as const;

type DlqFilter = (typeof DLQ_FILTERS)[number];
type Time = 'fromDate' | 'toDate';

export type DlqQuery = Readonly<Partial<Record<DlqFilter, string | number>>>;

export type Filterable = Partial<DlqEntry>;

const listOf = (value: string | undefined) => (value === undefined ? [] : [value]);

/** Values of an entry by parameter; none if the row does not report the field. */
const VALUES: Readonly<Record<Exclude<DlqFilter, Time>, (entry: Filterable) => readonly string[]>> = {
  messageId: ({ messageId }) => listOf(messageId),
  url: ({ url }) => listOf(url),
  topicName: ({ topicName }) => listOf(topicName),
  scheduleId: ({ schedule }) => listOf(schedule),
  queueName: ({ queue }) => listOf(queue),
  api: ({ api }) => listOf(api),
  responseStatus: ({ responseStatus }) => listOf(responseStatus?.toString()),
  callerIp: ({ callerIp }) => listOf(callerIp),
  label: ({ labels = [] }) => labels,
};

/** Functions that normalize different spellings of the same value, by parameter. */
const NORMAL: Readonly<Partial<Record<DlqFilter, (text: string) => string>>> = {
  url: text => parseUrl(text)?.href ?? text,
  responseStatus: text => String(Number(text)),
  callerIp: text => parseUrl(`http://[${text}]`)?.hostname ?? text,
};

/**
 * Result of comparing an entry with a filter. `unreported`: the row lacks the field. `similar`: the value matches as a prefix or
 * regardless of case, which is a contradiction like `differs`.
 */
type Comparison = 'matches' | 'unreported' | 'similar' | 'differs';

type Compare = (entry: Filterable) => Comparison;

/** The documentation does not define whether dates filter by creation or by entry into the queue: either may match. */
function compareTime(parameter: Time, bound: number): Compare {
  const isWithin = (time: number | undefined) =>
    time !== undefined && (parameter === 'fromDate' ? time >= bound : time <= bound);
  return ({ createdAt, enteredAt }) => {
    if (isWithin(createdAt) || isWithin(enteredAt)) return 'matches';
    const decisive = parameter === 'fromDate' ? enteredAt : createdAt;
    return decisive === undefined ? 'unreported' : 'differs';
  };
}

/** Compares an entry with a value. Like the service, accepts several values separated by commas. */
function compareValue(parameter: Exclude<DlqFilter, Time>, wantedText: string): Compare {
  const normal = NORMAL[parameter] ?? ((text: string) => text);
  const wanted = new Set([wantedText, ...wantedText.split(',')].flatMap(text => [text, normal(text.trim())]));
  const read = VALUES[parameter];
  // A row without a status belongs to a message without a response.
  const ofNone = parameter === 'responseStatus' && wanted.has('0') ? 'matches' : 'unreported';
  const lowered = [...wanted].map(text => text.toLowerCase());
  return entry => {
    const values = read(entry);
    if (values.length === 0) return ofNone;
    if (values.some(value => wanted.has(value) || wanted.has(normal(value)))) return 'matches';
    const isSimilar = (value: string) => lowered.some(start => value.toLowerCase().startsWith(start));
    return values.some(isSimilar) ? 'similar' : 'differs';
  };
}

const isTime = (parameter: DlqFilter): parameter is Time => parameter === 'fromDate' || parameter === 'toDate';

const parametersOf = (match: DlqQuery) => Object.keys(match) as DlqFilter[];

export type ReportedFields = ReturnType<typeof createReportedFields>;

/** Records which fields of filters occur in an account's rows. `matches`: the queries of all filters. */
export function createReportedFields(matches: readonly DlqQuery[]) {
  const parameters = matches.flatMap(parametersOf).filter(parameter => !isTime(parameter));
  const missing = new Set<Exclude<DlqFilter, Time>>(parameters);
  const found = new Set<DlqFilter>();
  return {
    add(rows: readonly Filterable[]): void {
      for (const parameter of missing) {
        if (!rows.some(row => VALUES[parameter](row).length > 0)) continue;
        missing.delete(parameter);
        found.add(parameter);
      }
    },
    has: (parameter: DlqFilter): boolean => found.has(parameter),
  };
}

/** Error for entries that the service listed although they do not match the requested filter. */
export class FilterContradiction extends Error {
  override readonly name = 'FilterContradiction';
  readonly reason = 'invalid_response';
}

/**
 * Checks the rows that a service lists for a filter. Services omit unset fields: a row without a field contradicts the filter
 * only if another row of the account has the field (`reported`).
 */
export function createFilterProof(match: DlqQuery, reported: ReportedFields) {
  const checks = parametersOf(match).map(parameter => ({
    parameter,
    compare: isTime(parameter)
      ? compareTime(parameter, Number(match[parameter]))
      : compareValue(parameter, String(match[parameter])),
    counts: { matches: 0, unreported: 0, similar: 0, differs: 0 },
  }));
  let total = 0;
  let unread = 0;
  return {
    /** `rejected`: number of unreadable rows. */
    add(rows: readonly Filterable[], rejected = 0): void {
      unread += rejected;
      reported.add(rows);
      total += rows.length;
      for (const { compare, counts } of checks) for (const row of rows) counts[compare(row)] += 1;
    },
    /** Describes the first parameter that the rows contradict; undefined if they contradict none. */
    contradiction(): FilterContradiction | undefined {
      for (const { parameter, counts } of checks) {
        const differs = counts.differs + (reported.has(parameter) ? counts.unreported : 0);
        const others = differs + counts.similar;
        if (others === 0) continue;
        const [does, how] = differs > 0 ? ['ignores', ''] : ['matches', ' as a prefix or regardless of case'];
        const finding = `the service ${does} the parameter ${parameter}${how}`;
        return new FilterContradiction(`${finding}: ${others} of ${total} rows do not match`);
      }
      return undefined;
    },
    /** Whether every row was readable, has all fields of `match` and matches. True if there were no rows. */
    isProven: (): boolean => unread === 0 && checks.every(({ counts }) => counts.matches === total),
  };
}

const IpAddress = z.union([z.ipv4(), z.ipv6()]);
/** Maximum time value of a Date. */
const LATEST = 8.64e15;
const everyPart = (value: string | number, is: (part: string) => boolean) => String(value).split(',').every(is);

/**
 * Returns the requirement that a value violates, such as `must not be empty`; undefined if the service can accept the value.
 */
export function filterValueError(parameter: DlqFilter, value: string | number): string | undefined {
  if (String(value).trim() === '') return 'must not be empty';
  if (isTime(parameter)) {
    const isMillis = /^\d{1,16}$/.test(String(value)) && Number(value) <= LATEST;
    return isMillis ? undefined : 'must be a time in milliseconds since the Unix epoch, such as 1767225600000';
  }
  if (parameter === 'responseStatus') {
    const isStatus = everyPart(value, part => /^([1-9]\d\d|0)$/.test(part.trim()));
    return isStatus ? undefined : 'must be an HTTP status code, 100 to 999, or 0 for no response';
  }
  if (parameter === 'callerIp') {
    return everyPart(value, part => IpAddress.safeParse(part.trim()).success)
      ? undefined
      : 'must be an IPv4 or IPv6 address';
  }
  return typeof value === 'string' ? undefined : 'must be text';
}
