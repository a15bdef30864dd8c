import { describe, expect, it } from 'vitest';
import { negotiateFormat } from '../../src/http/routes/metrics.ts';

describe('content negotiation', () => {
  it.each([
    [undefined, 'text'],
    ['', 'text'],
    ['*/*', 'text'],
    ['text/html', 'text'],
    ['text/plain;version=0.0.4', 'text'],
    ['application/openmetrics-text', 'openmetrics'],
    // Prometheus 2.42
    [
      'application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1',
      'openmetrics',
    ],
    // Prometheus 3
    [
      'application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1',
      'openmetrics',
    ],
    // Protobuf is not supported: the best other format of the header is selected.
    [
      'application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,text/plain;version=0.0.4;q=0.3,application/openmetrics-text;version=1.0.0;q=0.2',
      'text',
    ],
    ['application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited', 'text'],
    // Prometheus 2.42, 2.53 and 3 with native histograms
    [
      'application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,application/openmetrics-text;version=1.0.0;q=0.8,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1',
      'openmetrics',
    ],
    [
      'application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.5,application/openmetrics-text;version=1.0.0;q=0.4,application/openmetrics-text;version=0.0.1;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1',
      'openmetrics',
    ],
    [
      'application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1',
      'openmetrics',
    ],
    [
      'application/openmetrics-text;version=1.0.0,application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited',
      'openmetrics',
    ],
    ['application/*', 'text'],
    ['application/vnd.google.protobuf;proto;encoding;;=;q=;,;,=,"', 'text'],
    [`${'application/vnd.google.protobuf;'.repeat(200)},application/openmetrics-text`, 'openmetrics'],
    ['__proto__;__proto__=1;constructor=delimited', 'text'],
    ['application/openmetrics-text;version=0.0.1', 'text'],
    ['application/openmetrics-text;version=2.0.0;q=0.9,text/plain;q=0.1', 'text'],
    ['application/openmetrics-text;q=0', 'text'],
    ['application/openmetrics-text;q=x', 'text'],
    ['text/plain, application/openmetrics-text', 'text'],
    ['application/openmetrics-text; version="1.0.0"', 'openmetrics'],
    ['APPLICATION/OPENMETRICS-TEXT ; VERSION=1.0.0', 'openmetrics'],
  ])('the Accept header %s selects the format %s', (accept, format) => expect(negotiateFormat(accept)).toBe(format));
});
