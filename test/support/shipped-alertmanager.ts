import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import { parseDuration } from '../../src/kit/duration.ts';
import { serve } from './http-service.ts';

export type Labels = Readonly<Record<string, string>>;

interface Route {
  readonly routes?: readonly Route[];
  readonly group_wait?: string;
  readonly group_interval?: string;
  readonly repeat_interval?: string;
}
interface Config {
  readonly route: Route;
  readonly inhibit_rules: readonly Readonly<Record<'source_matchers' | 'target_matchers', readonly string[]>>[];
  readonly receivers: readonly { readonly name: string; readonly webhook_configs?: readonly { url: string }[] }[];
}

export const shipped = (): Config => parse(readFileSync('deploy/alertmanager.yml', 'utf8'));

/**
 * Returns the shipped configuration with all wait times and group intervals divided by `factor` and each receiver replaced by a
 * webhook whose URL contains its name. Notifications are not repeated earlier than in the shipped configuration.
 */
export function faster(factor: number, url: string): object {
  const { route, receivers, ...config } = shipped();
  const inRoute = ({ routes = [], ...own }: Route): Route => ({
    ...Object.fromEntries(
      Object.entries(own).map(([key, value]) =>
        /^group_(wait|interval)$/.test(key)
          ? [key, `${Math.round((parseDuration(String(value)) ?? Number.NaN) / factor)}ms`]
          : [key, value],
      ),
    ),
    routes: routes.map(inRoute),
  });
  return {
    ...config,
    route: inRoute(route),
    receivers: receivers.map(({ name, webhook_configs: webhooks }) => ({
      name,
      ...(webhooks && { webhook_configs: webhooks.map(webhook => ({ ...webhook, url: `${url}/${name}` })) }),
    })),
  };
}

/** Starts webhook receivers that record notifications as `receiver: names of alerts`, by job. */
export async function startReceivers() {
  const sent: { readonly job: string; readonly text: string }[] = [];
  const service = await serve((request, response) => {
    let body = '';
    request.setEncoding('utf8').on('data', chunk => {
      body += chunk;
    });
    request.on('end', () => {
      const { alerts }: { alerts: { labels: Labels; status: string }[] } = JSON.parse(body);
      const names = alerts.map(
        ({ labels, status }) => `${labels.alertname}${status === 'resolved' ? ' (resolved)' : ''}`,
      );
      sent.push({ job: alerts[0]?.labels.job ?? '', text: `${request.url?.slice(1)}: ${names.sort().join(' ')}` });
      response.end();
    });
  });
  return {
    url: service.url,
    /** Returns all notifications in order. */
    all: (): readonly string[] => sent.map(({ text }) => text),
    inJob: (name: string) => sent.flatMap(({ job, text }) => (job === name ? [text] : [])).sort(),
  };
}
