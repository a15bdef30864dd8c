import type { Clock } from '../kit/clock.ts';
import { identityOf } from '../kit/identity.ts';
import type { Tracer } from '../kit/tracer.ts';
import { tokenSource } from '../upstream/token.ts';
import { createAlertmanager } from './notifiers/alertmanager.ts';
import { type Post, type Receiver, traced } from './notifiers/receiver.ts';
import { createWebhook } from './notifiers/webhook.ts';
import { FORMATS, type NotifierOptions } from './options.ts';
import { REPEAT_EVERY } from './repeating.ts';

/** `evaluateEvery`: interval between evaluations (ms). */
export interface ReceiversSettings {
  readonly alerts: { readonly notifiers: readonly NotifierOptions[]; readonly evaluateEvery: number };
  readonly server: { readonly externalUrl?: string | null | undefined };
}

interface ReceiversDeps {
  readonly config: ReceiversSettings;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly clock: Pick<Clock, 'now'>;
  readonly tracer: Tracer;
  readonly post: Post;
}

/** One receiver for each address of the configured notifiers. Equal settings have the same `id`. */
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
  // As with Prometheus, Alertmanager resolves an alert after four expected repetitions in a row have been missed.
  const holdsFor = 4 * Math.max(evaluateEvery, REPEAT_EVERY);
  const id = identityOf([notifiers, externalUrl, holdsFor]);
  if (before?.id === id) return before;

  function create({ name, alertmanager, webhook }: NotifierOptions): readonly Receiver[] {
    const common = { notifier: name, post, now: clock.now, externalUrl };
    if (alertmanager) return createAlertmanager({ ...common, urls: alertmanager.urls, holdsFor });
    if (!webhook) return [];
    const { format, groupBy: by, groupWait: wait, repeatEvery } = webhook;
    const secret = webhook.secret ? tokenSource(webhook.secret, env) : undefined;
    const grouping = FORMATS[format].isGrouped ? { by, wait, repeatEvery } : undefined;
    return [createWebhook({ ...common, format, url: tokenSource(webhook.url, env), secret, grouping })];
  }

  return { id, all: notifiers.flatMap(create).map(receiver => traced(receiver, tracer)) };
}
