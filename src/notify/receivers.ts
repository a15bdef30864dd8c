import type { Clock } from '../kit/clock.ts';
import { identityOf } from '../kit/identity.ts';
import { type Env, headerError, headerText } from '../kit/secret.ts';
import type { Tracer } from '../kit/tracer.ts';
import { tokenSource } from '../upstream/token.ts';
import { createAlertmanager, REPEAT_EVERY } from './notifiers/alertmanager.ts';
import { type Post, type Receiver, traced } from './notifiers/receiver.ts';
import { createWebhook } from './notifiers/webhook.ts';
import { SEVERITIES, severityRank } from './notifiers/words.ts';
import type { NotifierOptions } from './options.ts';
import { matches } from './silences.ts';

/** `evaluateEvery`: interval between evaluations (ms). */
export interface ReceiversSettings {
  readonly alerts: { readonly notifiers: readonly NotifierOptions[]; readonly evaluateEvery: number };
  readonly server: { readonly externalUrl?: string | null | undefined };
}

interface ReceiversDeps {
  readonly config: ReceiversSettings;
  readonly env: Env;
  readonly clock: Pick<Clock, 'now'>;
  readonly tracer?: Tracer;
  readonly post: Post;
}

/** One receiver for each address of the configured notifiers. Equal settings have the same `id`. */
export interface Receivers {
  readonly id: string;
  readonly all: readonly Receiver[];
}

/** Creates the receivers of a configuration, or returns `before` if no setting has changed. Throws if the variable of a header is missing. */
export function createReceivers(
  { config, env, clock, tracer, post }: ReceiversDeps,
  before?: Receivers | undefined,
): Receivers {
  const { notifiers, evaluateEvery } = config.alerts;
  const externalUrl = config.server.externalUrl ?? '';
  // As with Prometheus, Alertmanager resolves an alert after four expected repetitions in a row have been missed.
  const holdsFor = 4 * Math.max(evaluateEvery, REPEAT_EVERY);
  const id = identityOf([notifiers, externalUrl, holdsFor]);
  if (before?.id === id) return before;

  function create({ name, severity, match, alertmanager, webhook }: NotifierOptions): readonly Receiver[] {
    const selects: Receiver['selects'] = labels =>
      severityRank(labels) >= SEVERITIES.indexOf(severity) && matches(match, labels);
    const common = {
      notifier: name,
      selects,
      post,
      now: clock.now,
      externalUrl,
    };
    if (alertmanager) return createAlertmanager({ ...common, urls: alertmanager.urls, holdsFor });
    if (!webhook) return [];
    const { format, groupBy: by, groupWait: wait, repeatEvery, body: template } = webhook;
    const secret = webhook.secret ? tokenSource(webhook.secret, env) : undefined;
    const headers = Object.fromEntries(
      Object.entries(webhook.headers).map(([name, value]) => {
        const wrong = headerError(value, env);
        if (wrong) throw new Error(wrong);
        return [name.toLowerCase(), headerText(value, env)];
      }),
    );
    const url = tokenSource(webhook.url, env);
    return [createWebhook({ ...common, format, url, secret, headers, template, grouping: { by, wait, repeatEvery } })];
  }

  return { id, all: notifiers.flatMap(create).map(receiver => (tracer ? traced(receiver, tracer) : receiver)) };
}
