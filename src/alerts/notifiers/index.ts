import type { Secret } from '../../kit/secret.ts';
import { createAlertmanager } from './alertmanager.ts';
import type { Post, Receiver } from './receiver.ts';
import { createWebhook } from './webhook.ts';

/** A notifier as it is configured: exactly one of the kinds. */
export interface NotifierSettings {
  readonly name: string;
  readonly alertmanager?: { readonly urls: readonly Secret[] } | undefined;
  readonly webhook?: { readonly url: Secret; readonly secret: (() => Promise<Secret>) | undefined } | undefined;
}

export interface ReceiversDeps {
  readonly post: Post;
  /** Milliseconds since the Unix epoch. */
  readonly now: () => number;
  /** Milliseconds after which Alertmanager ends an alert that is not sent again. */
  readonly holdsFor: number;
  /** Address of the agent for people; empty for none. */
  readonly externalUrl: string;
}

/** The addresses of one notifier. */
export function receiversOf(
  { name, alertmanager, webhook }: NotifierSettings,
  { post, now, holdsFor, externalUrl }: ReceiversDeps,
): readonly Receiver[] {
  const common = { notifier: name, post, now };
  if (alertmanager) {
    return createAlertmanager({ ...common, urls: alertmanager.urls, holdsFor, generatorUrl: externalUrl });
  }
  return webhook ? [createWebhook({ ...common, ...webhook, externalUrl })] : [];
}
