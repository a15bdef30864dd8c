import { windowsOf } from '../alerts/evidence.ts';
import { type AlertCondition, isAbout } from '../alerts/options.ts';
import type { Config } from '../config/schema.ts';
import { SAMPLE_EVERY } from '../history/recorder.ts';
import { sampleOf } from '../history/sampling.ts';
import type { Log } from '../kit/log.ts';
import { createReuse, type Reuse } from '../kit/reuse.ts';
import type { Source } from '../metrics/family.ts';
import type { LoopSpec } from '../scheduler/loop-set.ts';
import type { Account } from './account.ts';
import type { AccountSettings } from './account-client.ts';
import { createAlertFacts } from './alert-facts.ts';
import { createSelection } from './alert-windows.ts';
import type { AutoCancel } from './auto-cancel.ts';
import { createIdentities } from './identity.ts';
import { recorded } from './recorded.ts';
import { judgedAccount } from './view/account.ts';

type Body = LoopSpec['body'];

/** What is recorded of the accounts of one configuration, minute by minute. */
export interface Recording {
  /** One an account, at different times; their bodies never reject. */
  readonly loops: readonly LoopSpec[];
  /** Puts its limits in the place of those before. */
  take(): void;
  /** What the next one goes on with. */
  readonly kept: Reuse<Body>;
}

export interface RecordingDeps {
  readonly config: Config;
  readonly accounts: readonly Account[];
  /** Undefined while auto-cancel is off. */
  readonly autoCancel?: Pick<AutoCancel, 'accounts'> | undefined;
  /** All that is shown. */
  readonly sources: readonly Source[];
  readonly clock: { now(): number };
  readonly log: Log;
}

const MEGABYTE = 1_000_000;
/** Milliseconds before the first sample, and between the first ones of two accounts at most. */
const [FIRST, APART] = [5000, 1000];

function bodyOf(
  account: Account,
  settings: AccountSettings,
  sources: readonly Source[],
  conditions: readonly AlertCondition[],
  { autoCancel, clock, log }: Pick<RecordingDeps, 'autoCancel' | 'clock' | 'log'>,
): Body {
  const { name, history, problems } = account;
  const acting = autoCancel?.accounts.find(each => each.account === name);
  const viewed = {
    account,
    settings,
    autoCancel: acting?.numbers,
    sources,
    recent: history.recent,
    firstSeen: problems.firstSeen,
  };
  const selection = createSelection(conditions, createAlertFacts(account, sources));
  return async () => {
    try {
      await history.sample(new Map([...selection(), ...sampleOf(recorded, sources)]));
      const now = clock.now();
      problems.saw(judgedAccount(viewed, now, 'brief').problems, now);
    } catch (error) {
      log.error({ account: name, stack: error instanceof Error ? error.stack : String(error) }, 'bug');
    }
  };
}

/** `before`: what is in use until `take`; what has not changed since goes on. */
export function openRecording(deps: RecordingDeps, before?: Recording): Recording {
  const { config, accounts, sources } = deps;
  const { alerts, store } = config;
  const settings = new Map(config.accounts.map(each => [each.name, each]));
  const kept = createReuse(before?.kept);
  const identity = createIdentities();
  const ofAccount = Map.groupBy(sources, ({ account }) => account);
  const limits = { keep: store.history.keep, maxBytes: (store.history.maxMB * MEGABYTE) / config.accounts.length };
  const apart = Math.min(APART, SAMPLE_EVERY / accounts.length);
  const all = alerts.enabled ? alerts.rules.map(({ when }) => when).filter(when => windowsOf(when).length > 0) : [];
  const loops = accounts.map((account, index): LoopSpec => {
    const own = ofAccount.get(account.name) ?? [];
    const conditions = all.filter(when => isAbout(when, account.name));
    const body = kept.of(account.name, [account, ...conditions.map(identity), ...own], () =>
      bodyOf(account, settings.get(account.name) as AccountSettings, own, conditions, deps),
    );
    return { body, every: SAMPLE_EVERY, firstDelay: FIRST + index * apart };
  });
  const recording: Recording = {
    loops,
    take() {
      kept.settle();
      for (const { history } of accounts) history.use(limits);
    },
    kept,
  };
  if (!before) recording.take();
  return recording;
}
