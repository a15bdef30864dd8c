/** `text`: Prometheus text 0.0.4. `openmetrics`: OpenMetrics 1.0.0. */
export type Format = 'text' | 'openmetrics';

/** Which of our formats one element of an Accept header asks for. */
function formatOf(type: string, version: string | undefined): Format | undefined {
  if (type === 'application/openmetrics-text' && (version ?? '1.0.0') === '1.0.0') return 'openmetrics';
  if (type === 'text/plain' && (version ?? '0.0.4') === '0.0.4') return 'text';
  if (type === '*/*' || type === 'text/*') return 'text';
  return undefined;
}

/**
 * The exposition format for an Accept header: OpenMetrics only where it is asked for with the highest weight,
 * else text, which every scraper reads. Of equal weights the first named wins.
 */
export function negotiateFormat(accept: string | undefined): Format {
  let best: { format: Format; weight: number } | undefined;
  for (const element of (accept ?? '').split(',')) {
    const [type = '', ...parameters] = element.split(';').map(part => part.trim().toLowerCase());
    const values = new Map(
      parameters.map(parameter => parameter.replaceAll('"', '').split('=', 2) as [string, string]),
    );
    const weight = values.has('q') ? Number(values.get('q')) : 1;
    const format = formatOf(type, values.get('version'));
    if (format && weight > (best?.weight ?? 0)) best = { format, weight };
  }
  return best?.format ?? 'text';
}
