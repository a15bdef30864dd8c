/** `text`: Prometheus text 0.0.4. `openmetrics`: OpenMetrics 1.0.0. */
export type Format = 'text' | 'openmetrics';

/** All families, only agent-wide ones, or only one account's. */
export type Scope = 'everything' | 'agent' | { readonly account: string };
