import { alertmanagerWebhook } from './alertmanager.ts';
import { discord } from './discord.ts';
import { pagerduty } from './pagerduty.ts';
import type { BodyFormat } from './receiver.ts';
import { slack } from './slack.ts';
import { teams } from './teams.ts';
import { template } from './template.ts';

const formats = { alertmanager: alertmanagerWebhook, slack, pagerduty, teams, discord, template } as const;

export type WebhookFormat = keyof typeof formats;
export const FORMATS: Readonly<Record<WebhookFormat, BodyFormat>> = formats;
