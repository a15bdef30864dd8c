import { alertmanagerWebhook } from './alertmanager.ts';
import { discord } from './discord.ts';
import type { BodyFormat } from './format.ts';
import { pagerduty } from './pagerduty.ts';
import { slack } from './slack.ts';
import { teams } from './teams.ts';
import { template } from './template.ts';

const formats = { alertmanager: alertmanagerWebhook, slack, pagerduty, teams, discord, template } as const;

export type WebhookFormat = keyof typeof formats;
export const FORMATS: Readonly<Record<WebhookFormat, BodyFormat>> = formats;
