import {
  breakdownFamilies,
  dlqFamilies,
  eventFamilies,
  filterFamilies,
  flowControlFamilies,
  type ShownFacts,
} from '../collectors/index.ts';
import type { Recorder } from '../history/recorder.ts';
import { type Recorded, sampleOf } from '../history/sampling.ts';
import type { Clock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import { autoCancelFamilies } from '../metrics/auto-cancel.ts';
import type { Source } from '../metrics/family.ts';
import { ownFamilies } from '../metrics/own.ts';
import type { CheckInput } from '../rules/checks/account.ts';
import { createRecordedForChecks } from '../rules/checks/recorded.ts';
import { createAlertFacts, createSelection, type RuledAccount, windowsOf } from '../rules/facts.ts';
import { type AlertsOptions, isAbout } from '../rules/options.ts';
import type { StoreOptions } from '../store/options.ts';

/** Families in the history, from which the list in docs/store.md derives. */
export const recorded: readonly Recorded[] = [
  { family: dlqFamilies.messages },
  { family: dlqFamilies.entered },
  { family: dlqFamilies.left },
  { family: dlqFamilies.oldestEntered },
  { family: filterFamilies.filterMessages, largest: 20 },
  { family: breakdownFamilies.urlHost, largest: 10 },
  { family: breakdownFamilies.responseStatus, largest: 10 },
  { family: dlqFamilies.groups },
  { family: dlqFamilies.groupMessages },
  { family: dlqFamilies.callbacks },
  { family: dlqFamilies.suspected },
  { family: eventFamilies.total },
  { family: eventFamilies.finished },
  { family: eventFamilies.redelivered },
  { family: eventFamilies.overdue },
  { family: eventFamilies.inFlight },
  { family: eventFamilies.oldestInFlight },
  { family: eventFamilies.newest },
  { family: eventFamilies.answers },
  { family: eventFamilies.timeToDeliver },
  { family: eventFamilies.gaps },
  {
    family: flowControlFamilies.waitlistSize,
    sum: true,
    largest: 20,
    along: [flowControlFamilies.parallelismInUse, flowControlFamilies.paused],
  },
  { family: ownFamilies.requests, without: ['endpoint'] },
  { family: ownFamilies.budgetRemaining },
  { family: ownFamilies.up },
  { family: ownFamilies.counting },
  { family: ownFamilies.tokenRejected },
  { family: autoCancelFamilies.candidates },
  { family: autoCancelFamilies.actions },
];

interface RecordedAccount extends RuledAccount {
  readonly history: Recorder;
  readonly shown: () => ShownFacts;
}

interface SamplingDeps {
  readonly config: { readonly alerts: AlertsOptions };
  /** Metric sources of the account, including auto-cancel and alerts. */
  readonly sources: readonly Source[];
  readonly log: Log;
  readonly clock: Pick<Clock, 'now'>;
  /** Returns the input of the account's checks. */
  checkInput(): CheckInput;
}

const MEGABYTE = 1_000_000;

/** Returns the limits of an account's history. All accounts have equal shares of `store.history.maxMB`. */
export const historyLimits = ({ keep, maxMB }: StoreOptions['history'], accounts: number) => ({
  keep,
  maxBytes: (maxMB * MEGABYTE) / accounts,
});

/** Returns a function that adds a sample to the account's history. It never rejects. */
export function createSampling(account: RecordedAccount, deps: SamplingDeps) {
  const { config, sources, log, clock, checkInput } = deps;
  const { name, history } = account;
  const { enabled, rules } = config.alerts;
  const windows = rules.flatMap(({ when }) => (enabled && isAbout(when, name) ? windowsOf(when) : []));
  const selection = createSelection(windows, createAlertFacts(account, sources));
  const forChecks = createRecordedForChecks();
  return async (): Promise<void> => {
    try {
      const { values, unstored } = selection();
      const charted = sampleOf(recorded, sources);
      const attempts = forChecks.attempts(account.shown().events?.committed, clock.now());
      await history.sample(new Map([...attempts, ...values, ...charted]), {
        unstored: new Set([...unstored, ...[...attempts.keys()].filter(name => !values.has(name))]).difference(charted),
        hourly: () => forChecks.hourly(checkInput()),
      });
    } catch (error) {
      log.error({ account: name, stack: error instanceof Error ? error.stack : String(error) }, 'bug');
    }
  };
}
