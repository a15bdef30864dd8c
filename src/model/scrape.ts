/** Which sources an exposition shows: every one, those of one account, or those without an account. */
export type Scope = 'everything' | 'agent' | { readonly account: string };

/** Prometheus text format 0.0.4 or OpenMetrics 1.0.0. */
export type Format = 'text' | 'openmetrics';
