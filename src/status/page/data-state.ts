import { isOtherRegion, serviceErrorIn } from '../../upstream/errors.ts';
import type { AccountView } from '../api/account.ts';
import type { DataState } from '../api/parts.ts';
import { ago, at } from './format.ts';
import { type Html, html } from './html.ts';
import { runbookPath } from './layout.ts';
import { dataTag } from './problems.ts';
import { name } from './tile.ts';

export type Round = AccountView['rounds'][number];

/** Remedies by failure reason. */
const NEXT_STEPS: Readonly<Record<string, readonly [step: string, runbook?: string]>> = {
  unauthorized: ['Renew the token: the service rejects it.', 'DeliveryTokenRejected'],
  forbidden: ['Allow the token to read this.', 'DeliveryTokenRejected'],
  not_found: ['Check baseUrl and paths: the service has no such endpoint.', 'DeliveryDataIncomplete'],
  rate_limited: ['Lower the budget or raise the interval: the service limits the rate.', 'DeliveryReadingThrottled'],
  server: ['The service is failing: wait, or contact its operator.', 'DeliveryBlind'],
  network: ['Check DNS, proxy and firewall: delivery-watch doctor tests each.', 'DeliveryBlind'],
  timeout: ['The service is slow: check it, or raise upstream.timeout.', 'DeliveryBlind'],
  invalid_response: ['The response is invalid: delivery-watch doctor shows its structure.', 'DeliveryBlind'],
  refused: ['The service rejects the request: check the configuration of the account.', 'DeliveryBlind'],
  store: ['The store can’t be written: check its disk.', 'DeliveryStoreFailing'],
  bug: ['This is a bug in the agent: report it and attach the log.'],
};

export function nextStep(round: Round, root: string, now: number): Html {
  const { reason = '', message = '' } = round.failure ?? {};
  if (isOtherRegion(reason, serviceErrorIn(message))) return html`The token belongs to another region: check baseUrl.`;
  const retry = round.retryAt === null ? '' : html`Retried ${ago(round.retryAt, now)}. `;
  const [step, runbook] = NEXT_STEPS[reason] ?? [];
  if (step === undefined) return html`${retry}`;
  return html`${retry}${step}${runbook === undefined ? '' : html` <a href="${root + runbookPath(runbook)}">Runbook</a>`}`;
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
export function dataNote(data: DataState, collector: string, view: AccountView, root: string): Html {
  if (data === 'fresh') return html``;
  const round = worstOf(view.rounds, collector);
  const now = Date.parse(view.now);
  const since = round?.dataAt && html` Last read at ${at(round.dataAt, now)}, ${ago(round.dataAt, now)}.`;
  const refused = view.calls?.tokenRejected === true && ' Cause: the service rejects the token.';
  const why = round?.failure ? html` Cause: ${name(round.failure.message)}. ${nextStep(round, root, now)}` : refused;
  const tone = data === 'withdrawn' ? 'critical' : 'warning';
  return html`<p class="note ${tone}">${dataTag(data)} ${WORDS[data]}${since}${why}</p>`;
}

export const notEnabled = (what: string, key: string): Html =>
  html`<p class="soft">${what}: <code>${key}</code> is false in the configuration.</p>`;
