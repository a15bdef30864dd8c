import type { AccountView, AnyAccountView } from '../api/account.ts';
import type { DataState } from '../api/parts.ts';
import { ago, at } from './format.ts';
import { type Html, html } from './html.ts';
import { runbookPath } from './layout.ts';
import { dataTag } from './problems.ts';
import { name } from './tile.ts';

export type Round = AccountView['rounds'][number];

/** How to fix a failing round, by the reason of the failure. */
const NEXT_STEPS: Readonly<Record<string, readonly [step: string, runbook?: string]>> = {
  unauthorized: ['Renew the token: the service refuses it.', 'DeliveryTokenRejected'],
  forbidden: ['Allow the token to read this.', 'DeliveryTokenRejected'],
  not_found: ['Check baseUrl and paths: the service does not know the address.', 'DeliveryListsMissing'],
  rate_limited: ['Lower the budget or raise the interval: the service limits the rate.', 'DeliveryRateLimited'],
  server: ['The service fails: wait, or ask those who run it.', 'DeliveryServiceUnavailable'],
  network: ['Check DNS, proxy and firewall: delivery-watch doctor tries each.', 'DeliveryServiceUnavailable'],
  timeout: ['The service is slow: check it, or raise upstream.timeout.', 'DeliveryServiceUnavailable'],
  invalid_response: ['The answer is not what was asked for: delivery-watch doctor shows its shape.', 'DeliveryBlind'],
  refused: ['The service does not take the request: check the configuration of the account.', 'DeliveryBlind'],
  store: ['The store can’t be written: check its disk.', 'DeliveryStoreFailing'],
  bug: ['A defect of the agent: report it, with its log.'],
};

export function nextStep(round: Round, root: string): Html {
  const [step, runbook] = NEXT_STEPS[round.failure?.reason ?? ''] ?? [];
  if (step === undefined) return html``;
  return html`${step}${runbook === undefined ? '' : html` <a href="${root + runbookPath(runbook)}">Runbook</a>`}`;
}

const OLD: readonly Round['state'][] = ['withdrawn', 'stale', 'failing', 'partial', 'not_read'];

/** Returns the round that explains the state of a collector's data: the worst. */
function worstOf(rounds: readonly Round[], collector: string): Round | undefined {
  const own = rounds.filter(round => round.collector === collector);
  const place = ({ state }: Round) => (OLD.includes(state) ? OLD.indexOf(state) : OLD.length);
  const why = ({ failure }: Round) => (failure === null ? 1 : 0);
  return own.sort((one, other) => place(one) - place(other) || why(one) - why(other))[0];
}

const WORDS: Readonly<Record<Exclude<DataState, 'fresh'>, string>> = {
  partial: 'Some rows could not be read. What is shown is true, and not the whole.',
  stale: 'What is shown is old: no reading has come through since.',
  withdrawn: 'The last complete reading is too old to be shown: — stands for what is not known.',
  not_read: 'Nothing was read yet: — stands for what is not known.',
};

/** Explains at the head of a section why its numbers are old or missing. Empty for fresh data. */
export function dataNote(data: DataState, collector: string, view: AnyAccountView, root: string): Html {
  if (data === 'fresh') return html``;
  const round = worstOf(view.rounds, collector);
  const now = Date.parse(view.now);
  const since = round?.dataAt && html` Last read at ${at(round.dataAt, now)}, ${ago(round.dataAt, now)}.`;
  const refused = view.calls?.tokenRejected === true && ' Why: the service refuses the token.';
  const why = round?.failure ? html` Why: ${name(round.failure.message)}. ${nextStep(round, root)}` : refused;
  const tone = data === 'withdrawn' ? 'critical' : 'warning';
  return html`<p class="note ${tone}">${dataTag(data)} ${WORDS[data]}${since}${why}</p>`;
}

export const notEnabled = (what: string, key: string): Html =>
  html`<p class="soft">${what}: <code>${key}</code> is false in the configuration.</p>`;
