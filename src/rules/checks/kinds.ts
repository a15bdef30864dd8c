import { type DlqFacts, dlqFamilies } from '../../collectors/index.ts';
import { ALWAYS, HOUR } from '../../history/recent.ts';
import { seriesName } from '../../history/series-name.ts';
import type { CheckInput } from './account.ts';
import { covers, type Finding } from './check.ts';
import { count } from './words.ts';

type Kind = DlqFacts['kinds']['largest'][number];

/** Maximum number of kinds of dead letters with a series, and so in each sample of the history: the largest ones. */
const RECORDED_KINDS = 50;

const sizeOf = ({ shown }: CheckInput) => shown.dlq?.now?.selections.get('all')?.messages;
const kindsOf = ({ shown }: CheckInput): readonly Kind[] => shown.dlq?.now?.kinds.largest ?? [];

const seriesOf = ({ id, urlHost, responseStatus }: Kind) =>
  seriesName(dlqFamilies.groupMessages.name, { group: id, url_host: urlHost, response_status: responseStatus });

/**
 * Returns the changes of the queue and of its shown kinds over a window (ms); undefined without history of it. The change of a kind
 * is undefined if it may have been one of those that were too small to be recorded at the start of the window.
 */
export function kindChanges(input: CheckInput, over: number) {
  const { recent, now } = input;
  // Kinds are recorded only in samples of a minute, which reach back 90 minutes.
  const [start] = over > ALWAYS ? [] : recent(dlqFamilies.groups.name, over);
  if (!start) return undefined;
  const before = (series: string) => recent(series, over).find(({ at }) => at === start.at)?.value;
  const unrecorded = start.value <= RECORDED_KINDS ? 0 : undefined;
  const change = (value: number | undefined, from: number | undefined) =>
    value === undefined || from === undefined ? undefined : value - from;
  return {
    overSeconds: Math.round((now - start.at) / 1000),
    all: change(sizeOf(input), before(dlqFamilies.messages.name)),
    kinds: kindsOf(input).map(kind => ({ kind, by: change(kind.messages, before(seriesOf(kind)) ?? unrecorded) })),
  };
}

/** Describes a kind: `status 503 from api.example.com/orders`. */
function kindText({ responseStatus, urlHost, route }: Kind): string {
  const status = /^\d+$/.test(responseStatus) && responseStatus !== '0' ? `status ${responseStatus}` : 'no response';
  // Omit placeholders such as `__unmatched__`.
  return `${status} from ${urlHost}${route.startsWith('/') ? route : ''}`;
}

/** Ends a sentence with the largest kind of all dead letters, old and new: `…; largest kind in the queue: … (71 of 160).` */
export function withLargestKind(input: CheckInput, sentence: string): Omit<Finding, 'subject'> {
  const [kind] = kindsOf(input);
  if (!kind) return { text: `${sentence}.` };
  const all = sizeOf(input);
  const number = `${count(kind.messages)}${all === undefined ? '' : ` of ${count(all)}`}`;
  return { text: `${sentence}; largest kind in the queue: ${kindText(kind)} (${number}).`, deadLetterKind: kind.id };
}

/**
 * Ends a sentence with the kind that makes up most of the growth of `what` over a window (ms), or else the fastest growing kind. If
 * the window is longer than the history of kinds, the last hour counts. Returns undefined if the history does not show the kind.
 */
export function withGrowingKind(input: CheckInput, over: number, sentence: string, what = ''): Finding | undefined {
  const window = over > ALWAYS ? HOUR : over;
  const changes = kindChanges(input, window);
  const { all = 0, kinds = [] } = changes ?? {};
  const [first] = kinds.toSorted((a, b) => (b.by ?? 0) - (a.by ?? 0));
  if (!covers(changes, window) || first?.by === undefined || first.by <= 0 || all <= 0) return undefined;
  const { kind, by } = first;
  const isMost = 2 * by > all;
  // A kind of unknown growth, or one that is not shown, has grown by its size at most.
  const isHidden = (input.shown.dlq?.now?.kinds.count ?? 0) > kinds.length;
  const unknown = [...kinds.filter(each => each.by === undefined), ...(isHidden ? kinds.slice(-1) : [])];
  if (!isMost && unknown.some(each => each.kind.messages > by)) return undefined;
  const label = isMost ? `most of the growth${what}` : 'the fastest growing kind of dead letters';
  const where = `${label}${over > ALWAYS ? ' in the last hour' : ''}: ${kindText(kind)}`;
  const number = `${count(by)}${by <= all ? ` of ${count(all)}` : ''}`;
  return { text: `${sentence}; ${where} (${number}).`, deadLetterKind: kind.id };
}
