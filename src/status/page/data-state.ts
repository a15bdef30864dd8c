import { remedyOf, serviceErrorIn } from '../../upstream/errors.ts';
import type { AccountView } from '../api/account.ts';
import type { DataState } from '../api/parts.ts';
import { ago, at } from './format.ts';
import { type Html, html } from './html.ts';
import { dataTag } from './problems.ts';
import { capital, name } from './tile.ts';

export type Round = AccountView['rounds'][number];

/** Renders the time of the next attempt, and what an operator can do about the failure. */
export function nextStep({ failure, retryAt }: Round, now: number): Html {
  const { reason = '', message = '' } = failure ?? {};
  const step = remedyOf({ reason, serviceError: serviceErrorIn(message) });
  return html`${retryAt !== null && html`Retried ${ago(retryAt, now)}. `}${step !== '' && `${capital(step)}.`}`;
}

const OLD: readonly Round['state'][] = ['withdrawn', 'stale', 'failing', 'partial', 'not_read'];

/** Returns the collector's round in the worst state, which explains the state of its data. */
function worstOf(rounds: readonly Round[], collector: string): Round | undefined {
  const own = rounds.filter(round => round.collector === collector);
  const place = ({ state }: Round) => (OLD.includes(state) ? OLD.indexOf(state) : OLD.length);
  const why = ({ failure }: Round) => (failure === null ? 1 : 0);
  return own.sort((one, other) => place(one) - place(other) || why(one) - why(other))[0];
}

const WORDS: Readonly<Record<Exclude<DataState, 'fresh'>, string>> = {
  partial: 'Some rows were unreadable: the data shown is correct but incomplete.',
  stale: 'The data is old: no later read has succeeded.',
  withdrawn: 'The last complete read is too old to be shown: — means unknown.',
  not_read: 'Nothing has been read yet: — means unknown.',
};

/** Explains why the numbers of a section are old or missing. */
export function dataNote(data: DataState, collector: string, view: AccountView): Html {
  if (data === 'fresh') return html``;
  const round = worstOf(view.rounds, collector);
  const now = Date.parse(view.now);
  const since = round?.dataAt && html` Last read at ${at(round.dataAt, now)}, ${ago(round.dataAt, now)}.`;
  const refused = view.calls?.tokenRejected === true && ' Cause: the service rejects the token.';
  const why = round?.failure ? html` Cause: ${name(round.failure.message)}. ${nextStep(round, now)}` : refused;
  const tone = data === 'withdrawn' ? 'critical' : 'warning';
  return html`<p class="note ${tone}">${dataTag(data)} ${WORDS[data]}${since}${why}</p>`;
}

export const notEnabled = (what: string, key: string): Html =>
  html`<p class="soft">${what}: <code>${key}</code> is false in the configuration.</p>`;
