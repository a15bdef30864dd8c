import { type DlqFacts, dlqFamilies, MAX_KINDS_SHOWN } from '../../collectors/index.ts';
import { HOUR } from '../../history/recent.ts';
import { seriesName } from '../../history/series-name.ts';
import type { CheckInput } from './account.ts';
import type { Finding } from './check.ts';
import { count, within } from './words.ts';

type Kind = DlqFacts['kinds']['largest'][number];

const sizeOf = ({ shown }: CheckInput) => shown.dlq?.now?.selections.get('all')?.messages;
const kindsOf = ({ shown }: CheckInput): readonly Kind[] => shown.dlq?.now?.kinds.largest ?? [];

const seriesOf = ({ id, urlHost, responseStatus }: Kind) =>
  seriesName(dlqFamilies.groupMessages.name, { group: id, url_host: urlHost, response_status: responseStatus });

/**
 * Returns the changes of the queue and of its shown kinds in the last hour; undefined without history of it. The change of a kind is
 * undefined if it may have been one of those that were too small to be recorded at the start of the window.
 */
export function kindChanges(input: CheckInput) {
  const { recent, now } = input;
  const [start] = recent(dlqFamilies.groups.name, HOUR);
  if (!start) return undefined;
  const before = (series: string) => recent(series, HOUR).find(({ at }) => at === start.at)?.value;
  const unrecorded = start.value <= MAX_KINDS_SHOWN ? 0 : undefined;
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
 * Ends a sentence with the kind that grew most in the last hour, as the page shows it. Returns undefined if the queue did not grow,
 * or the history does not show the kind.
 */
export function withGrowingKind(input: CheckInput, sentence: string): Finding | undefined {
  const { all = 0, kinds = [], overSeconds = 0 } = kindChanges(input) ?? {};
  const [first] = kinds.toSorted((a, b) => (b.by ?? 0) - (a.by ?? 0));
  if (first?.by === undefined || first.by <= 0 || all <= 0) return undefined;
  const { kind, by } = first;
  // A kind of unknown growth, or one that is not shown, has grown by its size at most.
  const isHidden = (input.shown.dlq?.now?.kinds.count ?? 0) > kinds.length;
  const unknown = [...kinds.filter(each => each.by === undefined), ...(isHidden ? kinds.slice(-1) : [])];
  if (2 * by <= all && unknown.some(each => each.kind.messages > by)) return undefined;
  const number = `${count(by)}${by <= all ? ` of ${count(all)}` : ''}`;
  const text = `${sentence}; fastest growing kind of dead letters ${within(overSeconds)}: ${kindText(kind)} (${number}).`;
  return { text, deadLetterKind: kind.id };
}
