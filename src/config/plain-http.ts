import type { Config } from './schema.ts';

/** What comes to this machine's own addresses leaves it on no wire. */
function isLoopback(hostname: string): boolean {
  if (/^(.+\.)?localhost\.?$/.test(hostname) || hostname === '[::1]') return true;
  return /^127(\.\d+){3}$/.test(hostname);
}

/** Whether what is sent to an address can be read on its way. */
function isPlain(address: string): boolean {
  const url = URL.parse(address);
  return url?.protocol === 'http:' && !isLoopback(url.hostname);
}

/** Addresses to which secrets go in clear, each with the path of where it stands. */
export function plainHttpWarnings({ accounts, alerts, tracing }: Pick<Config, 'accounts' | 'alerts' | 'tracing'>): {
  readonly path: readonly PropertyKey[];
  readonly message: string;
}[] {
  const sent: [path: PropertyKey[], address: string | null | undefined, what: string][] = [
    ...accounts.flatMap(({ baseUrl, regionalBaseUrl, region, management }, index): typeof sent => {
      const at = ['accounts', index];
      return [
        [[...at, 'baseUrl'], baseUrl, 'the token'],
        [[...at, 'regionalBaseUrl'], regionalBaseUrl?.replace('{region}', region ?? 'region'), 'the token'],
        [[...at, 'management', 'baseUrl'], management?.baseUrl, 'user name and password'],
      ];
    }),
    ...alerts.notifiers.flatMap(({ alertmanager, webhook }, index): typeof sent => {
      const at = ['alerts', 'notifiers', index];
      return [
        [[...at, 'webhook', 'url'], webhook?.url.reveal(), 'every alert'],
        ...(alertmanager?.urls ?? []).map((url, number): (typeof sent)[number] => [
          [...at, 'alertmanager', 'urls', number],
          url.reveal(),
          'every alert',
        ]),
      ];
    }),
    [
      ['tracing', 'endpoint'],
      tracing.enabled && Object.keys(tracing.headers).length > 0 ? tracing.endpoint : undefined,
      'what is in tracing.headers',
    ],
  ];
  return sent
    .filter(([, address]) => isPlain(address ?? ''))
    .map(([path, , what]) => ({ path, message: `is http to another host: ${what} can be read on the way; use https` }));
}
