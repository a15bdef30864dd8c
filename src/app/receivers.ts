import { createAlertmanager } from '../alerts/notifiers/alertmanager.ts';
import { type Post, type Receiver, traced } from '../alerts/notifiers/receiver.ts';
import { createWebhook } from '../alerts/notifiers/webhook.ts';
import { REPEAT_EVERY } from '../alerts/repeating.ts';
import type { Config } from '../config/schema.ts';
import type { Clock } from '../kit/clock.ts';
import type { Tracer } from '../kit/tracer.ts';
import { tokenSource } from './account-client.ts';
import { identityOf } from './identity.ts';

interface ReceiversDeps {
  readonly config: Config;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly clock: Pick<Clock, 'now'>;
  readonly tracer: Tracer;
  readonly post: Post;
}

/** Every address of every notifier of a configuration. Equal settings have the same `id`. */
export interface Receivers {
  readonly id: string;
  readonly all: readonly Receiver[];
}

/** Creates the receivers of a configuration, or returns `before` if no setting has changed. Throws if a secret is missing. */
export function createReceivers(
  { config, env, clock, tracer, post }: ReceiversDeps,
  before: Receivers | undefined,
): Receivers {
  const { notifiers, evaluateEvery } = config.alerts;
  const externalUrl = config.server.externalUrl ?? '';
  // As in Prometheus, an alert ends in Alertmanager if it is not sent four times in a row.
  const holdsFor = 4 * Math.max(evaluateEvery, REPEAT_EVERY);
  const id = identityOf([notifiers, externalUrl, holdsFor]);
  if (before?.id === id) return before;

  function create({ name, alertmanager, webhook }: (typeof notifiers)[number]): readonly Receiver[] {
    const common = { notifier: name, post, now: clock.now, externalUrl };
    if (alertmanager) return createAlertmanager({ ...common, urls: alertmanager.urls, holdsFor });
    if (!webhook) return [];
    const { format, groupBy: by, groupWait: wait, repeatEvery } = webhook;
    const secret = webhook.secret ? tokenSource(webhook.secret, env) : undefined;
    const grouping = { by, wait, repeatEvery };
    return [createWebhook({ ...common, format, url: tokenSource(webhook.url, env), secret, grouping })];
  }

  return { id, all: notifiers.flatMap(create).map(receiver => traced(receiver, tracer)) };
}
