/** Returns OpenTelemetry's attributes of an HTTP client span. Redacts values in `template` and `query`. */
export function serverAttributes(base: string, template: string, query?: URLSearchParams) {
  const { protocol, hostname, host, port, pathname } = new URL(base);
  const path = `${pathname.replace(/\/+$/, '')}${template.replace(/\{\w+\}/g, 'REDACTED')}`;
  const names = [...new Set(query?.keys())].map(name => `${name}=REDACTED`).join('&');
  return {
    'server.address': hostname,
    'server.port': port === '' ? (protocol === 'http:' ? 80 : 443) : Number(port),
    'url.full': `${protocol}//${host}${path}${names === '' ? '' : `?${names}`}`,
  };
}
