import { createAlertmanager } from '../alerts/notifiers/alertmanager.ts';
import { type Post, type Receiver, traced } from '../alerts/notifiers/receiver.ts';
import { createWebhook } from '../alerts/notifiers/webhook.ts';
import { REPEAT_EVERY } from '../alerts/repeating.ts';
import type { Config } from '../config/schema.ts';
import type { Clock } from '../kit/clock.ts';
import { createReuse, type Reuse } from '../kit/reuse.ts';
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

/** Receivers by the name of their notifier. */
export type Receivers = Reuse<readonly Receiver[]>;

/** Every address of every notifier; those of `before` whose notifier has not changed are the same objects. */
export function createReceivers({ config, env, clock, tracer, post }: ReceiversDeps, before?: Receivers): Receivers {
  const { notifiers, evaluateEvery } = config.alerts;
  const externalUrl = config.server.externalUrl ?? '';
  // As Prometheus does: three times may fail.
  const holdsFor = 4 * Math.max(evaluateEvery, REPEAT_EVERY);

  function create({ name, alertmanager, webhook }: (typeof notifiers)[number]): readonly Receiver[] {
    const common = { notifier: name, post, now: clock.now, externalUrl };
    if (alertmanager) return createAlertmanager({ ...common, urls: alertmanager.urls, holdsFor });
    if (!webhook) return [];
    const { format, groupBy: by, groupWait: wait, repeatEvery } = webhook;
    const secret = webhook.secret ? tokenSource(webhook.secret, env) : undefined;
    const grouping = { by, wait, repeatEvery };
    return [createWebhook({ ...common, format, url: tokenSource(webhook.url, env), secret, grouping })];
  }

  const receivers = createReuse(before);
  for (const notifier of notifiers) {
    const parts = [identityOf([notifier, externalUrl, notifier.alertmanager ? holdsFor : 0])];
    receivers.of(notifier.name, parts, () => create(notifier).map(receiver => traced(receiver, tracer)));
  }
  return receivers;
}
