import type { Secret } from '../../kit/secret.ts';
import type { Notice } from '../notice.ts';
import type { Group } from './receiver.ts';

export interface Notification {
  readonly notices: readonly Notice[];
  readonly group: Group;
  readonly externalUrl: string;
  readonly notifier: string;
  readonly secret: Secret | undefined;
  /** Body of the format `template`. */
  readonly template: string;
}

export interface BodyFormat {
  /** Description in the reference of the configuration. */
  readonly about: string;
  readonly maxAlerts: number;
  /** Whether anyone with the URL may post there. */
  readonly hasSecretUrl?: true;
  /** Default of `url`; undefined if it is required. */
  readonly url?: string;
  /** Meaning of `secret` if the body must contain it; undefined if `secret` signs requests. */
  readonly key?: string;
  /** Whether each alert is a separate request, without groups and repetitions. */
  readonly isSingle?: true;
  bodyOf(notification: Notification): string;
  /** Whether the body of a response with status 2xx reports an error. */
  isError?(text: string): boolean;
}
